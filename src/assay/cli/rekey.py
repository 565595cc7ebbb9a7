"""`assay rekey`: re-encrypt the store with the first key of ASSAY_EVIDENCE_KEY."""

import asyncio

import msgspec

from assay import app, settings
from assay.cli.console import count_of, echo, echo_json
from assay.errors import UsageError
from assay.ports import Transaction
from assay.ports.audit import audit_entry
from assay.settings import Settings


def main(*, clear: bool, json: bool) -> None:
    """Re-encrypt or decrypt the store, and print the number of records."""
    chosen = settings.load()
    cipher = app.cipher(chosen)
    if cipher is None:
        raise UsageError("there is no key: set ASSAY_EVIDENCE_KEY to ID:KEY,OLDER:KEY")
    if chosen.database_url == "memory:":
        raise UsageError("database_url: a memory: store is not encrypted")
    count = asyncio.run(_reencrypt(chosen, "" if clear else cipher.key_id, sealing=not clear))
    if json:
        echo_json(msgspec.json.encode({"resealed": count, "key": None if clear else cipher.key_id}))
    elif clear:
        echo(f"decrypted {count_of(count, 'record')}; ASSAY_EVIDENCE_KEY is no longer needed")
    else:
        echo(
            f"re-encrypted {count_of(count, 'record')} with key {cipher.key_id!r}; older keys are no longer needed"
        )


async def _reencrypt(settings: Settings, key: str, *, sealing: bool) -> int:
    """Step by step through the store; the result is the number of records."""
    count, cursor = 0, ""
    async with app.store(settings, sealing=sealing) as store:
        await store.commit(Transaction(lines=[audit_entry("", "rekey", key)]))
        while True:
            step = await store.reencrypt(cursor)
            count, cursor = count + step.records, step.cursor
            if not cursor:
                return count
