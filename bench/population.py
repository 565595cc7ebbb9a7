"""
Fills a store with many runs by bulk inserts into its tables. The rows are copies of real runs, and depend only on their number.

Each run has the events, evidence, cases and audit line of the run that it copies, and an idempotency key.
"""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from psycopg.sql import SQL, Identifier
from sqlalchemy import Table, create_engine, make_url, select

from assay.backends.stores.records.record_rows import stamp
from assay.backends.stores.sql.store import SqlStore
from assay.backends.stores.sql.tables import (
    audit,
    audit_heads,
    case_blocks,
    documents,
    events,
    evidence,
    runs,
)
from bench.measure import Failed

END = stamp(datetime(2026, 11, 1, tzinfo=UTC))
INTERVAL = 10_000_000  # microseconds between two runs: a million runs are 116 days
SUITES = 200
TENANT = "local"
PORTION = 20_000
AGENT = "def greet(task):\n    return f\"Hello, {task['name']}!\"\n"
SUITE = """
suiteId: local.bench.evals.scale
version: 1.0.0
modes: [golden]
tasks:
  - {taskId: ada, input: {name: Ada}, expected: {kind: golden, match: {strategy: contains, value: Ada}}}
"""
CASES = b'{"test_case":{"id":"a","input":"x"},"output":{"value":"y"}}\n'
CHECKS = b'[{"type":"contains","arguments":{"text":"$.output.value","phrases":["y"]}}]'
CHILDREN = (events, evidence, case_blocks)
Rows = Iterator[tuple[Any, ...]]


class Template(msgspec.Struct, frozen=True):
    """The rows of a real run, without its id."""

    run: dict[str, Any]
    children: dict[str, list[tuple[Any, ...]]]
    line: dict[str, Any]


def make_templates(folder: Path) -> list[Template]:
    """Make an agent eval and an evaluation with the command, and read their rows."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "greeter.py").write_text(AGENT)
    (folder / "suite.yaml").write_text(SUITE)
    (folder / "cases.jsonl").write_bytes(CASES)
    (folder / "checks.json").write_bytes(CHECKS)
    command = str(Path(sys.executable).parent / "assay")
    for words in (
        ["run", "suite.yaml", "--agent", "greeter:greet"],
        ["evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json", "--save"],
    ):
        done = subprocess.run([command, *words], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):  # 3: below the bar
            raise Failed(f"assay {' '.join(words)}: {done.stderr.strip()[-500:]}")
    engine = create_engine(f"sqlite:///{folder / '.assay' / 'assay.db'}")
    with engine.connect() as connection:
        found = connection.execute(select(runs).order_by(runs.c.created)).all()
        lines = connection.execute(select(audit).order_by(audit.c.at)).all()
        templates = [
            Template(
                run=dict(zip(runs.c.keys(), run, strict=True)),
                children={
                    table.name: [
                        tuple(row)[1:]
                        for row in connection.execute(select(table).where(table.c.run == run.id))
                    ]
                    for table in CHILDREN
                },
                line=dict(zip(audit.c.keys(), line, strict=True)),
            )
            for run, line in zip(found, lines, strict=True)
        ]
    engine.dispose()
    return templates


def mix(number: int) -> int:
    """32 bits that look random. Different numbers below 2**32 have different ones."""
    return number * 2_654_435_761 & 0xFFFFFFFF


def created_of(number: int, count: int) -> int:
    return END - (count - number) * INTERVAL


def id_of(number: int, count: int) -> str:
    """As the ids of real runs: the time first."""
    return f"run-{created_of(number, count) // 1000:012x}{mix(number):016x}"


def suite_of(number: int) -> str:
    """One run in four belongs to the first suite."""
    return f"local.bench.evals.suite-{mix(number) % SUITES if mix(number) % 4 else 0}"


class Population:
    """`count` runs of one tenant: nine of ten completed, the others failed or cancelled. None is active."""

    def __init__(self, templates: list[Template], count: int) -> None:
        self._templates, self.count = templates, count

    def tables(self) -> list[tuple[Table, Rows]]:
        return [
            (runs, map(self._run, range(self.count))),
            *((table, self._children(table)) for table in CHILDREN),
            (audit, map(self._line, range(self.count))),
            (audit_heads, iter([(TENANT, 0, self.count, b"digest", b"root")])),
            (documents, (self._document(number) for number in sorted(range(self.count), key=mix))),
        ]

    def id(self, number: int) -> str:
        return id_of(number, self.count)

    def _template(self, number: int) -> Template:
        return self._templates[mix(number) // 8 % len(self._templates)]

    def _run(self, number: int) -> tuple[Any, ...]:
        random, created = mix(number), created_of(number, self.count)
        status = "completed" if random % 10 else ("failed" if random % 20 else "cancelled")
        row = self._template(number).run | {
            "id": self.id(number),
            "status": status,
            "name": suite_of(number),
            "created": created,
            "started": created + 20_000,
            "ended": created + 20_000 + random % 5_000_000,
            "score": random % 1000 / 1000,
            "cost": random % 997 / 1e4 if random % 3 else None,
            "passed": int(random % 1000 >= 300),
        }
        return tuple(row.values())

    def _children(self, table: Table) -> Rows:
        for number in range(self.count):
            id = self.id(number)
            for row in self._template(number).children[table.name]:
                yield (id, *row)

    def _line(self, number: int) -> tuple[Any, ...]:
        line = self._template(number).line
        place = {"tenant": TENANT, "at": created_of(number, self.count), "lane": 0, "number": number}
        return tuple((line | place).values())

    def _document(self, number: int) -> tuple[Any, ...]:
        data = msgspec.json.encode({"digest": f"{mix(number):064x}", "run": self.id(number)})
        key = f"{mix(number):08x}{0:056x}"
        return TENANT, "idempotency", key, 1, END + 400 * 86_400_000_000, 0, "", data


def fill(address: str, templates: list[Template], count: int) -> Population:
    """Create the store at this address and insert the rows."""
    asyncio.run(_create(address))
    population = Population(templates, count)
    insert = _insert_sqlite if address.startswith("sqlite") else _insert_postgres
    insert(address, population.tables())
    return population


async def _create(address: str) -> None:
    await (await SqlStore.open(address)).close()


def _insert_sqlite(address: str, tables: list[tuple[Table, Rows]]) -> None:
    connection = sqlite3.connect(make_url(address).database or "", isolation_level=None)
    for pragma in ("synchronous=OFF", "journal_mode=OFF", "cache_size=-200000"):
        connection.execute(f"PRAGMA {pragma}")
    indexes = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    ).fetchall()
    for name, _ in indexes:  # it is faster to make them afterwards
        connection.execute(f"DROP INDEX {name}")
    for table, rows in tables:
        marks = ", ".join("?" * len(table.columns))
        connection.execute("BEGIN")
        connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows)
        connection.execute("COMMIT")
    for _, statement in indexes:
        connection.execute(statement)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()


def _insert_postgres(address: str, tables: list[tuple[Table, Rows]]) -> None:
    url = make_url(address).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as connection:
        for table, rows in tables:
            columns = SQL(", ").join(map(Identifier, table.c.keys()))
            into = SQL("COPY {} ({}) FROM STDIN").format(Identifier(table.name), columns)
            for portion in _portions(rows):
                with (
                    connection.cursor() as cursor,
                    cursor.copy(into) as copy,
                ):
                    for row in portion:
                        copy.write_row(row)
        connection.execute("VACUUM ANALYZE")


def _portions(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    following: Callable[[], list[tuple[Any, ...]]] = lambda: list(islice(rows, PORTION))  # noqa: E731
    return iter(following, [])
