"""The data keys of tenants: the content of one tenant can be deleted, and neither the files nor an old copy give it back."""

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select, text

from assay.auth.audit import lines, verify
from assay.backends.keyring import KeyRing
from assay.backends.stores.sql import tables, tenant_keys
from assay.backends.stores.sql.tables import evidence
from assay.checks import STANDARD
from assay.errors import EnvironmentFailure, RunNotFinished
from assay.fep.records.erase import KEPT, DeletionReport, TenantDeletion, survey_tenant
from assay.fep.records.service import EvaluationService
from assay.ports import (
    CreateRun,
    Event,
    EvidenceChunk,
    PutDocument,
    RunQuery,
    RunUpdate,
    Services,
    SystemClock,
    Transaction,
)
from assay.promotion.records import KIND as DEPLOYMENT
from support.servers.rest_client import sqlite
from support.stores.database_dump import dump_of
from support.stores.opened import sql_store
from support.stores.postgres import server as postgres

A, B = bytes(range(32)), bytes(range(1, 33))
OLD = KeyRing({"a": A})
KINDS = ("suite", "memory", "annotation", "idempotency", "pack", "llm-answer", "deployment")
pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", "postgres"])
def disk(request, tmp_path):
    if request.param == "sqlite":
        yield sqlite(tmp_path)
    else:
        with postgres().database() as address:
            yield address


def canary(tenant):
    return f"canary-of-{tenant}"


async def start(store, tenant, run, *, kind="agent-eval", status="completed", chunks=3, word=""):
    word = word or canary(tenant)
    pieces = [
        EvidenceChunk(kind=name, key=f"k{at}", data=f"{word} {name} {at} ".encode() * (1 + 60 * at))
        for at in range(chunks)
        for name in ("request", "results", "judge")
    ]
    name = f"{word} experiment" if kind == "evaluation" else "suite"
    entry = RunUpdate(
        run=run,
        opens=CreateRun(tenant=tenant, kind=kind, name=name),
        status=status,
        metadata={"error": f"{word} reason", "total": 3},
        events=[Event("run.ended", b"{}", SystemClock().now())],
        evidence=pieces,
    )
    await store.commit(Transaction(entries=[entry]))


async def plant(store, tenant, many=5):
    """Runs and documents of a tenant, with its canary in each."""
    for at in range(many):
        await start(store, tenant, f"{tenant}-{at}")
        puts = [
            PutDocument(
                tenant=tenant,
                kind=kind,
                key=f"{tenant}-{at}/{kind}",
                data=f"{canary(tenant)} {kind} ".encode() * 9,
            )
            for kind in KINDS
            if kind not in KEPT
        ]
        await store.commit(Transaction(documents=puts))
    record = PutDocument(tenant=tenant, kind=DEPLOYMENT, key="agent", data=b'{"agent_id":"agent"}')
    await store.commit(Transaction(documents=[record]))


async def whole(store, tenant, many=5):
    """All of it is there."""
    for at in range(many):
        run = f"{tenant}-{at}"
        found = await store.run(run)
        assert (found.erased, found.metadata["error"]) == ("", f"{canary(tenant)} reason")
        (chunk,) = await store.chunks(run, "results", key="k2")
        assert canary(tenant).encode() in chunk.data
        for kind in KINDS[:-1]:
            assert (await store.document(tenant, kind, f"{run}/{kind}")).data
    assert await store.document(tenant, DEPLOYMENT, "agent")


async def delete(store, tenant="acme", **more) -> DeletionReport:
    evaluations = EvaluationService(store, STANDARD, Services())
    return await TenantDeletion(evaluations, tenant, **more).delete()


def contents_under(folder):
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


async def keys_of(store, tenant="acme"):
    with store._engine.connect() as connection:
        keys = tables.tenant_keys
        query = select(keys).where(keys.c.tenant == tenant).order_by(keys.c.created)
        return connection.execute(query).all()


