"""`assay admin key`: create, list and revoke API keys in the store of a server (openwop-contract §2.1)."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import typer

from assay import settings
from assay.auth import keys
from assay.auth.keys import DEFAULT, LIFE, NEVER, Key, describe_scopes, end_of_life
from assay.cli.admin.document_schemas import DOCUMENTS, document_types
from assay.cli.console.console import count_of, echo, echo_err, echo_json, echo_rows
from assay.errors import UsageError
from assay.errors.nearest import did_you_mean
from assay.host import parts
from assay.ports import Secret, Store, Transaction
from assay.ports.audit import audit_entry
from assay.protocol.schemas import NOUNS, schema_of, schema_of_types
from assay.settings import Settings


def create(*, tenant: str, scope: list[str] | None, expires: str | None, note: str, json: bool) -> None:
    """Create a key. Only the key itself goes to standard output."""
    if expires is None and not json and sys.stdin.isatty():
        question = f"When does it expire? 90d, 12h, a date, or {NEVER}"
        expires = typer.prompt(question, default=f"{LIFE.days}d", err=True)
    now = datetime.now(UTC)
    ends = end_of_life(expires, now)

    async def create_key() -> tuple[Key, Secret]:
        async with _store() as store:
            return await keys.create(
                store, tenant=tenant, scopes=scope or DEFAULT, expires=ends, note=note, now=now
            )

    created, text = asyncio.run(create_key())
    if json:
        _print({**_as_data(created, now), "key": text.reveal()})
        return
    scopes, until = describe_scopes(created.scopes), _moment(created.expires)
    echo_err(f"key {created.id} of tenant {created.tenant}, scopes {scopes}, expires {until}")
    echo_err("the key is not shown again")
    echo(text.reveal())


def list_keys(*, tenant: str | None, json: bool) -> None:
    """Print the keys, without their secrets."""
    now = datetime.now(UTC)

    async def read_all() -> list[Key]:
        async with _store() as store:
            return await keys.list_keys(store, tenant)

    stored = asyncio.run(read_all())
    if json:
        _print([_as_data(each, now) for each in stored])
    elif stored:
        header = ("id", "tenant", "state", "created", "expires", "scopes", "note")
        echo_rows([header, *(_row(each, now) for each in stored)])
    else:
        echo_err("there are no keys" if tenant is None else f"tenant {tenant!r} has no keys")


def revoke(*, id: str) -> None:
    """Revoke a key."""
    now = datetime.now(UTC)

    async def revoke_key() -> Key:
        async with _store() as store:
            return await keys.revoke(store, id, now=now)

    revoked = asyncio.run(revoke_key())
    since = "" if revoked.revoked == now else f" since {_moment(revoked.revoked)}"
    echo(f"key {revoked.id} of tenant {revoked.tenant} is revoked{since}")


@asynccontextmanager
async def _store() -> AsyncGenerator[Store]:
    chosen = settings.load()
    if chosen.database_url == "memory:":
        raise UsageError(
            "database_url: expected a store that lasts, got memory:, which would lose the key when this command ends"
        )
    async with parts.store(chosen, light=True) as store:
        yield store


def _as_data(key: Key, now: datetime) -> dict[str, Any]:
    return {"id": key.id, "prefix": key.prefix, "state": key.state(now)} | msgspec.structs.asdict(key)


def _print(data: Any) -> None:
    echo_json(msgspec.json.encode(data, order="deterministic"))


def _row(key: Key, now: datetime) -> tuple[str, ...]:
    return (
        key.id, key.tenant, key.state(now), _moment(key.created), _moment(key.expires),
        describe_scopes(key.scopes), key.note
    )  # fmt: skip


def _moment(moment: datetime | None) -> str:
    return "never" if moment is None else f"{moment:%Y-%m-%d %H:%MZ}"


# `assay admin rekey`: encrypt the data keys of the store with the first key of ASSAY_EVIDENCE_KEY, and all records with
# a data key.


def rekey(*, clear: bool, json: bool) -> None:
    """Encrypt or decrypt the store, and print the number of records and of data keys."""
    chosen = settings.load()
    cipher = parts.cipher(chosen)
    if cipher is None:
        raise UsageError("ASSAY_EVIDENCE_KEY: expected ID:KEY,OLDER:KEY, got none")
    if chosen.database_url == "memory:":
        raise UsageError(
            "database_url: expected a store that lasts, got memory:, which has nothing to encrypt"
        )
    count, keys = asyncio.run(_reencrypt(chosen, "" if clear else cipher.key_id, sealing=not clear))
    if json:
        from assay.cli.admin.admin_documents import RekeyDocument  # deferred import: it loads much

        document = RekeyDocument(count, keys, None if clear else cipher.key_id)
        echo_json(msgspec.json.encode(document))
    elif clear:
        echo(f"decrypted {count_of(count, 'record')}; ASSAY_EVIDENCE_KEY is no longer needed")
    else:
        echo(
            f"encrypted {count_of(keys, 'data key')} with key {cipher.key_id!r}, and "
            f"{count_of(count, 'record')} with data keys; "
            "older keys are no longer needed"
        )


async def _reencrypt(settings: Settings, key: str, *, sealing: bool) -> tuple[int, int]:
    """Step by step through the store; the result is the number of records, and of data keys."""
    count, keys, cursor = 0, 0, ""
    async with parts.store(settings, sealing=sealing) as store:
        await store.commit(Transaction(lines=[audit_entry("", "rekey", key)]))
        while True:
            step = await store.reencrypt(cursor)
            count, keys, cursor = count + step.records, keys + step.keys, step.cursor
            if not cursor:
                if count:  # records that were in clear may have left bytes in unused parts of the file
                    await store.compact()
                return count, keys


# `assay schema`: the JSON Schemas of the protocol's types, and of what verbs print with --json.


def print_schema(*, name: str) -> None:
    """Print the schema of a type or of the document of a verb, or all names."""
    if not name:
        for noun in (*NOUNS, *DOCUMENTS):
            echo(noun)
    elif name in DOCUMENTS:
        echo_json(schema_of_types(document_types(name)))
    elif name in NOUNS:
        echo_json(schema_of(name))
    else:
        near = did_you_mean(name, (*NOUNS, *DOCUMENTS)) or "`assay schema` lists them"
        raise UsageError(
            f"NAME: expected the name of a type or of a verb with --json, got {name[:100]!r}; {near}"
        )
