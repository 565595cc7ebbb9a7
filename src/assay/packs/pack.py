"""
Reads and verifies a pack: digest, archive, manifest, signature, namespace, requirements and references, in this order
(openwop-contract §7).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, UnsetType

from assay.errors import Problem, UsageError
from assay.extras import missing_extra
from assay.packs.archive import (
    ExpectedDigest,
    PackLimits,
    PackRefused,
    PackTooLarge,
    check_digest,
    check_path,
    check_version_manifest,
    hex_digest,
    integrity_of,
    read_tarball,
    write_tarball,
)
from assay.packs.pack_manifest import PACK_JSON, PackManifest, parse_json, read_pack_manifest
from assay.packs.references import PackSuite, SuiteReader, resolve
from assay.packs.requirements import Supplied, check_requirements
from assay.ports.config import PackKeyConfig
from assay.protocol.manifest import AgentDefinition

if TYPE_CHECKING:
    from assay.packs.signature import TrustedKey


SIGNATURE_PATH = "keys/pack.json.sig"
SIGNATURE_BYTES = 64
MAX_AGENT_BYTES = 256 * 1024  # of all agents of a pack, which a list of agents reads
Source = Literal["tarball", "directory"]


class PackFile(Struct, frozen=True):
    size: int
    digest: str  # SHA-256 of its octets, in hex


class Pack(Struct, frozen=True, kw_only=True):
    """
    A pack that passed every check. `signed_by` is the id of the key, or ""; `digest_source` says which digest was
    compared, or "".
    """

    manifest: PackManifest
    document: dict[str, Any]
    files: Mapping[str, bytes]
    agents: tuple[AgentDefinition, ...]
    suites: tuple[PackSuite, ...]
    integrity: str
    source: Source
    signed_by: str = ""
    digest_source: Literal["manifest", "integrity", ""] = ""

    def file_digests(self) -> dict[str, PackFile]:
        return {path: PackFile(len(data), hex_digest(data)) for path, data in self.files.items()}


class PackReader:
    """Reads packs with the keys, limits and the reader of suites of one host."""

    def __init__(
        self,
        keys: Sequence["TrustedKey"],
        read_suite: SuiteReader,
        limits: PackLimits = PackLimits(),  # noqa: B008  # a value
        *,
        supplied: Supplied,
    ) -> None:
        """`supplied`: the capabilities of the host that a pack may require."""
        self._keys, self._read_suite, self.limits = tuple(keys), read_suite, limits
        self.supplied = supplied

    def read_archive(self, data: bytes, expected: ExpectedDigest | None = None) -> Pack:
        """The pack in a tarball. The digest is compared before anything is unpacked."""
        if expected is not None and len(data) <= self.limits.tarball:
            check_digest(data, expected)
        return self._read(read_tarball(data, self.limits), integrity_of(data), "tarball", expected)

    def read_files(self, files: Mapping[str, bytes]) -> Pack:
        """The pack in a directory. Its digest is that of the archive that would be built from it."""
        return self._read(files, integrity_of(write_tarball(files)), "directory", None)

    def _read(
        self, files: Mapping[str, bytes], integrity: str, source: Source, expected: ExpectedDigest | None
    ) -> Pack:
        if PACK_JSON not in files:
            raise PackRefused("tarball_manifest_missing", f"there is no {PACK_JSON} in the pack")
        document = parse_json(files[PACK_JSON])
        manifest = read_pack_manifest(document)
        if expected is not None:
            check_version_manifest(expected, document)
        signed_by = self._signer(manifest, files)
        if not manifest.is_open:
            _check_namespace(manifest, source, signed_by, expected)
        check_requirements(manifest, self.supplied)
        found = resolve(manifest, files, self._read_suite)
        size = sum(len(msgspec.json.encode(agent)) for agent in found.agents)
        if size > MAX_AGENT_BYTES:
            message = (
                f"its agents have {size:,} bytes with their prompts and schemas; expected at most "
                f"{MAX_AGENT_BYTES:,}"
            )
            raise PackTooLarge("tarball_entry_too_large", Problem(PACK_JSON, message))
        return Pack(
            manifest=manifest,
            document=document,
            files=files,
            agents=found.agents,
            suites=found.suites,
            integrity=integrity,
            source=source,
            signed_by=signed_by,
            digest_source=expected.source if expected else "",
        )

    def _signer(self, manifest: PackManifest, files: Mapping[str, bytes]) -> str:
        """The id of the key that signed pack.json, or "". A signature that cannot be verified refuses the pack."""
        signing = manifest.signing
        if isinstance(signing, UnsetType):
            if SIGNATURE_PATH in files:
                message = "there is a signature, but pack.json has no member signing"
                raise PackRefused("pack_integrity_failure", Problem(SIGNATURE_PATH, message))
            return ""
        place = f"{PACK_JSON}: signing"
        if signing.method == "sigstore" or isinstance(signing.public_key_ref, UnsetType):
            message = "expected method manual with publicKeyRef and signatureRef: this host verifies Ed25519 signatures"
            raise PackRefused("pack_integrity_failure", Problem(place, message))
        path = SIGNATURE_PATH if isinstance(signing.signature_ref, UnsetType) else signing.signature_ref
        check_path(path)
        signature = files.get(path)
        if signature is None:
            raise PackRefused(
                "tarball_entry_missing",
                Problem(f"{place}.signatureRef", f"there is no file {path} in the pack"),
            )
        if len(signature) != SIGNATURE_BYTES:
            message = f"expected an Ed25519 signature of {SIGNATURE_BYTES} bytes, got {len(signature)}"
            raise PackRefused("pack_integrity_failure", Problem(path, message))
        key = self._key(signing.public_key_ref, files)
        if not key.permits(manifest.name):
            message = f"the key {key.id} may sign packs of {', '.join(key.namespaces)}, not {manifest.name}"
            raise PackRefused("pack_integrity_failure", Problem(f"{place}.publicKeyRef", message))
        if not key.verifies(signature, files[PACK_JSON]):
            message = f"{path} is not a signature of {PACK_JSON} by the key {key.id}: one of them was changed"
            raise PackRefused("pack_integrity_failure", Problem(PACK_JSON, message))
        return key.id

    def _key(self, ref: str, files: Mapping[str, bytes]) -> "TrustedKey":
        """The configured key of this id; else the one that the file at this path holds (openwop-contract §12)."""
        for key in self._keys:
            if key.id == ref:
                return key
        if ref in files:
            octets = _public_key(files[ref], ref)
            for key in self._keys:
                if key.octets == octets:
                    return key
        configured = f"; configured are {', '.join(key.id for key in self._keys)}" if self._keys else ""
        message = (
            f"the key {ref[:200]!r} is not configured here{configured}:"
            f' add [pack_keys."{ref[:200]}"] to assay.toml, or use --public-key'
        )
        raise PackRefused("pack_integrity_failure", Problem(f"{PACK_JSON}: signing.publicKeyRef", message))


def _public_key(pem: bytes, path: str) -> bytes:
    try:
        from assay.packs.signature import public_key  # deferred import: the extra `guard`
    except ModuleNotFoundError as error:
        raise missing_extra("a signed pack", "guard", error=error) from error
    try:
        return public_key(pem)
    except ValueError as wrong:
        raise PackRefused("pack_integrity_failure", Problem(path, str(wrong))) from None


def _check_namespace(
    manifest: PackManifest, source: Source, signed_by: str, expected: ExpectedDigest | None
) -> None:
    """A public namespace needs a signature, which covers pack.json, and a digest, which covers the other files."""
    missing: list[str] = []
    if source == "directory":
        missing.append("a tarball, got a directory")
    if not signed_by:
        missing.append("a signature of pack.json by a configured key")
    if expected is None and source == "tarball":
        missing.append(
            "the digest of the tarball (--manifest or --integrity, over HTTP the header Pack-Integrity):"
            " the signature covers pack.json alone"
        )
    if missing:
        message = f"a pack outside private. and local. needs {'; and '.join(missing)}"
        raise PackRefused("pack_integrity_failure", Problem(manifest.key, message))


# The public keys that an operator trusts: those of the settings, and those of a command line.


def trusted_keys(configs: Mapping[str, PackKeyConfig], files: Sequence[str] = ()) -> list["TrustedKey"]:
    """
    The keys of `[pack_keys]`, and those of `--public-key FILE` or `ID=FILE`, which come first.

    Without ID= the id of a key is the name of its file without the ending.
    """
    if not configs and not files:
        return []
    try:
        from assay.packs.signature import read_trusted_key  # deferred import: the extra `guard`
    except ModuleNotFoundError as error:
        raise missing_extra("the key of a pack", "guard", error=error) from error
    keys: list[TrustedKey] = []
    for text in files:
        id, is_named, file = text.partition("=")
        if not is_named:
            id, file = Path(text).stem, text
        if not id or not file:
            raise UsageError(f"--public-key {text!r}: expected FILE or ID=FILE")
        keys.append(read_trusted_key(id, file, (), "--public-key"))
    for id, config in configs.items():
        place = f'settings: pack_keys."{id}"'
        keys.append(read_trusted_key(id, config.file, config.namespaces, place))
    return keys
