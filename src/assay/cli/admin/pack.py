"""`assay pack`: build and verify packs (openwop-contract §7)."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from assay.agenteval.suites.suite import read_suite
from assay.agenteval.suites.suite_store import pack_reader
from assay.cli.console.console import (
    count_of,
    echo,
    echo_err,
    echo_err_plain,
    echo_json,
    echo_rows,
)
from assay.errors import EnvironmentFailure, NotFound, UsageError
from assay.errors.exit_codes import NOT_PASSED, PASSED
from assay.extras import missing_extra
from assay.host import parts
from assay.packs.archive import (
    ExpectedDigest,
    PackLimits,
    PackRefused,
    expected_digest,
    read_version_manifest,
)
from assay.packs.build import BuiltPack, read_directory
from assay.packs.build import build as build_pack
from assay.packs.pack import Pack
from assay.packs.store import PackRecord, PackStore
from assay.serve.openwop.supplied import supplied
from assay.settings import Settings, load

MAX_MANIFEST_BYTES = 4 << 20


def build(*, folder: str, output: str, key: str | None, key_id: str | None, json: bool) -> None:
    """Write the tarball, its version manifest and its signature."""
    if key_id is not None and key is None:
        raise UsageError("--key-id: expected --key F with it")
    root, out = Path(folder), Path(output)
    limits = PackLimits(load().limits.max_pack_bytes)
    files = read_directory(root, limits)
    if not out.is_dir():
        raise UsageError(f"-o {output}: expected a folder, got no such folder")
    if out.resolve().is_relative_to(root.resolve()):
        raise UsageError(
            f"-o {output}: expected a folder outside {folder}: the next build would pack its files"
        )
    built = build_pack(files, read_suite, None if key is None else _signing_key(key, key_id))
    if len(built.tarball) > limits.tarball:
        size, limit = len(built.tarball), limits.tarball
        raise UsageError(f"the tarball has {size:,} bytes; the limit is {limit:,} (ASSAY_MAX_PACK_BYTES)")
    written = _write(out, built)
    if json:
        from assay.cli.admin.admin_documents import BuiltDocument  # deferred import: it loads much

        document = BuiltDocument(built.manifest.key, built.integrity, [str(one) for one in written])
        echo_json(msgspec.json.encode(document))
        return
    signed = f"signed by {key_id or Path(key).stem}" if key else "not signed"
    echo(f"{built.manifest.key}  {count_of(len(built.files), 'file')}, {signed}")
    echo(built.integrity)
    for path in written:
        echo(f"written to {path}")


def _signing_key(file: str, id: str | None) -> Any:
    try:
        from assay.packs.signature import read_signing_key  # deferred import: the extra `guard`
    except ModuleNotFoundError as error:
        raise missing_extra("--key", "guard", error=error) from error
    return read_signing_key(file, id or Path(file).stem)


def _write(out: Path, pack: BuiltPack) -> list[Path]:
    """Each file is complete or absent. A signature of an earlier build is removed: it would not fit."""
    contents = {".tgz": pack.tarball, ".json": pack.version_manifest, ".sig": pack.signature}
    written: list[Path] = []
    for ending, data in contents.items():
        path = out / f"{pack.stem}{ending}"
        partial = out / f".{pack.stem}{ending}.partial"
        try:
            if not data:
                path.unlink(missing_ok=True)
                continue
            partial.write_bytes(data)
            os.replace(partial, path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise EnvironmentFailure(
                f"{path}: expected a file that can be written, got {error.strerror}"
            ) from None
        written.append(path)
    return written


def verify(
    *, path: str, manifest: str | None, integrity: str | None, public_keys: Sequence[str], json: bool
) -> int:
    """Verify a pack. The result is the exit code."""
    try:
        pack = read_pack(load(), path, manifest, integrity, public_keys)
    except PackRefused as refused:
        if json:
            problems = [problem._asdict() for problem in refused.problems]
            echo_json(msgspec.json.encode({"valid": False, "code": refused.code, "problems": problems}))
        for line in () if json else refused.lines:
            echo_err_plain(line)
        return NOT_PASSED
    if json:
        echo_json(msgspec.json.encode({"valid": True} | describe(pack)))
    else:
        show(describe(pack))
    return PASSED


def read_pack(
    settings: Settings, path: str, manifest: str | None, integrity: str | None, public_keys: Sequence[str]
) -> Pack:
    """The pack in a file or a folder, verified with the keys and the digest of the operator."""
    reader = pack_reader(settings.pack_keys, settings.limits, supplied(settings.openwop), public_keys)
    expected = _expected_digest(manifest, integrity)
    if Path(path).is_dir():
        if expected is not None:
            raise UsageError(
                "--manifest and --integrity: expected a tarball, got a folder, which has no digest"
            )
        return reader.read_files(read_directory(Path(path), reader.limits))
    return reader.read_archive(_read(path, reader.limits.tarball), expected)


def _expected_digest(manifest: str | None, integrity: str | None) -> ExpectedDigest | None:
    if manifest is not None and integrity is not None:
        raise UsageError("expected --manifest or --integrity, got both")
    if manifest is not None:
        return read_version_manifest(_read(manifest, MAX_MANIFEST_BYTES), manifest)
    return None if integrity is None else expected_digest(integrity, "--integrity")


def _read(path: str, limit: int) -> bytes:
    """The content of a file, or one byte more than the limit."""
    try:
        with open(path, "rb") as file:
            return file.read(limit + 1)
    except OSError as error:
        raise UsageError(f"{path}: expected a file that can be read, got {error.strerror}") from None


def describe(pack: Pack) -> dict[str, Any]:
    """A pack for a person or a program: names and digests, no content."""
    return {
        "pack": pack.manifest.key,
        "integrity": pack.integrity,
        "signedBy": pack.signed_by or None,
        "digestFrom": pack.digest_source or None,
        "agents": [agent.manifest.agent_id for agent in pack.agents],
        "suites": [msgspec.to_builtins(suite) for suite in pack.suites],
        "files": {path: msgspec.to_builtins(one) for path, one in pack.file_digests().items()},
    }


def show(document: dict[str, Any]) -> None:
    """Print what `describe` returns."""
    echo(document["pack"])
    signed, digest = document["signedBy"], document["digestFrom"]
    echo(f"signature  {f'verified, by the key {signed}' if signed else 'none'}")
    compared = {"manifest": "equal to the version manifest", "integrity": "equal to --integrity"}
    echo(f"digest     {compared.get(digest, 'not compared')}  {document['integrity']}")
    for agent in document["agents"]:
        echo(f"agent      {agent}")
    for suite in document["suites"]:
        echo(f"suite      {suite['suiteId']}@{suite['version']}  {suite['path']}  sha256 {suite['digest']}")
    for path, file in document["files"].items():
        echo(f"file       {path}  {file['size']:,} bytes")


# `assay pack install|list|show|remove`: the packs in the store of this host.

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
    verified = read_pack(settings, path, manifest, integrity, public_keys)
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
    show(
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
        raise UsageError(
            "database_url: expected a store that lasts, got memory:, which would lose the pack when this command ends"
        )

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
