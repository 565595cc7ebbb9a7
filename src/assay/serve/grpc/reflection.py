"""Reflection in both versions: v1, which newer clients use, has the messages of v1alpha in another package."""

from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format
from grpc_reflection.v1alpha import reflection, reflection_pb2

ALPHA = reflection.SERVICE_NAME
V1 = "grpc.reflection.v1.ServerReflection"
_FILE = "grpc/reflection/v1/reflection.proto"


def enable_reflection(services: Sequence[str], server: grpc.aio.Server) -> None:
    """Serve both versions. Each describes these services and both reflection services."""
    names = (*services, ALPHA, V1)
    _describe_v1()
    reflection.enable_server_reflection(names, server)
    servicer: Any = reflection.aio.ReflectionServicer(names)
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(V1, {"ServerReflectionInfo": handler})]
    )


def _describe_v1() -> None:
    """Register the v1 file, so that a client can also reflect on the reflection service."""
    pool = descriptor_pool.Default()
    try:
        pool.FindFileByName(_FILE)
    except KeyError:
        alpha = descriptor_pb2.FileDescriptorProto.FromString(reflection_pb2.DESCRIPTOR.serialized_pb)
        text = json_format.MessageToJson(alpha).replace("reflection/v1alpha", "reflection/v1")
        text = text.replace("reflection.v1alpha", "reflection.v1")
        pool.Add(json_format.Parse(text, descriptor_pb2.FileDescriptorProto()))  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