@pytest.mark.parametrize("cipher", [OLD, None], ids=["sealed", "clear"])
async def test_the_content_of_one_tenant_is_deleted_and_the_other_has_all_of_its_own(disk, cipher):
    on_sqlite = disk.startswith("sqlite")
    async with sql_store(disk, cipher) as store:
        await plant(store, "acme")
        await plant(store, "other")
        await start(store, "acme", "acme-eval", kind="agent-eval", status="failed")
        assert (canary("acme").encode() in dump_of(disk)) is (cipher is None)
        wrapped = [row.data for row in await keys_of(store)]
        planned = await survey_tenant(store, "acme")
        done = await delete(store)
        assert planned.documents == done.documents == dict.fromkeys(sorted(set(KINDS) - KEPT), 5)
        assert (planned.runs, done.runs, done.deployments, done.more) == (6, 6, 1, False)
        assert planned.data_keys == done.data_keys == (1 if cipher else 0)
        if cipher is None and on_sqlite:
            assert await store.compact()
        thief = dump_of(disk)
        assert canary("acme").encode() not in thief
        assert (canary("other").encode() in thief) is (cipher is None)
        assert not any(key in thief for key in wrapped)
        await whole(store, "other")
        runs_left = await store.runs(RunQuery(tenant="acme"))
        assert {(run.erased_by, run.erasure) for run in runs_left} == {
            ("deletion", f"its content was deleted on {runs_left[0].erased[:10]}")
        }
        assert all(run.metadata["total"] == 3 and "error" not in run.metadata for run in runs_left)
        assert {run.name for run in runs_left} == {"suite"}
        assert not await store.runs(RunQuery(tenant="acme", evidence=True))
        assert await store.document("acme", DEPLOYMENT, "agent")
        again = await delete(store)
        assert (again.runs, again.documents, again.deployments) == (0, {}, 1)
        assert again.data_keys == done.data_keys  # the rows that stay had the new key
        await start(store, "acme", "next")
        assert (await store.chunks("next", "results", key="k1"))[0].data
        actions = [b'"action":"tenant.delete"', b'"action":"key.destroy"', b'"outcome":"deletion"']
        log = [line.data async for line in lines(store, "acme")]
        assert [sum(action in line for line in log) for action in actions] == [2, 2 if cipher else 0, 6]
        assert not (await verify(store)).problems
    async with sql_store(disk, cipher) as store:
        await whole(store, "other")
        assert (await store.chunks("next", "results", key="k1"))[0].data


async def test_the_raw_files_of_postgres_never_have_the_content_of_a_sealed_store():
    """The write-ahead log is that of all databases of the server, so no other test has this tenant."""
    with postgres().database() as address:
        async with sql_store(address, OLD) as store:
            await plant(store, "rawfiles", 1)
            await delete(store, "rawfiles")
            if (own := postgres()._own) is None:
                pytest.skip("the files of this PostgreSQL cannot be read")
            with store._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("CHECKPOINT"))
            with store._engine.connect() as connection:
                oid = connection.execute(
                    text("SELECT oid FROM pg_database WHERE datname = current_database()")
                ).scalar_one()
            contents = await asyncio.to_thread(contents_under, Path(own.pgdata) / "base" / str(oid))
            contents += await asyncio.to_thread(contents_under, Path(own.pgdata) / "pg_wal")
            assert len(contents) > 100
            assert not any(canary("rawfiles").encode() in content for content in contents)


async def test_a_copy_from_before_cannot_be_read_without_the_key_row(tmp_path):
    """`lacking`: the row is not there. `destroyed`: the row says that the content was deleted."""
    file, copies = tmp_path / "runs.db", {name: tmp_path / f"{name}.db" for name in ("lacking", "destroyed")}
    async with sql_store(sqlite(tmp_path), OLD) as store:
        await plant(store, "acme")
        await plant(store, "other")
        for copy in copies.values():
            with closing(sqlite3.connect(file)) as database:
                database.execute("VACUUM INTO ?", [str(copy)])
        await delete(store)
    for name, copy in copies.items():
        with closing(sqlite3.connect(copy)) as database, database:
            database.execute("DELETE FROM tenant_keys WHERE tenant = 'acme'")
            database.execute("ATTACH ? AS after", [str(file)])
            if name == "destroyed":
                database.execute(
                    "INSERT INTO tenant_keys SELECT * FROM after.tenant_keys WHERE tenant = 'acme'"
                )
        async with sql_store(f"sqlite:///{copy}", OLD) as store:
            await whole(store, "other")
            message = "lacks that key" if name == "lacking" else "the content of its tenant was deleted on 20"
            for reading in (store.chunks("acme-1", "results", key="k1"), store.documents("acme", "suite")):
                with pytest.raises(EnvironmentFailure, match=message):
                    await reading
            if name == "lacking":
                with pytest.raises(EnvironmentFailure, match=message):
                    await store.run("acme-1")
                continue
            run = await store.run("acme-1")
            assert (run.erased_by, run.name) == ("deletion", "")
            await delete(store)  # what is left goes too
            assert not await store.documents("acme", "suite")
            assert not await store.runs(RunQuery(tenant="acme", evidence=True))


