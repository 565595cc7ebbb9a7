"""A server to be measured: everything `assay serve` has, gRPC beside REST, and one bare endpoint that decodes and echoes a body."""

import asyncio
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from assay import app as composition
from assay.access.gate import Gate
from assay.access.local import local_key
from assay.serve.grpc.server import Server as GrpcServer
from assay.serve.rest.app import create_app
from assay.serve.rest.server import server
from assay.settings import Settings


async def bare(receive: Any, send: Any) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    answer = msgspec.json.encode(msgspec.json.decode(body))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


async def main(home: str) -> None:
    settings = Settings(home=home)
    async with composition.house(settings) as house:
        key = await local_key(house.store, Path(home), datetime.now(UTC))
        full: Any = create_app(house.desk, house.office, Gate(house.store).authenticate, settings.serving)

        async def either(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and scope["path"] == "/bare":
                await bare(receive, send)
            else:
                await full(scope, receive, send)

        either.state = full.state  # type: ignore[attr-defined]
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen(2048)
        calls = GrpcServer(full.state.host, address="127.0.0.1", port=0)
        beside = asyncio.create_task(calls.serve())
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        print(f"{address} {key.text.reveal()} 127.0.0.1:{calls.port}", flush=True)
        serving: Any = either
        await server(serving, settings.serving, host="127.0.0.1", port=0).serve(sockets=[listening])
        await beside


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
