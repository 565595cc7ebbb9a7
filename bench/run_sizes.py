"""The cost of a result against the size of its run, and the size of the store: a server gets the first workload as lines."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from bench.database import Database, cpu_of
from bench.files import Bench
from bench.service import evaluate_lines, start_server


class SizedRun(Struct, frozen=True):
    """One run. `tables` has the octets of each table with its indexes, beyond those of an empty store."""

    store: str
    results: int
    cpu: float  # seconds, of the server and of PostgreSQL
    peak_mb: float
    tables: dict[str, int]


def run_of_size(bench: Bench, results: int, database: Database | None) -> SizedRun:
    """A new server evaluates and stores `results` results."""
    task = bench.task(results)
    folder = bench.folder / f"{'sqlite' if database is None else 'postgresql'}-{results}"
    with start_server(folder, "" if database is None else database.address) as host:
        before = _sizes(folder, database)
        cpu = cpu_of(host.process.pid) + (database.cpu if database else 0.0)
        asyncio.run(evaluate_lines(host, Path(task.contexts)))
        cpu = cpu_of(host.process.pid) + (database.cpu if database else 0.0) - cpu
        peak = host.memory("VmHWM")
    after = _sizes(folder, database)
    tables = {name: size - before.get(name, 0) for name, size in after.items()}
    return SizedRun("SQLite" if database is None else "PostgreSQL", results, cpu, peak, tables)


def size_table(runs: list[SizedRun]) -> str:
    lines = ["| store | results of the run | CPU a result | peak memory of the server |", "|---|--:|--:|--:|"]
    for run in runs:
        each = run.cpu / run.results * 1e6
        lines.append(f"| {run.store} | {run.results:,} | {each:.0f} µs | {run.peak_mb:.0f} MB |")
    return "\n".join(lines)


def storage_table(runs: list[SizedRun]) -> str:
    """The octets of a result, by table, of the largest run in each kind of store."""
    largest = {run.store: run for run in sorted(runs, key=lambda run: run.results)}
    lines = ["| store | results | octets a result | most of it in |", "|---|--:|--:|---|"]
    for store, run in largest.items():
        tables = sorted(run.tables.items(), key=lambda one: -one[1])[:3]
        parts = ", ".join(f"`{name}` {size / run.results:.0f}" for name, size in tables if size > 0)
        total = sum(run.tables.values()) / run.results
        lines.append(f"| {store} | {run.results:,} | {total:.0f} | {parts} |")
    return "\n".join(lines)


def _sizes(folder: Path, database: Database | None) -> dict[str, int]:
    if database is not None:
        return database.sizes()
    with closing(sqlite3.connect(folder / "assay.db")) as connection:
        rows = connection.execute(
            "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_master USING (name) GROUP BY tbl_name"
        )
        return dict(rows.fetchall())
