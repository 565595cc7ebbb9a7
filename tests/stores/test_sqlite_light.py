"""The light form of the SQLite store: when it opens, what it does for itself, and what it leaves to the whole store."""

import base64
import os
import sqlite3
import subprocess
import sys

import pytest

from assay.auth.audit import verify
from assay.backends.ciphers.keyring import KeyRing, read_keys
from assay.backends.stores.open import open_light_store, open_store
from assay.backends.stores.sqlite_light import LightStore, open_light
from assay.errors import EnvironmentFailure
from assay.ports import CreateRun, RunQuery, RunUpdate, Secret, Transaction
from assay.ports.audit import AuditEntry

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


async def test_lines_of_both_forms_are_one_chain(file):
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


def older(file):
    with sqlite3.connect(file) as database:
        database.execute("UPDATE alembic_version SET version_num = '0003'")
    database.close()


def damaged(file):
    file.write_bytes(b"no database" * 1000)


@pytest.mark.parametrize(
    "change", [older, damaged, lambda file: file.unlink()], ids=["older", "damaged", "missing"]
)
async def test_what_only_the_whole_store_opens(file, change):
    change(file)
    assert open_light(f"sqlite:///{file}", unexpected) is None


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


PROGRAM = """
import sys
from assay.cli.main import app
for words in (["list"], ["show", "latest"]):
    app(words, standalone_mode=False)
assert {"sqlalchemy", "pydantic", "rich"}.isdisjoint(sys.modules)
"""


async def test_list_and_show_load_no_sqlalchemy(file):
    done = subprocess.run(  # noqa: ASYNC221  # nothing else runs on this loop
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "ASSAY_DATABASE_URL": f"sqlite:///{file}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("pending") == 2
