"""A process that stands still in the middle of a transaction delays the runs it was writing, and no other (ADR-0042)."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from assay.backends.stores.sql import group_commit as writer
from assay.backends.stores.sql.connect import BUSY_SECONDS, open_engine
from assay.backends.stores.sql.liveness import _ask_file
from assay.errors import StoreLocked
from assay.errors.storage import DatabaseUnavailable
from assay.ports import CreateRun, Event, PutDocument, RunUpdate, Transaction, store_patience
from assay.ports.audit import audit_entry
from assay.serve.web.request import STORE_SECONDS
from support.stores.opened import any_store
from support.stores.postgres import server
from support.waiting import PATIENCE

TESTS = Path(__file__).parents[2]


def opening(run, holder=None):
    return Transaction(
        entries=[RunUpdate(run=run, opens=CreateRun(tenant="t", kind="k", holder=holder, seconds=60))],
        documents=[PutDocument(tenant="t", kind="k", key=run, data=b"1")],
    )


def step(run, **more):
    return Transaction(entries=[RunUpdate(run=run, events=[Event("step", b"{}", datetime.now(UTC))], **more)])


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(writer, "LOCK_SECONDS", 0.6)


@pytest.mark.usefixtures("hurried")
def test_a_locked_run_is_refused_in_time_and_delays_no_other():
    async def main(address):
        async with any_store(address) as store:
            for run in ("r", "s"):
                await store.commit(opening(run, holder="me"))
            with psycopg.connect(address) as other:
                other.execute("SELECT 1 FROM runs WHERE id = 'r' FOR UPDATE")
                other.execute("SELECT 1 FROM documents WHERE key = 'r' FOR UPDATE")
                conducted = asyncio.create_task(store.commit(step("r", holder="me")))
                change = PutDocument(tenant="t", kind="k", key="r", data=b"2", version=None)
                refused = [
                    asyncio.create_task(store.commit(batch))
                    for batch in (step("r"), Transaction(documents=[change]))
                ]
                refused += [asyncio.create_task(one("r", "me")) for one in (store.release, store.forgive)]
                for _ in range(3):  # all of it while the lock is held
                    await store.commit(step("s"))
                assert await store.claim("r", "else", seconds=60) is None
                assert await store.adopt("else", seconds=60) == []
                assert await store.renew("me", seconds=60) == {"r": "pending", "s": "pending"}
                for task in refused:
                    with pytest.raises(StoreLocked, match="another process is writing it"):
                        await asyncio.wait_for(task, PATIENCE)
                await store.commit(step("s"))
                assert not conducted.done()  # who conducts a run waits for longer
                other.rollback()
                assert await asyncio.wait_for(conducted, PATIENCE) == (1,)
            assert (await store.run("s")).events == 4

    with server().store_database() as address:
        asyncio.run(main(address))


@pytest.mark.usefixtures("hurried")
def test_a_document_that_another_process_writes_delays_no_other():
    """It is not there yet, so no row is locked: the database itself waits for the other's end."""

    async def main(address):
        async with any_store(address) as store:
            await store.commit(Transaction(documents=[PutDocument(tenant="t", kind="k", key="a", data=b"")]))
            with psycopg.connect(address) as other:
                other.execute(
                    "INSERT INTO documents SELECT tenant, kind, 'b', version, updated, coding, key_id, data FROM documents"
                )
                waiting = asyncio.create_task(
                    store.commit(
                        Transaction(documents=[PutDocument(tenant="t", kind="k", key="b", data=b"")])
                    )
                )
                await asyncio.wait_for(store.commit(opening("s")), PATIENCE)
                with pytest.raises(StoreLocked):
                    await asyncio.wait_for(waiting, PATIENCE)

    with server().store_database() as address:
        asyncio.run(main(address))


def test_a_paused_process_loses_its_transaction_and_continues(zygote):
    async def main(address):
        async with any_store(address) as store:
            await store.commit(opening("s"))
            process = zygote.start(
                address, "20", folder=TESTS, target="support.workers.stores:work",
                environ=os.environ | {"ASSAY_FAILPOINT": "commit.written:3:STOP"},
            )  # fmt: skip
            try:
                await asyncio.wait_for(asyncio.to_thread(until_stopped, process.pid), PATIENCE)
                async with asyncio.timeout(PATIENCE):
                    await store.commit(step("s"))
                    while True:
                        with contextlib.suppress(StoreLocked):
                            await store.commit(
                                Transaction(
                                    entries=[RunUpdate(run="r", metadata={"seen": True})],
                                    lines=[audit_entry("t", "run.cancel", "r")],
                                )
                            )
                            break
                os.kill(process.pid, signal.SIGCONT)
                stdout, trouble = await asyncio.to_thread(process.communicate, timeout=PATIENCE)
            finally:
                process.close()
            assert process.returncode == 0, trouble
            assert sorted(map(int, stdout.split())) == list(range(20))
            assert [event.data for event in await store.events("r")] == [b"%d" % n for n in range(20)]

    with server().store_database() as address:
        asyncio.run(main(address))


def until_stopped(pid):
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.01)


@pytest.mark.parametrize("options", ["", "?options=-c%20statement_timeout%3D7777"])
def test_the_timeouts_of_a_connection_have_defaults(options):
    with server().store_database() as address:
        engine = open_engine(address + ("&" + options[1:] if options and "?" in address else options))
        with engine.connect() as connection:
            names = ("lock_timeout", "idle_in_transaction_session_timeout", "statement_timeout")
            values = [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names]
        engine.dispose()
        assert values == ["500ms", "2s", "7777ms" if options else "30s"]


def test_a_locked_file_is_waited_for_and_then_refused(tmp_path):
    assert STORE_SECONDS + writer.RETRY_SECONDS + BUSY_SECONDS < 3  # seconds, as docs/rest.md says
    file = tmp_path / "runs.db"

    async def scenario():
        async with any_store(f"sqlite:///{file}") as store:
            await store.commit(opening("before"))
            with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                store_patience.set(0.6)
                with pytest.raises(DatabaseUnavailable, match="locked"):
                    await asyncio.wait_for(store.commit(opening("during")), PATIENCE)
                assert await store.run("before")  # a read goes on
            await store.commit(opening("after"))
            assert not await store.run("during")

    asyncio.run(scenario())


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs users")
def test_a_ping_notices_a_file_that_cannot_be_written():
    user = os.geteuid()
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # its parents can be searched by all users, unlike those of tmp_path
        os.chmod(folder, 0o755)
        file = Path(folder) / "runs.db"
        open_engine(f"sqlite:///{file}").dispose()
        with contextlib.closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE runs (id)")
        file.chmod(0o444)
        try:
            os.seteuid(user or 65534)  # root may write every file
            assert _ask_file(str(file)) == "the file is read-only"
        finally:
            os.seteuid(user)
        file.chmod(0o644)
        assert _ask_file(str(file)) == ""
