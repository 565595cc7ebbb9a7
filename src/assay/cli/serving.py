"""What `assay serve` does: open the record, take up what was cut off, listen, and leave in good order."""

import asyncio
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from assay import app, settings, transports
from assay.auth.local_key import local_key
from assay.cli.binding import Binding, listen
from assay.cli.say import note, say, tell
from assay.errors import MissingExtra, UsageError
from assay.ports.telemetry import telemetry
from assay.serve.web import event_loop as loops
from assay.serve.web import logging as logs
from assay.serve.web.tls import Tls


class ServeOptions(NamedTuple):
    """Where the command line wants it to listen."""

    host: str
    port: int
    grpc_port: int | None
    insecure: bool


class LogOptions(NamedTuple):
    """And what it wants to read of it."""

    form: logs.Format = "text"
    level: str = "warning"


def run(asked: ServeOptions, modules: list[str], log: LogOptions, **given: Any) -> None:
    _can_serve()
    logs.configure(log.form, log.level)
    telemetry.tracer = app.tracer()
    try:
        loops.run(_serve(settings.load(**given), asked, modules))
    finally:
        if telemetry.tracer is not None:
            telemetry.tracer.close()


def _can_serve() -> None:
    """Said first, before anything is opened."""
    try:
        import_module("assay.serve.web.server")
        import_module("assay.serve.fep.routes")
    except ModuleNotFoundError as error:
        raise UsageError(f"a server needs {error.name}: pip install 'assay[serve,store]'") from error


async def _serve(chosen: settings.Settings, asked: ServeOptions, modules: list[str]) -> None:
    tls = transports.tls(chosen)
    place = listen(asked.host, asked.port, tls, insecure=asked.insecure)
    with place.listening:
        async with app.open_runtime(chosen, modules) as runtime:
            if not chosen.database_url:
                key = await local_key(runtime.store, Path(chosen.home), datetime.now(UTC))
                if key.created:
                    use = f'curl -H "X-API-Key: $(cat {key.path})" {place.address}/v1/evaluations'
                    say(f"a key of your own is in {key.path}; use it with: {use}")
            transport = transports.http_server(runtime, chosen, host=place.host, port=asked.port, tls=tls)
            calls = _calls(transport, chosen, asked, place.host, tls)
            telling = asyncio.create_task(_tell(transport, place, calls))
            beside = asyncio.create_task(calls.serve()) if calls else None
            try:
                await transport.serve(sockets=[place.listening])
            finally:
                transport.state.stop()
                telling.cancel()
                if beside is not None:
                    await beside
            note("assay has stopped; what was under way goes on at the next start")


def _calls(
    transport: transports.HttpServer,
    chosen: settings.Settings,
    asked: ServeOptions,
    host: str,
    tls: Tls | None,
) -> transports.GrpcServer | None:
    """gRPC beside REST; without its extra only if nobody has asked for it. Where REST takes any port, it does so too."""
    port = 0 if asked.grpc_port is None and asked.port == 0 else asked.grpc_port
    try:
        return transports.grpc_server(
            transport, host=host, port=chosen.grpc_port if port is None else port, tls=tls
        )
    except MissingExtra as missing:
        if port is not None:
            raise
        say(f"REST alone is served: {missing}")
        return None


async def _tell(
    transport: transports.HttpServer, place: Binding, calls: transports.GrpcServer | None
) -> None:
    """Once it listens, and a signal ends it in good order."""
    while not transport.started:  # noqa: ASYNC110  # uvicorn has nothing to wait for
        await asyncio.sleep(0.01)
    tell(f"assay serves {place.address}  (the routes: {place.address}/v1/docs)", now=True)
    if calls is not None:
        tell(f"assay serves {place.grpc(calls.port)}  (it has reflection and health)", now=True)
