"""What `assay serve` does: open the record, take up what was cut off, listen, and leave in good order."""

import asyncio
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path

from assay import app, settings
from assay.access.local import local_key
from assay.cli.say import say
from assay.errors import Broken, Missing

HOST = "127.0.0.1"  # this machine alone


def run(port: int, grpc_port: int | None, modules: list[str]) -> None:
    asyncio.run(_serve(settings.load(), port, grpc_port, modules))


async def _serve(chosen: settings.Settings, port: int, grpc_port: int | None, modules: list[str]) -> None:
    listening = _listening(port)
    with listening:
        async with app.house(chosen, modules) as house:
            address = f"http://{HOST}:{listening.getsockname()[1]}"
            if not chosen.database_url:
                key = await local_key(house.store, Path(chosen.home), datetime.now(UTC))
                if key.created:
                    use = f'curl -H "X-API-Key: $(cat {key.path})" {address}/v1/evaluations'
                    say(f"a key of your own is in {key.path}; use it with: {use}")
            transport = app.rest(house, chosen, host=HOST, port=port)
            calls = _calls(transport, chosen, 0 if grpc_port is None and port == 0 else grpc_port)
            telling = asyncio.create_task(_tell(transport, address, calls))
            beside = asyncio.create_task(calls.serve()) if calls else None
            try:
                await transport.serve(sockets=[listening])
            finally:
                transport.host.stop()
                telling.cancel()
                if beside is not None:
                    await beside
            print("assay has stopped; what was under way goes on at the next start", file=sys.stderr)  # noqa: T201


def _calls(transport: app.Transport, chosen: settings.Settings, asked: int | None) -> app.Calls | None:
    """gRPC beside REST; without its extra only if nobody has asked for it."""
    try:
        return app.grpc(transport, host=HOST, port=chosen.grpc_port if asked is None else asked)
    except Missing as missing:
        if asked is not None:
            raise
        say(f"REST alone is served: {missing}")
        return None


async def _tell(transport: app.Transport, address: str, calls: app.Calls | None) -> None:
    """Once it listens, and a signal ends it in good order."""
    while not transport.started:  # noqa: ASYNC110  # uvicorn has nothing to wait for
        await asyncio.sleep(0.01)
    print(f"assay serves {address}  (the routes: {address}/v1/docs)", flush=True)  # noqa: T201
    if calls is not None:
        print(f"assay serves grpc://{HOST}:{calls.port}  (it has reflection and health)", flush=True)  # noqa: T201


def _listening(port: int) -> socket.socket:
    """The place to listen, before anything is opened."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(2048)
    except OSError as wrong:
        listening.close()
        raise Broken(
            f"port {port} cannot be used: {wrong.strerror}; --port 0 takes any that is free"
        ) from None
    return listening
