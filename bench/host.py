"""
A server to measure: all of `assay serve`, REST and gRPC, and endpoints that decode and echo a body.

`/bare` is the first route of the same server. `/echo` is a function in front of all routes. `/parse` parses spans.
"""

import asyncio
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assay.auth.authenticator import Authenticator
from assay.auth.local_key import local_key
from assay.concurrency import event_loop as loops
from assay.host import host as composition
from assay.ports.config import TraceProjectConfig
from assay.serve.application import http_app
from assay.serve.grpc.server import RpcServer as GrpcServer
from assay.serve.web.server import server
from assay.settings import Settings
from assay.traces.otlp import items_of_protobuf

PROJECT = TraceProjectConfig(checks=[{"contains": "degrees"}], settle="0s", quiet="10s")


async def bare(request: Request) -> Response:
    return Response(
        msgspec.json.encode(msgspec.json.decode(await request.body())), media_type="application/json"
    )


async def parse(request: Request) -> Response:
    """A receiver of traces that only parses."""
    _ = list(items_of_protobuf(await request.body()))
    return Response(b"")


async def echo(receive: Any, send: Any) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    answer = msgspec.json.encode(msgspec.json.decode(body))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


async def main(home: str, database: str = "") -> None:
    settings = Settings(home=home, database_url=database, traces={"bench": PROJECT})
    async with composition.open_runtime(settings) as runtime:
        key = await local_key(runtime.store, Path(home), datetime.now(UTC))
        authenticate = Authenticator(runtime.store).authenticate
        full: Any = http_app(
            runtime.executor,
            runtime.evaluations,
            None,
            authenticate,
            settings.serving,
            traces=runtime.traces,
        )

        full.router.routes[:0] = [
            Route("/bare", bare, methods=["POST"]),
            Route("/parse", parse, methods=["POST"]),
        ]

        async def either(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and scope["path"] == "/echo":
                await echo(receive, send)
            else:
                await full(scope, receive, send)

        either.state = full.state  # type: ignore[attr-defined]
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen(2048)
        calls = GrpcServer(full.state.server, address="127.0.0.1", port=0)
        beside = asyncio.create_task(calls.serve())
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        print(f"{address} {key.text.reveal()} 127.0.0.1:{calls.port}", flush=True)
        serving: Any = either
        await server(serving, settings.serving, host="127.0.0.1", port=0).serve(sockets=[listening])
        await beside


if __name__ == "__main__":
    loops.run(main(*sys.argv[1:]))
