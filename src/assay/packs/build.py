"""Builds a pack from a folder: the same octets from the same files, on any machine and day."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from assay.packs.archive import write_tarball
from assay.packs.integrity import integrity_of
from assay.packs.manifest import PACK_JSON, PackManifest, parse_json, read_pack_manifest
from assay.packs.pack import SIGNATURE_PATH
from assay.packs.references import SuiteReader, resolve
from assay.packs.refusal import PackRefused
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
