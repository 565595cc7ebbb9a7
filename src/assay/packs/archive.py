"""A pack as a gzipped USTAR archive, read within bounds; equal files give equal octets (openwop-contract §7.3)."""

import base64
import hashlib
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from assay.errors import InvalidRequest, Problem
from assay.protocol.json_types import is_object

BLOCK = 512
CHUNK = 1 << 18  # bytes that are decompressed at a time
STORED = 0xFFFF  # bytes of a stored block of deflate
LONGEST_PATH = 255
MAX_FILES = 500
MAX_RATIO = 100  # of the unpacked size to the packed one, for archives above RATIO_FROM bytes
RATIO_FROM = 1 << 20
MAX_PACK_BYTES = 8 << 20
MAX_ELEMENTS = (
    500_000  # brackets, quotes and commas of a JSON file: reading more would hold the GIL for too long
)
_HEADER = struct.Struct("100s8s8s8s12s12s8sc100s6s2s32s32s8s8s155s12x")
KINDS = {
    b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"5": "a directory", b"6": "a pipe",
    b"7": "a contiguous file", b"x": "an extended header", b"g": "an extended header", b"L": "a long name of GNU tar",
    b"K": "a long link of GNU tar", b"S": "a sparse file",
}  # fmt: skip
LINKS = (b"1", b"2")


class PackLimits(Struct, frozen=True):
    """The bounds of one pack. `tarball` is a setting, `max_pack_bytes`."""

    tarball: int = MAX_PACK_BYTES

    @property
    def unpacked(self) -> int:
        return 4 * self.tarball

    @property
    def file(self) -> int:
        return self.tarball


def read_tarball(data: bytes, limits: PackLimits = PackLimits()) -> dict[str, bytes]:  # noqa: B008  # a value
    """The files of an archive by path, sorted. Anything but a plain file with a safe path refuses the archive."""
    if len(data) > limits.tarball:
        message = (
            f"the tarball has {len(data):,} bytes; the limit is {limits.tarball:,} (ASSAY_MAX_PACK_BYTES)"
        )
        raise PackTooLarge("tarball_too_large", message)
    files: dict[str, bytes] = {}
    for path, content in _members(_gunzip(data, limits), limits):
        if path in files:
            raise PackRefused(
                "tarball_tar_parse_failed", Problem(path, "expected one file of this path, got two")
            )
        if len(files) == MAX_FILES:
            raise PackTooLarge("tarball_too_large", f"the pack has more than {MAX_FILES} files")
        files[path] = content
    return dict(sorted(files.items()))


def check_path(path: str) -> None:
    """Refuse a path that is absolute, leaves the pack, or is written in an unusual way."""

    def refusal(message: str, code: Code = "tarball_path_traversal") -> PackRefused:
        return PackRefused(code, Problem(path[:LONGEST_PATH], message))

    parts = path.split("/")
    if path.startswith("/") or (len(path) > 1 and path[1] == ":"):
        raise refusal("expected a path inside the pack, got an absolute one")
    if ".." in parts or "\\" in path:
        raise refusal("expected a path inside the pack, got one with '..' or a backslash")
    if not all(parts) or "." in parts or not path.isprintable():
        raise refusal("expected a plain path such as prompts/agent.md", "tarball_tar_parse_failed")
    if len(path.encode()) > LONGEST_PATH:
        raise refusal(f"expected a path of at most {LONGEST_PATH} bytes", "tarball_tar_parse_failed")


def _gunzip(data: bytes, limits: PackLimits) -> bytes:
    stream = zlib.decompressobj(31)
    parts: list[bytes] = []
    size, pending = 0, data
    try:
        while not stream.eof:
            part = stream.decompress(pending, CHUNK)
            pending = stream.unconsumed_tail
            size += len(part)
            if size > limits.unpacked:
                message = f"the unpacked archive has more than {limits.unpacked:,} bytes, which is the limit"
                raise PackTooLarge("tarball_too_large", message)
            if size > max(RATIO_FROM, MAX_RATIO * len(data)):
                message = f"the archive unpacks to more than {MAX_RATIO} times its size, which is the limit"
                raise PackTooLarge("tarball_too_large", message)
            if not part and not pending and not stream.eof:
                raise PackRefused("tarball_gunzip_failed", "the tarball is not complete gzip: it is cut off")
            parts.append(part)
    except zlib.error as wrong:
        raise PackRefused("tarball_gunzip_failed", f"the tarball is not gzip: {wrong}") from None
    if stream.unused_data:
        count = len(stream.unused_data)
        raise PackRefused("tarball_gunzip_failed", f"{count:,} bytes follow the end of the gzip data")
    return b"".join(parts)


