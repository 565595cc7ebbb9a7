"""The light form of the SQLite store: when it opens, what it does for itself, and what it leaves to the whole store."""

import asyncio
import base64
import inspect
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime

import pytest

from assay.auth.audit import verify
from assay.backends.keyring import KeyRing, read_keys
from assay.backends.stores.open import open_light_store, open_store
from assay.backends.stores.records import sqlite_statements as statements
from assay.backends.stores.sql import tables
from assay.backends.stores.sql.store import SqlStore
from assay.backends.stores.sqlite_light import LightStore, open_light
from assay.errors import EnvironmentFailure, MissingExtra
from assay.ports import (
    CaseBlock,
    CreateRun,
    DeleteDocument,
    Event,
    EvidenceChunk,
    PutDocument,
    RunFacts,
    RunQuery,
    RunUpdate,
    Secret,
    Store,
    Transaction,
)
from assay.ports.audit import AuditEntry
from support.waiting import PATIENCE

NOW = datetime(2026, 7, 1, 12, 0, 0, 123456, tzinfo=UTC)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def file(tmp_path):
    store = await open_store(f"sqlite:///{tmp_path}/runs.db")
    await store.commit(
        Transaction(entries=[RunUpdate(run="r", opens=CreateRun(tenant="t", kind="evaluation"))])
    )
    await store.close()
    return tmp_path / "runs.db"


def line(what):
    return Transaction(lines=[AuditEntry(tenant="t", who="host", action="run.read", what=what)])


async def unexpected():
    raise AssertionError("the whole store is not needed")


async def test_audit_lines_of_both_stores_are_one_chain(file):
    for number in range(3):
        whole, light = await open_store(f"sqlite:///{file}"), open_light(f"sqlite:///{file}", unexpected)
        assert light is not None
        for store in (whole, light, whole, light) if number else (light, whole, light):
            assert await store.commit(line(f"run-{number}")) == ()
        await light.close()
        await whole.close()
    store = await open_store(f"sqlite:///{file}")
    found = await verify(store)
    assert not found.problems
    assert len(await store.audit("t")) == 11
    await store.close()


def of_another_version(file):
    with sqlite3.connect(file) as database:
        database.execute("UPDATE alembic_version SET version_num = '0000'")
    database.close()


def damaged(file):
    file.write_bytes(b"no database" * 1000)


def empty(file):
    file.write_bytes(b"")


@pytest.mark.parametrize("change", [of_another_version, damaged, empty])
async def test_addresses_that_only_the_whole_store_opens(file, change):
    change(file)
    assert open_light(f"sqlite:///{file}", unexpected) is None


def schema(file):
    with closing(sqlite3.connect(file)) as database:
        found = database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
        version = database.execute("SELECT version_num FROM alembic_version").fetchall()
    return {(*names, normal(sql).replace("( ", "(").replace(" )", ")")) for *names, sql in found}, version


async def test_both_forms_create_the_same_database(file):
    new = file.with_name("new.db")
    light = open_light(f"sqlite:///{new}", unexpected)
    assert light is not None
    other = open_light(f"sqlite:///{new}", unexpected)
    assert other is not None
    await light.close()
    await other.close()
    assert schema(new) == schema(file)
    assert new.stat().st_mode & 0o777 == file.stat().st_mode & 0o777 == 0o600
    whole = await open_store(f"sqlite:///{new}")
    assert await whole.runs(RunQuery()) == []
    await whole.close()


async def test_a_missing_folder_is_for_the_whole_store(tmp_path, monkeypatch):
    assert open_light(f"sqlite:///{tmp_path}/none/runs.db", unexpected) is None
    monkeypatch.setenv("ASSAY_FAILPOINT", "migrate.before")
    assert open_light(f"sqlite:///{tmp_path}/runs.db", unexpected) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "address", ["memory:", "sqlite:///:memory:", "sqlite:///a%20b.db", "postgresql://h/d", "sqlite://"]
)
async def test_other_addresses_are_for_the_whole_store(address):
    assert open_light(address, unexpected) is None


async def test_an_encrypted_store_is_opened_whole(tmp_path):
    address = f"sqlite:///{tmp_path}/sealed.db"
    cipher = KeyRing(read_keys(Secret("k1:" + base64.b64encode(bytes(32)).decode())))
    await (await open_store(address, cipher=cipher)).close()
    assert open_light(address, unexpected) is None  # its markers name a key
    store = await open_light_store(address, cipher=cipher)
    assert not isinstance(store, LightStore)
    await store.close()


