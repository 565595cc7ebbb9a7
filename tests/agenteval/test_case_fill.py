"""Rows of the table of cases for a store that the version before has written: the same rows, also after an interruption."""

from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from assay.agenteval import case_fill
from assay.agenteval.case_fill import fill_all, fill_run
from assay.backends.stores import migrate
from assay.backends.stores.connect import open_engine
from assay.backends.stores.open import open_store
from assay.backends.stores.tables import runs
from assay.runs.case_blocks import all_blocks
from support.evals import golden, rubric
from support.openwop_client import done, suite
from support.rest_client import Server, request_of

SUITE = suite(
    golden("a", "Paris", "Paris"), golden("b", "Rome", "Paris"), rubric("c", ("greets", 0.75), ("steps", 0.25)),
    modes=("golden", "rubric"), name="filled",
)  # fmt: skip


def judge(ask):
    return {name: {"reason": "so", "met": name == "criterion_1"} for name in ("criterion_1", "criterion_2")}


def made_older(address):
    """Make the schema of the version before of a database: its tables and columns of cases go."""
    engine = open_engine(address)
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        for row in connection.execute(sa.select(runs.c.id, runs.c.head)).all():
            head = msgspec.json.decode(row.head)
            head.pop("checks", None)
            connection.execute(
                sa.update(runs).where(runs.c.id == row.id).values(head=msgspec.json.encode(head))
            )
        for index in ("by_group", "by_status", "by_score", "by_cost", "by_duration", "open"):
            connection.execute(sa.text(f"DROP INDEX runs_{index}"))
        connection.execute(sa.text("CREATE INDEX runs_at_work ON runs (created)"))
        for table in ("case_blocks", "unfilled", "tenant_keys"):
            connection.execute(sa.text(f"DROP TABLE {table}"))
        for column in ("score", "cost", "passed"):
            connection.execute(sa.text(f"ALTER TABLE runs DROP COLUMN {column}"))
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0003'"))
    migrate.bring_up(engine, lambda point: None)
    engine.dispose()


@pytest.mark.anyio
async def test_rows_are_made_from_results_and_are_those_that_were_written(database, monkeypatch):
    address = database

    async def table():
        store = await open_store(address)
        try:
            found = {}
            for run in sorted(ids):
                blocks = [msgspec.structs.replace(one, sequence=0) for one in await all_blocks(store, run)]
                kept = await store.run(run)
                found[run] = blocks, kept.facts, kept.metadata.get("checks")
            return found
        finally:
            await store.close()

    with Server(address, judge=judge) as host, host.client() as client:
        request: dict[str, Any] = request_of(3)
        request["outputs"][1] = {"value": "Rome", "metadata": {"latency_ms": 7, "cost_usd": 0.5}}
        ids = [client.post("/v1/evaluate", json=request).json()["evaluation_id"]]
        ids += [done(client, SUITE), done(client, SUITE, trials=2)]
    before = await table()
    assert all(blocks for blocks, _, _ in before.values())

    made_older(address)
    store = await open_store(address)
    assert sorted(one.run for one in await store.unfilled()) == sorted(ids)
    assert await store.case_totals(ids) == {}
    monkeypatch.setattr(case_fill, "STEP_ROWS", 1)
    (repeated,) = await store.unfilled(run=ids[2])
    fill, steps = store.fill, 0

    async def interrupted(*args, **kwargs):
        nonlocal steps
        steps += 1
        if steps == 3:
            raise KeyboardInterrupt
        await fill(*args, **kwargs)

    monkeypatch.setattr(store, "fill", interrupted)
    with pytest.raises(KeyboardInterrupt):
        await fill_run(store, repeated)
    monkeypatch.setattr(store, "fill", fill)
    (left,) = await store.unfilled(run=ids[2])
    assert left.next == 2  # it continues there
    assert await fill_all(store) == 3
    assert await store.unfilled() == []
    await store.close()
    assert await table() == before