def _members(archive: bytes, limits: PackLimits) -> Iterator[tuple[str, bytes]]:
    at = 0
    while True:
        header = archive[at : at + BLOCK]
        if len(header) < BLOCK:
            raise PackRefused("tarball_tar_parse_failed", "the archive is cut off: it has no end mark")
        if not any(header):
            break
        path, size = _header(header, at)
        if size > limits.file:
            message = f"expected at most {limits.file:,} bytes, got {size:,}"
            raise PackTooLarge("tarball_entry_too_large", Problem(path, message))
        at += BLOCK
        if at + size > len(archive):
            raise PackRefused(
                "tarball_tar_parse_failed",
                Problem(path, "expected the whole file, got an archive that is cut off in it"),
            )
        padded = -(-size // BLOCK) * BLOCK
        if any(archive[at + size : at + padded]):
            raise PackRefused(
                "tarball_tar_parse_failed",
                Problem(path, "expected padding after the end of this file, got other bytes"),
            )
        yield path, archive[at : at + size]
        at += padded
    rest = archive[at:]
    if len(rest) < 2 * BLOCK or not _is_empty(rest) or len(rest) % BLOCK:
        raise PackRefused("tarball_tar_parse_failed", "expected two empty blocks at the end of the archive")


def _is_empty(data: bytes) -> bool:
    """Whether all octets are 0. any() would hold the GIL for most of a second at the largest size."""
    empty = bytes(CHUNK)
    return all(empty.startswith(data[at : at + CHUNK]) for at in range(0, len(data), CHUNK))


def _header(header: bytes, at: int) -> tuple[str, int]:
    """The path and the size of a member."""
    fields = _HEADER.unpack(header)
    prefix, name = (_text(field, at) for field in (fields[15], fields[0]))
    path = f"{prefix}/{name}" if prefix else name
    if fields[9] != b"ustar\0" or fields[10] != b"00":
        raise PackRefused(
            "tarball_tar_parse_failed", f"expected a USTAR header at byte {at:,}, got another format"
        )
    total = sum(header) - sum(header[148:156]) + 8 * ord(" ")
    if _number(fields[6], at) != total:
        raise PackRefused(
            "tarball_tar_parse_failed", Problem(path, "expected the checksum of its header, got another")
        )
    kind = fields[7]
    if kind not in (b"0", b"\0"):
        code = "tarball_path_traversal" if kind in LINKS else "tarball_tar_parse_failed"
        what = KINDS.get(kind, f"an entry of type {kind!r}")
        raise PackRefused(code, Problem(path, f"expected files only, got {what}"))
    check_path(path)
    return path, _number(fields[4], at)


def _text(field: bytes, at: int) -> str:
    try:
        return field.split(b"\0", 1)[0].decode()
    except UnicodeDecodeError:
        raise PackRefused(
            "tarball_tar_parse_failed", f"the path in the header at byte {at:,} is not UTF-8"
        ) from None


def _number(field: bytes, at: int) -> int:
    digits = field.strip(b" \0")
    if not digits or digits.strip(b"01234567"):
        raise PackRefused(
            "tarball_tar_parse_failed", f"expected octal numbers in the header at byte {at:,}, got {field!r}"
        )
    return int(digits, 8)


def write_tarball(files: Mapping[str, bytes]) -> bytes:
    """
    The archive of these files: sorted, without times, owners or modes of the machine.

    The gzip data are stored, not compressed: compressors of different versions give different octets for the same
    input.
    """
    parts: list[bytes] = []
    for path in sorted(files):
        check_path(path)
        parts += (_member_header(path, len(files[path])), files[path], bytes(-len(files[path]) % BLOCK))
    return _gzip(b"".join(parts) + bytes(2 * BLOCK))


def _member_header(path: str, size: int) -> bytes:
    prefix, name = "", path
    if len(path.encode()) > 100:
        cuts = [at for at, letter in enumerate(path) if letter == "/" and len(path[:at].encode()) <= 155]
        cuts = [at for at in cuts if len(path[at + 1 :].encode()) <= 100]
        if not cuts:
            message = (
                "expected a path whose last part has at most 100 bytes and whose folders have at most 155"
            )
            raise PackRefused("tarball_tar_parse_failed", Problem(path, message))
        prefix, name = path[: cuts[-1]], path[cuts[-1] + 1 :]

    def header(checksum: bytes) -> bytes:
        octal = b"%011o\0"
        return _HEADER.pack(
            name.encode(), b"0000644\0", b"0000000\0", b"0000000\0", octal % size, octal % 0, checksum, b"0",
            b"", b"ustar\0", b"00", b"", b"", b"0000000\0", b"0000000\0", prefix.encode(),
        )  # fmt: skip

    return header(b"%06o\0 " % sum(header(b" " * 8)))


def _gzip(data: bytes) -> bytes:
    """Gzip in stored blocks: no compressor takes part, so the octets depend on the data alone."""
    parts = [b"\x1f\x8b\x08\0\0\0\0\0\0\xff"]
    for at in range(0, len(data), STORED):
        block = data[at : at + STORED]
        last = at + STORED >= len(data)
        parts += (struct.pack("<BHH", last, len(block), len(block) ^ STORED), block)
    return b"".join([*parts, struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)])