async def test_after_an_error_the_whole_store_answers_or_says_what_is_wrong(file):
    store = await open_light_store(f"sqlite:///{file}")
    assert isinstance(store, LightStore)
    with sqlite3.connect(file) as database:
        database.execute("UPDATE runs SET created = 'yesterday'")
        database.execute("DROP TABLE evidence")
    database.close()
    with pytest.raises(EnvironmentFailure, match="no such table"):
        await store.chunks("r", "results")
    await store.close()


async def test_a_reader_leaves_no_file_and_no_lock(file):
    light = open_light(f"sqlite:///{file}", unexpected)
    assert light is not None
    assert [run.id for run in await light.runs(RunQuery())] == ["r"]
    whole = await open_store(f"sqlite:///{file}")
    await whole.commit(Transaction(entries=[RunUpdate(run="r", status="running")]))  # while the other is open
    assert [run.status for run in await light.runs(RunQuery())] == ["running"]
    await light.close()
    await whole.close()
    assert {one.name for one in file.parent.iterdir()} == {"runs.db"}


def normal(statement):
    return " ".join(str(statement).replace('"', "").split())


def test_the_statements_have_the_columns_and_keys_of_the_tables():
    written = [
        tables.runs, tables.events, tables.evidence, tables.documents, tables.case_blocks, tables.audit, tables.audit_heads,
    ]  # fmt: skip
    assert {table.name: tuple(table.columns.keys()) for table in written} == statements.COLUMNS
    assert [*tables.audit_heads.primary_key.columns.keys()] == ["tenant", "lane"]
    kept = {*statements.COLUMNS["runs"]} - {*statements.CHANGING_RUN}
    assert kept == {"id", "tenant", "kind", "name", "created"}
    kept = {*statements.COLUMNS["documents"]} - {*statements.CHANGING_DOCUMENT}
    assert kept == {*tables.documents.primary_key.columns.keys()}


def opening(run, size=0):
    chunk = EvidenceChunk(kind="results", data=b"x" * size)
    event = Event("eval.scored", b"{}", NOW)
    entry = RunUpdate(
        run=run, opens=CreateRun(tenant="t", kind="evaluation", holder="h"), events=[event], evidence=[chunk]
    )
    return Transaction(entries=[entry], lines=line(run).lines)


class FixedClock:
    def now(self):
        return NOW


def contents(file):
    """All rows of the database."""
    with closing(sqlite3.connect(file)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: sorted(map(repr, database.execute(f"SELECT * FROM {name}"))) for name in names}


async def test_both_forms_write_the_same_bytes(file):
    clock = FixedClock()
    batches = [
        opening("a", 5000),
        Transaction(documents=[PutDocument(tenant="t", kind="k", key="x", data=b"1" * 3000)]),
        Transaction(documents=[PutDocument(tenant="t", kind="k", key="x", data=b"2", version=1)], lines=line("y").lines),
        Transaction(
            entries=[
                RunUpdate(
                    run="a",
                    holder="h",
                    status="completed",
                    metadata={"m": [1, None]},
                    facts=RunFacts(score=0.5, cost=1.0, passed=True),
                    cases=[CaseBlock(first=0, last=2, passed=3, data=b"[]")],
                )
            ]
        ),
        Transaction(entries=[RunUpdate(run="a", erases=True, renames="")]),
        Transaction(documents=[DeleteDocument(tenant="t", kind="k", key="x", version=2)]),
        opening("b"),
    ]  # fmt: skip
    found = []
    for form in ("whole", "light"):
        copy = file.with_name(f"{form}.db")
        shutil.copy(file, copy)
        if form == "light":
            store = open_light(f"sqlite:///{copy}", unexpected, clock)
        else:
            store = await open_store(f"sqlite:///{copy}", clock=clock)
        assert store is not None
        for batch in batches:
            await store.commit(batch)
        assert await store.renew("h", seconds=30) == {"b": "pending"}
        await store.release("b", "h")
        claimed = await store.claim("b", "other", seconds=30)
        assert claimed is not None
        await store.close()
        found.append(contents(copy))
    assert found[0] == found[1]


