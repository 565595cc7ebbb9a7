"""`assay worker`: execute the runs of servers that share a PostgreSQL, together with other workers."""

import asyncio
import signal
from typing import Any, Literal

from assay import app, settings
from assay.cli.console import echo, echo_err_plain
from assay.extras import require
from assay.ports.telemetry import telemetry
from assay.serve.web import event_loop, logging
from assay.worker import open_worker


def main(modules: list[str], log_format: Literal["text", "json"], log_level: str, **overrides: Any) -> None:
    """Work until a signal stops it. `overrides` are settings."""
    chosen = settings.load(**overrides)
    require("a worker", "store", "workers", *(["guard"] if chosen.evidence_key is not None else []))
    logging.configure(log_format, log_level)
    telemetry.tracer = app.tracer()
    try:
        event_loop.run(_work(chosen, modules))
    finally:
        if telemetry.tracer is not None:
            telemetry.tracer.close()


async def _work(config: settings.Settings, modules: list[str]) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    async with open_worker(config, modules) as (worker, _executor):
        echo(
            f"assay works as {worker.registry.executor_id}: {config.concurrency} units at once, a lease of"
            f" {config.workers.lease:g} s",
            flush=True,
        )
        await stop.wait()
    echo_err_plain("assay has stopped; other workers continue its runs")