# The digest of a tarball, and the version manifest that a registry publishes beside it (openwop-contract §7.5).

FORM = re.compile(r"sha256-[A-Za-z0-9+/]{43}=")
REGISTRY = frozenset(
    {
        "integrity", "publishedAt", "tarballUrl", "signatureUrl", "deprecated", "yanked", "yankedReason",
        "deprecationReason", "supersededBy", "advisoryUrl",
    }
)  # fmt: skip  # the members of a version manifest that the registry adds


class ExpectedDigest(Struct, frozen=True, kw_only=True):
    """The digest that an operator supplies, with its version manifest if any. `origin` names it in messages."""

    integrity: str
    origin: str
    source: Literal["manifest", "integrity"] = "integrity"
    manifest: dict[str, Any] = {}


def integrity_of(data: bytes) -> str:
    """`sha256-<base64>`, as in a version manifest."""
    return "sha256-" + base64.b64encode(hashlib.sha256(data).digest()).decode()


def hex_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def expected_digest(text: str, origin: str) -> ExpectedDigest:
    """The digest as an option or a header gives it."""
    if not FORM.fullmatch(text):
        message = f"expected sha256- and 44 characters of base64, got {text[:80]!r}"
        raise PackRefused("pack_integrity_failure", Problem(origin, message))
    return ExpectedDigest(integrity=text, origin=origin)


def read_version_manifest(data: bytes, origin: str) -> ExpectedDigest:
    """The digest of a version manifest. A version that its registry withdrew is refused."""
    try:
        document: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise PackRefused("pack_integrity_failure", Problem(origin, f"not JSON: {wrong}")) from None
    if not is_object(document) or not isinstance(document.get("integrity"), str):
        message = "expected a version manifest, which is an object with the member integrity"
        raise PackRefused("pack_integrity_failure", Problem(origin, message))
    if document.get("yanked"):
        reason = str(document.get("yankedReason", ""))[:512]
        raise PackRefused(
            "pack_integrity_failure",
            Problem(
                origin, f"expected a version that is offered; the registry withdrew this: {reason}".rstrip()
            ),
        )
    digest = expected_digest(document["integrity"], f"{origin}: integrity")
    return ExpectedDigest(integrity=digest.integrity, origin=origin, source="manifest", manifest=document)


def check_digest(data: bytes, expected: ExpectedDigest) -> None:
    """Compare the tarball with the digest, before anything of it is read."""
    found = integrity_of(data)
    if found != expected.integrity:
        message = (
            f"the digest of the tarball is {found}, expected {expected.integrity}: the tarball was "
            "changed, or is another one"
        )
        raise PackRefused("pack_integrity_failure", Problem(expected.origin, message))


def check_version_manifest(expected: ExpectedDigest, pack: dict[str, Any]) -> None:
    """The version manifest repeats pack.json: each shared member must be equal."""
    if expected.source != "manifest":
        return
    codes: dict[str, Code] = {"name": "manifest_name_mismatch", "version": "manifest_version_mismatch"}
    for name, code in codes.items():
        if expected.manifest.get(name) != pack.get(name):
            message = f"expected {pack.get(name)!r}, as in pack.json, got {expected.manifest.get(name)!r}"
            raise PackRefused(code, Problem(f"{expected.origin}: {name}", message))
    names = (set(expected.manifest) | set(pack)) - REGISTRY
    different = sorted(name for name in names if expected.manifest.get(name, ...) != pack.get(name, ...))
    if different:
        raise PackRefused(
            "pack_integrity_failure",
            [
                Problem(f"{expected.origin}: {name}", "expected the value of pack.json, got another")
                for name in different
            ],
        )


# The refusals of packs, with the codes that registries publish (openwop-contract §7.3).

Code = Literal[
    "tarball_gunzip_failed", "tarball_too_large", "tarball_manifest_missing", "tarball_manifest_not_json",
    "tarball_entry_missing", "tarball_entry_too_large", "tarball_path_traversal", "tarball_tar_parse_failed",
    "invalid_manifest", "manifest_name_mismatch", "manifest_version_mismatch", "pack_integrity_failure",
    "unsupported_runtime", "pack_engine_unsupported", "pack_peer_dependency_missing", "pack_version_not_found",
]  # fmt: skip


class PackRefused(InvalidRequest):
    """A pack that is not installed: one published code, and every problem with the file it is in."""

    def __init__(self, code: Code, problems: str | Problem | Sequence[Problem]) -> None:
        self.code = code
        super().__init__(problems)

    @property
    def lines(self) -> tuple[str, ...]:
        """For a terminal, with the code: other hosts answer with the same one."""
        return tuple(f"{self.code}: {line}" for line in super().lines)


class PackTooLarge(PackRefused):
    """A pack above a bound of this host."""

    code: Code = "tarball_too_large"