async def test_processes_share_a_key_and_notice_its_end(disk, monkeypatch):
    async with sql_store(disk, OLD) as store, sql_store(disk, OLD) as other:
        await asyncio.gather(*(start(one, "acme", f"r{at}") for at, one in enumerate((store, other) * 3)))
        assert len(await keys_of(store)) == 1  # of those who were first at once, one won
        for run in range(6):
            assert await other.chunks(f"r{run}", "results", key="k1")
        await delete(store)
        await start(other, "acme", "later")  # its key in memory is of no use any more
        (chunk,) = await store.chunks("later", "results", key="k1")
        assert canary("acme").encode() in chunk.data
        assert [row.destroyed is None for row in await keys_of(store)] == [False, True]
        monkeypatch.setattr(tenant_keys, "FRESH", -1.0)
        assert (await other.run("r1")).erased_by == "deletion"
        assert not any(row.data for row in await keys_of(other) if row.destroyed)


async def test_a_run_that_has_not_ended_forbids_the_deletion(store):
    await start(store, "acme", "open", status="running")
    await start(store, "acme", "done")
    with pytest.raises(RunNotFinished, match=r"tenant 'acme': expected no open runs, got 1: open\. Revoke"):
        await delete(store)
    assert not (await store.run("done")).erased
    await store.commit(Transaction(entries=[RunUpdate(run="open", status="cancelled")]))
    assert (await delete(store)).runs == 2


async def test_runs_that_a_clock_set_back_are_found_by_their_key(tmp_path):
    """Their time is after the beginning of the deletion."""
    async with sql_store(sqlite(tmp_path), OLD) as store:
        for at in range(3):
            await start(store, "acme", f"r{at}")
        with store._engine.connect() as connection, connection.begin():
            connection.execute(text("UPDATE runs SET created = created + 3600000000"))
        done = await delete(store)
        assert (done.runs, done.data_keys) == (3, 1)
        assert not await store.runs(RunQuery(tenant="acme", evidence=True))


async def test_a_limit_ends_a_deletion_that_a_second_call_continues(store):
    for at in range(60):
        await start(store, "acme", f"r{at}", chunks=1)
    first = await delete(store, limit=50)
    assert (first.more, first.runs) == (True, 50)
    await start(store, "acme", "new", chunks=1)
    rest = await delete(store, limit=100, cutoff=first.cutoff)
    assert (rest.more, rest.runs) == (False, 10)
    assert not (await store.run("new")).erased
    assert await store.chunks("new", "results", key="k0")


async def test_writes_during_a_deletion_stay_whole_or_go(disk):
    async with sql_store(disk, OLD) as store, sql_store(disk, OLD) as other:
        await plant(store, "acme", 3)
        written, ended = [], asyncio.Event()

        async def write():
            while not ended.is_set() or len(written) < 3:
                run = f"during-{len(written)}"
                await start(other, "acme", run, chunks=1)
                written.append(run)

        writing = asyncio.create_task(write())
        await delete(store)
        ended.set()
        await writing
        retired = {row.id for row in await keys_of(store) if row.retired}
        with store._engine.connect() as connection:
            used = set(connection.execute(select(evidence.c.key_id)).scalars())
        assert not used & retired
        for run in written:
            found = await other.run(run)
            chunks = await other.chunks(run, "results", key="k0")
            assert bool(found.erased) is (not chunks)
        assert not (await store.run(written[-1])).erased


@pytest.mark.parametrize("pass_number", [2, 5])
async def test_a_deletion_that_was_killed_is_completed_by_the_next(tmp_path, command, zygote, pass_number):
    home = tmp_path / ".assay"
    home.mkdir()
    (tmp_path / "assay.toml").write_text(
        f'evidence_key = "a:{"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}"\n'
    )
    address = f"sqlite:///{home}/assay.db"
    async with sql_store(address, OLD) as store:
        await plant(store, "acme", 2)
        await plant(store, "other", 1)
    words = ("admin", "delete", "--all", "--tenant", "acme", "--yes", "--json")
    environ = {**os.environ, "ASSAY_FAILPOINT": f"commit.before:{pass_number}"}
    killed = await asyncio.to_thread(lambda: zygote.start(*words, folder=tmp_path, environ=environ))
    await asyncio.to_thread(killed.communicate)
    assert killed.returncode == -9
    done = await asyncio.to_thread(lambda: command(*words, folder=tmp_path))
    assert done.code == 0, done.err
    async with sql_store(address, OLD) as store:
        assert not await store.runs(RunQuery(tenant="acme", evidence=True))
        assert {run.erased_by for run in await store.runs(RunQuery(tenant="acme"))} == {"deletion"}
        assert (await store.survey("acme")).documents == {DEPLOYMENT: 1}
        assert all(row.destroyed or not row.retired for row in await keys_of(store))
        await whole(store, "other", 1)
