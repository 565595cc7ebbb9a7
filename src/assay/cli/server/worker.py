"""`assay worker`: execute the runs of servers that share a PostgreSQL, together with other workers."""

import asyncio
import signal
from typing import Any, Literal, NamedTuple

import msgspec

from assay import settings
from assay.cli.console.console import echo, echo_err_plain, echo_json
from assay.cli.server.serve import listen
from assay.cli.server.server_log import configure_log
from assay.concurrency import event_loop
from assay.concurrency.event_loop import END_SECONDS, STOP_SECONDS, end_process_after, nothing_left
from assay.extras import require
from assay.host import parts, servers
from assay.host.worker import open_worker
from assay.ports.telemetry import telemetry
from assay.runs.work_queue import KIND, LIMIT, TENANT, records


class WorkerOptions(NamedTuple):
    """Where the probes of the worker listen, and its own checks. Without a port there are no probes."""

    host: str
    port: int | None
    insecure: bool
    modules: list[str]


def main(
    options: WorkerOptions, log_format: Literal["text", "json"], log_level: str, **overrides: Any
) -> None:
    """Work until a signal stops it. `overrides` are settings."""
    configure_log(log_format, log_level)
    chosen = settings.load(**overrides)
    require(
        "a worker",
        "store",
        "workers",
        *(["guard"] if chosen.evidence_key is not None else []),
        *(["serve"] if options.port is not None else []),
    )
    telemetry.tracer = parts.tracer()
    try:
        event_loop.run(_work(chosen, options))
    finally:
        if telemetry.tracer is not None:
            telemetry.tracer.close()


async def _work(config: settings.Settings, options: WorkerOptions) -> None:
    tls = servers.tls(config)
    binding = None
    if options.port is not None:
        binding = listen(options.host, options.port, tls, insecure=options.insecure)
    async with open_worker(config, options.modules) as (worker, executor):
        echo(
            f"worker {worker.registry.executor_id} has started: {config.concurrency} units at once, a lease of"
            f" {config.workers.lease:g} s",
            flush=True,
        )
        if binding is None:
            await _signalled()
        else:
            server = await servers.probe_server(
                executor, config, worker.registry.clock, host=binding.host, port=0, tls=tls
            )
            echo(f"its probes and metrics are at {binding.address}", flush=True)
            await server.serve(sockets=[binding.listener])  # a signal ends it
        end_process_after(STOP_SECONDS, executor.left)
    echo_err_plain("assay has stopped; other workers continue its runs")
    end_process_after(END_SECONDS, nothing_left)


async def _signalled() -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    await stop.wait()


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
        records_of = records(workers)
        return [
            {"worker": one.key, "seen": one.updated.isoformat(), **msgspec.to_builtins(records_of[one.key])}
            for one in workers
        ]
