"""What `assay rekey` does, step by step."""

import asyncio

import msgspec

from assay import app, settings
from assay.cli.say import give, tell
from assay.errors import UsageError
from assay.ports import Transaction
from assay.ports.audit import audit_entry as audited
from assay.settings import Settings


def run(*, clear: bool, json: bool) -> None:
    chosen = settings.load()
    cipher = app.cipher(chosen)
    if cipher is None:
        raise UsageError("there is no key: set ASSAY_EVIDENCE_KEY to ID:KEY,OLDER:KEY")
    if chosen.database_url == "memory:":
        raise UsageError("database_url: what is in memory: is not sealed")
    many = asyncio.run(_through(chosen, "" if clear else cipher.key_id, sealing=not clear))
    if json:
        said = {"resealed": many, "key": None if clear else cipher.key_id}
        give(msgspec.json.encode(said))
    elif clear:
        tell(f"{many:,} things unsealed; ASSAY_EVIDENCE_KEY can go")
    else:
        tell(f"{many:,} things sealed with key {cipher.key_id!r}, as all is now; older keys can go")


async def _through(chosen: Settings, key: str, *, sealing: bool) -> int:
    many, following = 0, ""
    async with app.store(chosen, sealing=sealing) as store:
        await store.commit(Transaction(lines=[audited("", "rekey", key)]))
        while True:
            done = await store.reencrypt(following)
            many, following = many + done.many, done.following
            if not following:
                return many
