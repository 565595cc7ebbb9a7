"""The work of SQLite for a page of runs does not grow with the number of runs. It is counted in steps, not in seconds."""

from datetime import UTC, datetime, timedelta

import pytest

from assay.backends.stores.records import queries, run_lists
from assay.backends.stores.records.codec import RecordCodec
from assay.backends.stores.records.record_rows import stamp
from assay.backends.stores.sql import migrate, tables
from assay.backends.stores.sql.connect import open_engine
from assay.backends.stores.sql.writer import SqlDatabase
from assay.ports import ACTIVE, RunQuery

START = datetime(2026, 1, 1, tzinfo=UTC)
SIZES = (400, 6_000)
RESTING = frozenset({"waiting-approval", "waiting-input"})
CODEC = RecordCodec(None)


def row(n):
    """One run in four belongs to the suite `often`, and one in ten failed. The oldest run alone waits."""
    created = stamp(START + timedelta(seconds=n))
    return {
        "id": f"r{n:06}", "tenant": "t", "kind": ("evaluation", "agent-eval")[n % 2],
        "status": "completed" if n % 10 else "failed", "name": f"s{n % 50}" if n % 4 else "often", "head": b"{}",
        "created": created, "started": created, "ended": created + n % 97, "events": 3, "takeovers": 0,
        "score": n % 100 / 100, "cost": n / 7 if n % 3 else None, "passed": int(n % 100 > 40),
    } | ({"status": "waiting-approval", "kind": "workflow"} if n == 0 else {})  # fmt: skip


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A connection to a store of each size."""
    engines = []
    for size in SIZES:
        file = tmp_path_factory.mktemp("runs") / f"{size}.db"
        engines.append(engine := open_engine(f"sqlite:///{file}"))
        migrate.bring_up(engine, lambda point: None)
        with engine.connect().execution_options(writes=True) as connection, connection.begin():
            connection.execute(tables.runs.insert(), [row(n) for n in range(size)])
    yield engines
    for engine in engines:
        engine.dispose()


def steps_of(engine, ask):
    """The answer, and how many steps of its machine SQLite took for it."""
    steps = 0

    def step():
        nonlocal steps
        steps += 1

    with engine.connect() as connection, connection.begin():
        driver = connection.connection.driver_connection
        driver.set_progress_handler(step, 10)
        try:
            return ask(connection), steps * 10
        finally:
            driver.set_progress_handler(None, 0)


def middle(size):
    return START + timedelta(seconds=size // 2), f"r{size // 2:06}"


LISTS = {
    "all": {},
    "every tenant": {"tenant": None},
    "kind": {"kind": "evaluation"},
    "kinds": {"kinds": frozenset({"evaluation", "workflow"})},
    "status": {"statuses": frozenset({"failed"})},
    "status of every tenant": {"tenant": None, "statuses": frozenset({"failed"})},
    "no such kind": {"kind": "deployment"},
    "one run waits": {"statuses": RESTING},
    "one run waits, of every tenant": {"tenant": None, "kind": "workflow", "statuses": RESTING},
    "none is active": {"tenant": None, "statuses": ACTIVE},
    "name": {"name": "often"},
    "no such name": {"name": "never"},
    "verdict": {"passed": False, "kind": "agent-eval"},
    "oldest first": {"ascending": True},
    "by score": {"order": "score"},
    "by score, least first": {"order": "score", "ascending": True},
    "by cost": {"order": "cost", "statuses": frozenset({"failed"})},
    "by duration": {"order": "duration", "passed": True},
    "none has the score": {"order": "score", "kind": "deployment"},
}


@pytest.mark.parametrize("deep", [False, True], ids=["first page", "deep page"])
@pytest.mark.parametrize("name", LISTS)
def test_a_page_of_many_runs_takes_the_steps_of_a_page_of_few(stores, name, deep):
    taken = []
    for engine, size in zip(stores, SIZES, strict=True):
        query = {"tenant": "t", "limit": 10, **LISTS[name]}
        if deep and query.get("order", "created") == "created" and not query.get("ascending"):
            query["before"] = middle(size)
        elif deep:
            query["beyond"] = (48 if name == "by duration" else 0.5, *middle(size))
        taken.append(
            steps_of(
                engine,
                lambda connection, query=query: run_lists.list_runs(
                    SqlDatabase(connection, CODEC), RunQuery(**query)
                ),
            )
        )
    (few, less), (many, more) = taken
    assert len(few) == len(many)
    assert more <= 1.5 * less + 200, "a query reads more of a larger store: it needs an index"


@pytest.mark.parametrize("seek", ["held", "lost"])
def test_a_heartbeat_does_not_read_the_runs_that_ended(stores, seek):
    def ask(connection):
        if seek == "held":
            return queries.held_runs(SqlDatabase(connection, CODEC), "me", lock=True)
        return queries.lost_runs(SqlDatabase(connection, CODEC), "me", START, 10, 3)

    (few, less), (many, more) = (steps_of(engine, ask) for engine in stores)
    assert few == many == []
    assert more <= less + 100
