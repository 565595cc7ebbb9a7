"""The key of whoever runs an embedded server: in a file that only they can read, and always a good one."""

import asyncio
import os
import stat
from datetime import UTC, datetime, timedelta

import pytest

from assay.auth.keys import authenticate, create, list_keys, revoke
from assay.auth.local_key import LOCAL, local_key
from assay.backends.stores.memory import MemoryStore
from assay.errors import EnvironmentFailure, UsageError
from assay.ports import DeleteDocument, Transaction

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


async def test_the_first_start_makes_a_local_key_for_everything(store, tmp_path):
    home = tmp_path / "new" / "home"
    before = os.umask(0)
    try:
        path, text, created = await local_key(store, home, NOW)
    finally:
        os.umask(before)

    assert (path, created) == (home / "local-key", True)
    assert path.read_text() == text.reveal() + "\n"
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, home)] == [0o600, 0o700]
    who = await authenticate(store, text.reveal(), NOW)
    assert (who.tenant, who.scopes) == ("local", LOCAL)
    assert await local_key(store, home, LATER) == (path, text, False)
    assert len(await list_keys(store)) == 1
    assert text.reveal() not in repr(await local_key(store, home, LATER))


async def removed(store, path, key):
    path.unlink()


async def revoked(store, path, key):
    await revoke(store, key.id, now=NOW)


async def of_another_store(store, path, key):
    await store.commit(
        Transaction(documents=[DeleteDocument(tenant="", kind="key", key=key.id, version=None)])
    )


async def of_another_tenant(store, path, key):
    path.write_text((await create(store, tenant="acme", now=NOW))[1].reveal())


async def for_less(store, path, key):
    path.write_text((await create(store, tenant="local", scopes=["runs:read"], now=NOW))[1].reveal())


async def empty(store, path, key):
    path.write_bytes(b"")  # as a crash would leave it


async def garbage(store, path, key):
    path.write_bytes(b"\xff\0" * 5000)


@pytest.mark.parametrize(
    "spoil", [removed, revoked, of_another_store, of_another_tenant, for_less, empty, garbage]
)
async def test_an_invalid_local_key_is_replaced(tmp_path, spoil):
    store = MemoryStore()
    path, old, _ = await local_key(store, tmp_path, NOW)
    await spoil(store, path, (await list_keys(store))[0])

    _, text, created = await local_key(store, tmp_path, LATER)
    assert created
    assert text != old
    assert path.read_text() == text.reveal() + "\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (await authenticate(store, text.reveal(), LATER)).tenant == "local"
    assert os.listdir(tmp_path) == ["local-key"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o666, 0o620])
async def test_a_local_key_that_others_may_read_is_refused_with_what_to_do(tmp_path, mode):
    store = MemoryStore()
    path, text, _ = await local_key(store, tmp_path, NOW)
    path.chmod(mode)
    with pytest.raises(UsageError, match="chmod 600") as refused:
        await local_key(store, tmp_path, NOW)
    (key,) = await list_keys(store)
    assert f"assay admin key revoke {key.id}" in str(refused.value)
    assert text.reveal()[15:] not in str(refused.value)
    path.chmod(0o600)
    assert await local_key(store, tmp_path, NOW) == (path, text, False)


def a_link(path):
    path.symlink_to(path.parent / "elsewhere")


def a_folder(path):
    path.mkdir()


@pytest.mark.parametrize("put", [a_link, a_folder, os.mkfifo])
async def test_a_local_key_must_be_a_file(tmp_path, put):
    store = MemoryStore()
    put(tmp_path / "local-key")
    with pytest.raises(UsageError, match="expected a regular file"):
        await local_key(store, tmp_path, NOW)
    assert os.listdir(tmp_path) == ["local-key"]
    assert await list_keys(store) == []


async def test_an_impossible_home_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailure, match="expected a folder that can be created"):
        await local_key(MemoryStore(), tmp_path / "file", NOW)


@pytest.mark.parametrize("step", ["fsync", "replace"])
async def test_a_key_that_cannot_be_written_is_revoked(tmp_path, monkeypatch, step):
    def full(*_):
        raise OSError(28, "No space left on device")

    store = MemoryStore()
    if step == "replace":
        (tmp_path / "local-key").write_text("old")
        (tmp_path / "local-key").chmod(0o600)
    monkeypatch.setattr(os, step, full)
    with pytest.raises(EnvironmentFailure, match="No space left"):
        await local_key(store, tmp_path, NOW)
    assert [key.state(NOW) for key in await list_keys(store)] == ["revoked"]
    assert os.listdir(tmp_path) == (["local-key"] if step == "replace" else [])


async def test_servers_that_start_together_all_have_a_valid_key(store, tmp_path):
    found = await asyncio.gather(*(local_key(store, tmp_path, NOW) for _ in range(8)))
    for one in found:
        assert (await authenticate(store, one.text.reveal(), NOW)).tenant == "local"
    assert {one.text for one in found} == {found[0].text}
    assert sum(one.created for one in found) == 1
    assert [key.state(NOW) for key in await list_keys(store)].count("active") == 1
