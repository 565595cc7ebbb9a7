"""One `assay serve` for the sessions with requests. Each session has a tenant of its own, so that none sees the runs of another."""

import contextlib
import functools
import shutil
import signal
from typing import Any

import grpc
import httpx
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass
from google.rpc.status_pb2 import Status

from assay.serve.grpc import fep_pb2 as fep
from golden.session import ENVIRON, PROJECT
from support.waiting import PATIENCE

SCOPES = ["approvals:respond", "deploy:promote", "deploy:rollback", "evaluations:create", "evaluations:read", "manifest:read",
          "runs:create", "runs:read", "runs:cancel", "suites:read", "suites:write"]  # fmt: skip
METHODS = {
    method.name: method for service in fep.DESCRIPTOR.services_by_name.values() for method in service.methods
}


@contextlib.contextmanager
def serving(zygote, folder):
    """A function that returns a client of the server for a tenant."""
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
    start = functools.partial(zygote.start, folder=folder, environ={**ENVIRON, "PYTHONUNBUFFERED": "1"})
    process = start("serve", "--port", "0", pipe=True)
    with contextlib.ExitStack() as stack:
        stack.callback(process.close)
        addresses = [process.stdout.readline().split()[2] for _ in range(2)]
        channel = stack.enter_context(grpc.insecure_channel(addresses[1].partition("://")[2]))

        def client(tenant):
            words = [word for scope in SCOPES for word in ("--scope", scope)]
            made, _ = start("admin", "key", "create", "--tenant", tenant, *words).communicate()
            key = next(word for word in made.split() if word.startswith("assay_"))
            http = httpx.Client(
                base_url=addresses[0], headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE
            )
            return Client(stack.enter_context(http), channel, key)

        yield client
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


class Client:
    def __init__(self, http, channel, key):
        self.http, self._channel, self._key = http, channel, key

    def call(self, name, document):
        """The last message of the answer over gRPC, or the error, as text."""
        method = METHODS[name]
        request, response = (GetMessageClass(one) for one in (method.input_type, method.output_type))
        kind = self._channel.unary_stream if method.server_streaming else self._channel.unary_unary
        rpc = kind(
            f"/{method.containing_service.full_name}/{name}", request.SerializeToString, response.FromString
        )
        metadata = (("authorization", f"Bearer {self._key}"),)
        try:
            answer = rpc(json_format.Parse(document, request()), metadata=metadata, timeout=PATIENCE)
            return show(list(answer)[-1] if method.server_streaming else answer)
        except grpc.RpcError as refused:
            error = fep.FepError()
            trailers: Any = refused.trailing_metadata()
            Status.FromString(dict(trailers)["grpc-status-details-bin"]).details[0].Unpack(error)
            return f"{refused.code().name}\n{show(error)}"


def show(message):
    return json_format.MessageToJson(
        message, preserving_proto_field_name=True, sort_keys=True, indent=1, ensure_ascii=False
    )
