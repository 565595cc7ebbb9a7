"""Builds a pack from a folder: the same octets from the same files, on any machine and day."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from assay.errors import EnvironmentFailure, Problem, UsageError
from assay.packs.archive import (
    MAX_FILES,
    PackLimits,
    PackRefused,
    PackTooLarge,
    check_path,
    integrity_of,
    write_tarball,
)
from assay.packs.pack import SIGNATURE_PATH
from assay.packs.pack_manifest import PACK_JSON, PackManifest, parse_json, read_pack_manifest
from assay.packs.references import SuiteReader, resolve
from assay.protocol.canonical import canonical

if TYPE_CHECKING:
    from assay.packs.signature import SigningKey


class BuiltPack(Struct, frozen=True, kw_only=True):
    """A pack and what a registry would publish beside it. `signature` is b"" without a key."""

    manifest: PackManifest
    tarball: bytes
    version_manifest: bytes
    signature: bytes
    integrity: str
    files: tuple[str, ...]

    @property
    def stem(self) -> str:
        """The name of its files, without the ending."""
        return f"{self.manifest.name}-{self.manifest.version}"


def build(files: Mapping[str, bytes], read_suite: SuiteReader, key: "SigningKey | None" = None) -> BuiltPack:
    """
    The pack of these files. Everything that an install would refuse is refused now.

    pack.json is written in canonical form. With a key it gets the member `signing`, and the pack the file
    keys/pack.json.sig; without one both are removed, because they would belong to an earlier build.
    """
    if PACK_JSON not in files:
        raise PackRefused("tarball_manifest_missing", f"there is no {PACK_JSON} in the folder")
    document: dict[str, Any] = parse_json(files[PACK_JSON])
    read_pack_manifest(document)
    document.pop("signing", None)
    if key is not None:
        document["signing"] = {"method": "manual", "publicKeyRef": key.id, "signatureRef": SIGNATURE_PATH}
    manifest = read_pack_manifest(document)
    packed = {path: data for path, data in files.items() if path != SIGNATURE_PATH}
    packed[PACK_JSON] = canonical(document).encode()
    resolve(manifest, packed, read_suite)
    signature = b"" if key is None else key.sign(packed[PACK_JSON])
    if signature:
        packed[SIGNATURE_PATH] = signature
    tarball = write_tarball(packed)
    integrity = integrity_of(tarball)
    return BuiltPack(
        manifest=manifest,
        tarball=tarball,
        version_manifest=canonical(document | {"integrity": integrity}).encode() + b"\n",
        signature=signature,
        integrity=integrity,
        files=tuple(sorted(packed)),
    )


# A pack as a directory: the same files that `assay pack build` puts into the archive.

MAX_FOLDERS = 1_000
PRIVATE_KEY = b"PRIVATE KEY-----"


def read_directory(root: Path, limits: PackLimits = PackLimits()) -> dict[str, bytes]:  # noqa: B008  # a value
    """
    The files below a folder by path, sorted. Hidden files and folders are left out.

    Links, devices and pipes are refused, and so is a private key: a pack is public.
    """
    if not root.is_dir():
        raise UsageError(f"{root}: expected a folder with a pack.json")
    files: dict[str, bytes] = {}
    folders, visited, size = [""], 0, 0
    while folders:
        folder = folders.pop()
        visited += 1
        if visited > MAX_FOLDERS:
            raise PackTooLarge("tarball_too_large", f"the pack has more than {MAX_FOLDERS} folders")
        for name in _names(root / folder):
            path = f"{folder}{name}"
            check_path(path)
            mode = (root / path).lstat().st_mode
            if stat.S_ISDIR(mode):
                folders.append(f"{path}/")
                continue
            if not stat.S_ISREG(mode):
                message = "expected files and folders only, got a link, a device or a pipe"
                code = "tarball_path_traversal" if stat.S_ISLNK(mode) else "tarball_tar_parse_failed"
                raise PackRefused(code, Problem(path, message))
            if len(files) == MAX_FILES:
                raise PackTooLarge("tarball_too_large", f"the pack has more than {MAX_FILES} files")
            files[path] = _content(root, path, limits.file)
            size += len(files[path])
            if size > limits.unpacked:
                raise PackTooLarge(
                    "tarball_too_large", f"the files have more than {limits.unpacked:,} bytes in all"
                )
    return dict(sorted(files.items()))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        raise EnvironmentFailure(f"{folder}: {error.strerror}") from None


def _content(root: Path, path: str, limit: int) -> bytes:
    try:
        descriptor = os.open(root / path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with open(descriptor, "rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise EnvironmentFailure(f"{root / path}: {error.strerror}") from None
    if len(content) > limit:
        raise PackTooLarge("tarball_entry_too_large", Problem(path, f"expected at most {limit:,} bytes"))
    if PRIVATE_KEY in content:
        message = "this file holds a private key, and a pack is public: move the key out of the folder"
        raise PackRefused("invalid_manifest", Problem(path, message))
    return content
