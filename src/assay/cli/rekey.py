"""
`assay rekey`: encrypt the data keys of the store with the first key of ASSAY_EVIDENCE_KEY, and all records with a data
key.
"""

import asyncio

import msgspec

from assay import settings
from assay.cli.console import count_of, echo, echo_json
from assay.errors import UsageError
from assay.host import parts
from assay.ports import Transaction
from assay.ports.audit import audit_entry
from assay.settings import Settings


def main(*, clear: bool, json: bool) -> None:
    """Encrypt or decrypt the store, and print the number of records and of data keys."""
    chosen = settings.load()
    cipher = parts.cipher(chosen)
    if cipher is None:
        raise UsageError("there is no key: set ASSAY_EVIDENCE_KEY to ID:KEY,OLDER:KEY")
    if chosen.database_url == "memory:":
        raise UsageError("database_url: a memory: store is not encrypted")
    count, keys = asyncio.run(_reencrypt(chosen, "" if clear else cipher.key_id, sealing=not clear))
    if json:
        document = {"resealed": count, "rewrapped": keys, "key": None if clear else cipher.key_id}
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
