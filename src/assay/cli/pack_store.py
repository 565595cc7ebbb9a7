"""`assay pack install|list|show|remove`: the packs in the store of this host."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from assay.cli import pack
from assay.cli.console import count_of, echo, echo_err, echo_json, echo_rows
from assay.errors import NotFound, UsageError
from assay.host import parts
from assay.packs.store import PackRecord, PackStore
from assay.settings import Settings, load

T = TypeVar("T")


def install(
    *,
    path: str,
    manifest: str | None,
    integrity: str | None,
    public_keys: Sequence[str],
    tenant: str,
    json: bool,
) -> None:
    """Verify a pack, then store it in one transaction."""
    settings = load()
    verified = pack.read_pack(settings, path, manifest, integrity, public_keys)
    record, new = _with_packs(settings, lambda packs: packs.install(tenant, verified, datetime.now(UTC)))
    if json:
        echo_json(msgspec.json.encode(record))
        return
    state = "installed" if new else "is installed already, with the same files"
    echo(
        f"{record.key} {state}: {count_of(len(record.agents), 'agent')}, {count_of(len(record.suites), 'suite')}"
    )
    for agent in record.agents:
        echo(f"agent  {agent}")
    for suite in record.suites:
        echo(f"suite  {suite.key}  {suite.path}")


def list_packs(*, tenant: str, json: bool) -> None:
    """Print the packs by name and version."""

    async def work(packs: PackStore) -> list[PackRecord]:
        found: list[PackRecord] = []
        while page := await packs.list(tenant, after=found[-1].key if found else ""):
            found += page
        return found

    records = _with_packs(load(), work)
    if json:
        echo_json(msgspec.json.encode(records))
    elif records:
        header = ("pack", "installed", "signed by", "agents", "suites", "files")
        echo_rows([header, *map(_row, records)])
    else:
        echo_err("no pack is installed; assay pack install PACK installs one")


def show_pack(*, ref: str, tenant: str, json: bool) -> None:
    """Print one pack."""
    record = _with_packs(load(), lambda packs: packs.get(tenant, ref))
    if record is None:
        raise NotFound(f"there is no pack {ref[:400]!r}; assay pack list shows the installed packs")
    if json:
        echo_json(msgspec.json.encode(record))
        return
    pack.show(
        {
            "pack": record.key,
            "integrity": record.integrity,
            "signedBy": record.signed_by,
            "digestFrom": record.digest_source,
            "agents": record.agents,
            "suites": msgspec.to_builtins(record.suites),
            "files": msgspec.to_builtins(record.files),
        }
    )
    echo(f"installed  {record.installed_at:%Y-%m-%d %H:%M:%SZ} from a {record.source}")


def remove(*, ref: str, tenant: str) -> None:
    """Remove one version of a pack."""
    record = _with_packs(load(), lambda packs: packs.remove(tenant, ref, datetime.now(UTC)))
    echo(f"{record.key} removed; its runs keep what they need")


def _with_packs(settings: Settings, work: Callable[[PackStore], Awaitable[T]]) -> T:
    """Do something with the packs of the store that the settings name."""
    if settings.database_url == "memory:":
        raise UsageError("database_url: a pack in a memory: store would be lost when this command ends")

    async def main() -> T:
        async with parts.store(settings, light=True) as store:
            return await work(PackStore(store, max_packs=settings.limits.max_packs))

    return asyncio.run(main())


def _row(record: PackRecord) -> tuple[str, ...]:
    return (
        record.key,
        f"{record.installed_at:%Y-%m-%d %H:%MZ}",
        record.signed_by or "–",
        str(len(record.agents)),
        str(len(record.suites)),
        str(len(record.files)),
    )
