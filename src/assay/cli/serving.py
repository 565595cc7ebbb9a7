"""What `assay serve` does: open the record, take up what was cut off, listen, and leave in good order."""

import asyncio
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path

from assay import app, settings
from assay.access.local import local_key
from assay.cli.say import say
from assay.errors import Broken

HOST = "127.0.0.1"  # this machine alone


def run(port: int, modules: list[str]) -> None:
    asyncio.run(_serve(settings.load(), port, modules))


async def _serve(chosen: settings.Settings, port: int, modules: list[str]) -> None:
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
            telling = asyncio.create_task(_tell(transport, address))
            await transport.serve(sockets=[listening])
            telling.cancel()
            print("assay has stopped; what was under way goes on at the next start", file=sys.stderr)  # noqa: T201


async def _tell(transport: app.Transport, address: str) -> None:
    """Once it listens, and a signal ends it in good order."""
    while not transport.started:  # noqa: ASYNC110  # uvicorn has nothing to wait for
        await asyncio.sleep(0.01)
    print(f"assay serves {address}  (the routes: {address}/v1/docs)", flush=True)  # noqa: T201


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
