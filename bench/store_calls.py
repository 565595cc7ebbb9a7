"""Calls to a store of many runs, compared with the same calls to a store of few. Both have full pages."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from assay.backends.stores.records.record_rows import moment
from assay.backends.stores.sql.store import SqlStore
from assay.ports import (
    ACTIVE,
    CreateRun,
    Event,
    EvidenceChunk,
    PutDocument,
    RunQuery,
    RunUpdate,
    Transaction,
)
from assay.ports.audit import AuditEntry
from bench.database import Database
from bench.measure import Row
from bench.population import TENANT, Population, created_of, mix, suite_of

FEW = 500
BAR = 1.2
RESTING = frozenset({"waiting-approval", "waiting-input"})
KINDS = frozenset({"evaluation", "agent-eval", "workflow"})
Call = Callable[[], Awaitable[Any]]


class Spent(NamedTuple):
    cpu: float
    wall: float


def calls_of(store: SqlStore, population: Population) -> dict[str, Call]:
    """By name. The first group has the bar of 1.2; `unbounded` names the others."""
    middle = population.count // 2
    id, deep = population.id(middle), (moment(created_of(middle, population.count)), population.id(middle))
    number = 0

    def listed(**query: Any) -> Call:
        filters: dict[str, Any] = {"tenant": TENANT, "limit": 20, **query}
        return lambda: store.runs(RunQuery(**filters))

    async def start() -> None:
        nonlocal number
        number += 1
        run, now = f"run-{number}-{time.time_ns()}", datetime.now(UTC)
        opens = CreateRun(tenant=TENANT, kind="evaluation", name=suite_of(number), holder="bench", seconds=60)
        started = RunUpdate(
            run=run,
            opens=opens,
            status="running",
            events=[Event("evaluation.started", b"{}", now)],
            evidence=[EvidenceChunk(kind="request", data=b"{}")],
        )
        key = PutDocument(tenant=TENANT, kind="idempotency", key=run, data=b"{}")
        line = AuditEntry(tenant=TENANT, who="bench", action="run.start", what=run)
        await store.commit(Transaction(entries=[started], documents=[key], lines=[line]))
        ended = RunUpdate(run=run, holder="bench", status="completed")
        await store.commit(Transaction(entries=[ended]))

    return {
        "list": listed(),
        "list of all tenants": listed(tenant=None),
        "filter: kind": listed(kind="evaluation"),
        "filter: status": listed(statuses=frozenset({"failed"})),
        "filter: a status that no run has": listed(statuses=RESTING),
        "filter: suite": listed(name=suite_of(4)),
        "filter: verdict": listed(passed=False),
        "page in the middle": listed(before=deep),
        "page in the middle, one kind": listed(before=deep, kind="agent-eval"),
        "order by score": listed(order="score"),
        "order by score, page in the middle": listed(order="score", beyond=(0.5, *deep)),
        "order by duration": listed(order="duration"),
        "show: run": lambda: store.run(id),
        "show: events": lambda: store.events(id),
        "show: sums of the cases of a page": lambda: store.case_totals(
            [population.id(at) for at in range(middle - 10, middle + 10)]
        ),
        "heartbeat: renew leases": lambda: store.renew("nobody", seconds=10),
        "heartbeat: adopt lost runs": lambda: store.adopt("nobody", seconds=10),
        "look for expired waits": listed(tenant=None, kind="workflow", statuses=RESTING, limit=200),
        "count active runs": listed(tenant=None, statuses=ACTIVE, limit=1000),
        "idempotency: find a key": lambda: store.document(
            TENANT, "idempotency", f"{mix(middle):08x}{0:056x}"
        ),
        "idempotency: delete old keys": lambda: store.sweep(
            "idempotency", before=datetime(2026, 1, 1, tzinfo=UTC)
        ),
        "retention: a page": listed(kinds=KINDS, evidence=True, limit=100),
        "audit log: a page": lambda: store.audit(TENANT, limit=100),
        "start and end a run": start,  # the last: it leaves a log to write back
    }


def unbounded_calls(store: SqlStore) -> dict[str, Call]:
    """Calls whose answers count all runs."""
    query = RunQuery(tenant=TENANT, limit=20)
    return {
        "counts by kind and status": lambda: store.count_runs(query),
        "groups by suite": lambda: store.group_runs(query),
    }


async def compare(few: str, many: str, sizes: tuple[Population, Population], rounds: int) -> list[Row]:
    """Alternate between the stores. A row has the ratios of CPU, with that of PostgreSQL's processes, of all rounds."""
    stores = [await SqlStore.open(address) for address in (few, many)]
    databases = [Database(address) if address.startswith("postgresql") else None for address in (few, many)]
    try:
        sets = [calls_of(store, population) for store, population in zip(stores, sizes, strict=True)]
        rows = [await _row(name, [calls[name] for calls in sets], databases, rounds, BAR) for name in sets[0]]
        others = [unbounded_calls(store) for store in stores]
        rows += [
            await _row(name, [calls[name] for calls in others], databases, 3, float("inf"))
            for name in others[0]
        ]
        return rows
    finally:
        for store, database in zip(stores, databases, strict=True):
            await store.close()
            if database is not None:
                database.close()


async def _row(
    name: str, calls: list[Call], databases: list[Database | None], rounds: int, bar: float
) -> Row:
    for call in calls * 2:  # caches and prepared statements
        await call()
    spent = list[list[Spent]]()
    repeats = 5 if bar == BAR else 1
    for at in range(rounds):
        order = [0, 1] if at % 2 == 0 else [1, 0]
        found = {which: await _spend(calls[which], databases[which], repeats) for which in order}
        spent.append([found[0], found[1]])
    least = [min(one[which].cpu for one in spent) * 1000 / repeats for which in (0, 1)]
    walls = sorted(many.wall / few.wall for few, many in spent)
    note = f"{least[0]:.2f} ms and {least[1]:.2f} ms; wall {walls[len(walls) // 2]:.2f}x"
    return Row(name, "at most", bar, values=[many.cpu / few.cpu for few, many in spent], note=note)


async def _spend(call: Call, database: Database | None, repeats: int) -> Spent:
    server = 0.0 if database is None else database.cpu
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(repeats):
        await call()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    server = 0.0 if database is None else database.cpu - server
    return Spent(cpu + server, wall)


def measure(few: str, many: str, sizes: tuple[Population, Population], rounds: int) -> list[Row]:
    return asyncio.run(compare(few, many, sizes, rounds))