@pytest.mark.parametrize("limit", ["COMMITS", "COMMIT_BYTES"])
async def test_a_run_that_writes_much_continues_with_the_whole_store(file, limit, monkeypatch):
    monkeypatch.setattr(f"assay.backends.stores.sqlite_light.{limit}", 3)
    store = await open_light_store(f"sqlite:///{file}")
    assert isinstance(store, LightStore)
    for number in range(5):
        waiting = asyncio.create_task(store.wait_for_events(f"n{number}", after=-1, timeout=PATIENCE))
        assert await store.commit(opening(f"n{number}", 2)) == (1,)
        assert await waiting
    assert store._whole is not None
    assert [one.events for one in await store.find([f"n{one}" for one in range(5)], tenant="t")] == [1] * 5
    assert not (await verify(store)).problems
    await store.close()


async def test_commits_at_the_same_time_open_one_whole_store(file, monkeypatch):
    monkeypatch.setattr("assay.backends.stores.sqlite_light.COMMITS", 3)
    store = await open_light_store(f"sqlite:///{file}")
    assert isinstance(store, LightStore)
    opened, open_whole = [], store._open_store

    async def open_store():
        opened.append(await open_whole())
        return opened[-1]

    store._open_store = open_store
    await asyncio.gather(*(store.commit(opening(f"n{number}", 2)) for number in range(40)))
    assert len(opened) == 1
    assert [one.events for one in await store.find([f"n{one}" for one in range(40)], tenant="t")] == [1] * 40
    assert not (await verify(store)).problems
    await store.close()


async def test_a_locked_database_is_left_to_the_whole_store_which_waits(file):
    store = await open_light_store(f"sqlite:///{file}")
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    commit = asyncio.create_task(store.commit(opening("late")))
    await asyncio.sleep(0.5)
    assert not commit.done()
    other.execute("COMMIT")
    other.close()
    assert await commit == (1,)
    await store.close()


@pytest.mark.parametrize("module", ["sqlite_light", "sql.store"])
async def test_a_missing_extra_is_a_refusal(file, module, monkeypatch):
    """Without the extra `store`, an import fails: that of zstandard in the one, of SQLAlchemy in the other."""
    monkeypatch.setitem(sys.modules, f"assay.backends.stores.{module}", None)

    async def erase():
        store = await open_light_store(f"sqlite:///{file}")
        try:
            await store.erase("r")  # the whole store does that
        finally:
            await store.close()

    with pytest.raises(MissingExtra, match="a store needs"):
        await erase()


AGENT = "def greet(task):\n    return 'Hello ' + task['name']\n"
SUITE = """
suiteId: local.light.evals.one
version: 1.0.0
modes: [golden]
tasks: [{taskId: greets, input: {name: Ada}, expected: {kind: golden, match: {strategy: contains, value: Ada}}}]
"""
PROGRAM = """
import sys
from assay.cli.main import app
for words in (["run", "suite.yaml", "--agent", "greeter:greet"], ["list"], ["show", "latest"]):
    app(words, standalone_mode=False)
assert {"sqlalchemy", "pydantic", "rich"}.isdisjoint(sys.modules)
"""


async def test_run_list_and_show_load_no_sqlalchemy(file):
    (file.parent / "greeter.py").write_text(AGENT)
    (file.parent / "suite.yaml").write_text(SUITE)
    done = subprocess.run(  # noqa: ASYNC221  # nothing else runs on this loop
        [sys.executable, "-c", PROGRAM],
        cwd=file.parent,
        env={**os.environ, "ASSAY_DATABASE_URL": f"sqlite:///{file}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "tasks 1 of 1 passed" in done.stdout
    assert done.stdout.count("pending") == 1


async def test_a_misspelled_method_is_an_attribute_error(file):
    light = open_light(f"sqlite:///{file}", unexpected)
    assert light is not None
    with pytest.raises(AttributeError, match="'LightStore' object has no attribute 'rnu'"):
        await light.rnu("r")  # pyright: ignore[reportAttributeAccessIssue]
    await light.close()


def test_both_forms_have_the_methods_of_a_store_with_the_same_parameters():
    for name in (name for name in dir(Store) if not name.startswith("_")):
        parameters = inspect.signature(getattr(Store, name)).parameters
        for form in (LightStore, SqlStore):
            assert inspect.signature(getattr(form, name)).parameters.keys() == parameters.keys(), name
