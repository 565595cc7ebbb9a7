"""`assay worker`: execute the runs of servers that share a PostgreSQL, together with other workers."""

import asyncio
import signal
from typing import Any, Literal

import msgspec

from assay import settings
from assay.cli.console.console import echo, echo_err_plain, echo_json
from assay.concurrency import event_loop
from assay.concurrency.event_loop import END_SECONDS, STOP_SECONDS, end_process_after, nothing_left
from assay.extras import require
from assay.host import parts
from assay.host.worker import open_worker
from assay.ports.telemetry import telemetry
from assay.runs.fleet import KIND, LIMIT, TENANT, records
from assay.serve.web import logging


def main(modules: list[str], log_format: Literal["text", "json"], log_level: str, **overrides: Any) -> None:
    """Work until a signal stops it. `overrides` are settings."""
    chosen = settings.load(**overrides)
    require("a worker", "store", "workers", *(["guard"] if chosen.evidence_key is not None else []))
    logging.configure(log_format, log_level)
    telemetry.tracer = parts.tracer()
    try:
        event_loop.run(_work(chosen, modules))
    finally:
        if telemetry.tracer is not None:
            telemetry.tracer.close()


async def _work(config: settings.Settings, modules: list[str]) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    async with open_worker(config, modules) as (worker, executor):
        echo(
            f"worker {worker.registry.executor_id} has started: {config.concurrency} units at once, a lease of"
            f" {config.workers.lease:g} s",
            flush=True,
        )
        await stop.wait()
        end_process_after(STOP_SECONDS, executor.left)
    echo_err_plain("assay has stopped; other workers continue its runs")
    end_process_after(END_SECONDS, nothing_left)


def list_workers(*, as_json: bool) -> None:
    """Print the workers that are registered in the database."""
    rows = asyncio.run(_read_workers(settings.load()))
    if as_json:
        echo_json(msgspec.json.encode(rows))
        return
    if not rows:
        echo("no worker is registered")
    for row in rows:
        echo(
            f"{row['worker']}  {row['host']}, process {row['process']}, assay {row['version']}, seen {row['seen']}:"
            f" {row['executed']:,} units executed, {row['repeated']:,} repeated, {row['refused']:,} refused"
        )


async def _read_workers(config: settings.Settings) -> list[dict[str, Any]]:
    async with parts.store(config) as store:
        workers = await store.documents(TENANT, KIND, limit=LIMIT)
        said = records(workers)
        return [
            {"worker": one.key, "seen": one.updated.isoformat(), **msgspec.to_builtins(said[one.key])}
            for one in workers
        ]
