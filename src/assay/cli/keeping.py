"""How keys are kept: what `assay key` does, and how it tells of it."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from assay import app, settings
from assay.auth import keys
from assay.auth.expiry import expiry
from assay.auth.keys import Key
from assay.auth.scopes import DEFAULT
from assay.cli.say import give, say, tell, tell_rows
from assay.errors import UsageError
from assay.ports import Secret, Store


def create(
    tenant: str, scopes: list[str] | None, expires: str | None, note: str, *, json: bool = False
) -> None:
    now = datetime.now(UTC)
    ends = None if expires is None else expiry(expires, now)

    async def work() -> tuple[Key, Secret]:
        async with _store() as store:
            return await keys.create(
                store, tenant=tenant, scopes=scopes or DEFAULT, expires=ends, note=note, now=now
            )

    key, text = asyncio.run(work())
    if json:
        _print({**_as_data(key, now), "key": text.reveal()})
        return
    say(f"key {key.id} of tenant {key.tenant}, for {_scopes(key)}, expires {_moment(key.expires)}")
    say("this is the only time it is shown")
    tell(text.reveal())


def show(tenant: str | None, *, json: bool = False) -> None:
    now = datetime.now(UTC)

    async def work() -> list[Key]:
        async with _store() as store:
            return await keys.list_keys(store, tenant)

    found = asyncio.run(work())
    if json:
        _print([_as_data(key, now) for key in found])
    elif found:
        header = ("id", "tenant", "state", "created", "expires", "scopes", "note")
        tell_rows([header, *(_row(key, now) for key in found)])
    else:
        say("there are no keys" if tenant is None else f"tenant {tenant!r} has no keys")


def revoke(id: str) -> None:
    now = datetime.now(UTC)

    async def work() -> Key:
        async with _store() as store:
            return await keys.revoke(store, id, now=now)

    key = asyncio.run(work())
    before = "" if key.revoked == now else f" since {_moment(key.revoked)}"
    tell(f"key {key.id} of tenant {key.tenant} is revoked{before}")


@asynccontextmanager
async def _store() -> AsyncGenerator[Store]:
    known = settings.load()
    if known.database_url == "memory:":
        raise UsageError("database_url: a key in memory: would be forgotten as this command ends")
    async with app.store(known) as store:
        yield store


def _as_data(key: Key, now: datetime) -> dict[str, Any]:
    return {"id": key.id, "prefix": key.prefix, "state": key.state(now)} | msgspec.structs.asdict(key)


def _print(data: Any) -> None:
    give(msgspec.json.encode(data, order="deterministic"))


def _row(key: Key, now: datetime) -> tuple[str, ...]:
    return (
        key.id, key.tenant, key.state(now), _moment(key.created), _moment(key.expires), _scopes(key), key.note
    )  # fmt: skip


def _scopes(key: Key) -> str:
    return "everything" if key.scopes >= DEFAULT else _listed(key.scopes)


def _listed(scopes: Iterable[str]) -> str:
    return ",".join(sorted(scopes)) or "nothing"


def _moment(moment: datetime | None) -> str:
    return "never" if moment is None else f"{moment:%Y-%m-%d %H:%MZ}"
