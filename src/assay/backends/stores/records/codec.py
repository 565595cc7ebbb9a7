"""Encodes records for the database: compresses evidence and documents, and encrypts if there is a cipher."""

import threading
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import zstandard

from assay.errors import EnvironmentFailure
from assay.ports import DELETION, ERASED, ERASED_BY, Cipher, Run

if TYPE_CHECKING:  # the light store does without SQLAlchemy
    from sqlalchemy import Connection

    from assay.backends.stores.sql.tenant_keys import DataKeys

PLAIN, ZSTD = 0, 1
WORTH_COMPRESSING = 2048  # bytes: half a page of SQLite
DATA_KEY = "@"  # begins the id of a data key of a tenant; no key of a host has it
MARKER_TENANT, MARKER_KIND = "", "seal"  # of the documents that name the keys of an encrypted store
_MARK = b"\0"  # JSON never begins with it


class _Zstd(threading.local):
    """Compressor and decompressor of one thread; they are not thread-safe."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=1).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_zstd = _Zstd()


class EncodedBlob(NamedTuple):
    coding: int
    key_id: str  # empty: not encrypted
    data: bytes


class EncodedMetadata(msgspec.Struct, frozen=True):
    """The encrypted part of a run's row: an experiment's name and a failure's reason may be content."""

    name: str
    metadata: dict[str, Any] = msgspec.field(name="head")


_decode_metadata = msgspec.json.Decoder(EncodedMetadata).decode
_plain = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class RecordCodec:
    """
    Encodes and decodes records. With `sealing` off it decrypts but does not encrypt, to turn encryption off.

    A record of a tenant is encrypted with the data key of the tenant, one without a tenant with the newest key of the
    host.
    """

    def __init__(
        self, cipher: Cipher | None = None, *, sealing: bool = True, keys: "DataKeys | None" = None
    ) -> None:
        self._cipher, self._encrypt_with, self._keys = cipher, cipher if sealing else None, keys
        self._ciphers: dict[str, Cipher] = {} if keys is None else keys.ciphers
        self._in_use: dict[str, Cipher] = {} if keys is None else keys.in_use

    @property
    def key_id(self) -> str:
        """The id of the encrypting key; empty: records are not encrypted."""
        return self._encrypt_with.key_id if self._encrypt_with else ""

    @property
    def ids(self) -> frozenset[str]:
        return self._cipher.ids if self._cipher else frozenset()

    @property
    def keys(self) -> "DataKeys":
        """The data keys of tenants, in a store that has them."""
        assert self._keys is not None
        return self._keys

    def load(self, connection: "Connection", rows: Iterable[Any]) -> None:
        """Read the data keys that open these rows."""
        if self._cipher is not None:
            self.keys.load(connection, {row.key_id for row in rows})

    def load_heads(self, connection: "Connection", rows: Iterable[Any]) -> None:
        """Read the data keys that open the heads of these runs."""
        if self._cipher is not None:
            self.keys.load(connection, {key_of(row.head) for row in rows})

    def prepare(self, connection: Any, tenants: Iterable[str], now: datetime) -> None:
        """Read and lock the data keys that a transaction writes with."""
        if self._keys is not None:
            self._keys.prepare(connection, tenants, now)

    def seal(self, data: bytes, *location: str | int, tenant: str | None = None) -> EncodedBlob:
        coding = PLAIN
        if len(data) >= WORTH_COMPRESSING:
            smaller = _zstd.compress(data)
            if len(smaller) < len(data):
                coding, data = ZSTD, smaller
        if self._encrypt_with is None:
            return EncodedBlob(coding, "", data)
        cipher = self._encrypt_with if tenant is None else self._in_use[tenant]
        return EncodedBlob(coding, cipher.key_id, cipher.seal(data, _label(coding, location)))

    def open(self, sealed: EncodedBlob, *location: str | int) -> bytes:
        data = sealed.data
        if sealed.key_id:
            data = self._decrypt(sealed.key_id, data, _label(sealed.coding, location), location)
        try:
            return _zstd.decompress(data) if sealed.coding == ZSTD else data
        except (zstandard.ZstdError, MemoryError) as wrong:  # a frame contains its own size
            raise EnvironmentFailure(
                f"{_row_name(location)} is damaged: {str(wrong) or 'it claims to be larger than memory'}"
            ) from None

    def seal_run(self, run: Run) -> tuple[str, bytes]:
        """The columns `name` and `head` of a run."""
        if self._encrypt_with is None:
            return run.name, _encode(run.metadata)
        cipher, host = self._in_use[run.tenant], self.keys.host
        assert host is not None  # a store that encrypts has created it
        id = cipher.key_id
        sealed = cipher.seal(
            _encode(EncodedMetadata(run.name, run.metadata)), _label(PLAIN, ("runs", run.id))
        )
        name = host.blind(run.name) if run.name else ""
        return name, b"".join((_MARK, bytes((len(id),)), id.encode(), sealed))

    def open_run(self, run: str, name: str, head: bytes) -> tuple[str, dict[str, Any]]:
        if not head.startswith(_MARK):
            return name, _plain(head)
        id, data = _parts(head)
        place = "runs", run
        key = self._keys.find(id) if self._keys and id.startswith(DATA_KEY) else None
        if key is not None and (destroyed := key.destroyed) is not None:
            when = destroyed.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            return "", {ERASED: when, ERASED_BY: DELETION}
        opened = _decode_metadata(self._decrypt(id, data, _label(PLAIN, place), place))
        return opened.name, opened.metadata

    def names(self, name: str) -> list[str]:
        """The values of the column `name` that stand for a name."""
        host = self._keys.host if self._keys else None
        return [name] if host is None else [name, host.blind(name)]

    def _decrypt(self, id: str, data: bytes, label: bytes, location: tuple[str | int, ...]) -> bytes:
        cipher = self._ciphers.get(id)
        if cipher is None and (cipher := self._cipher) is None:
            raise EnvironmentFailure(
                f"{_row_name(location)} is encrypted with key {id!r}, and no key is set (ASSAY_EVIDENCE_KEY)"
            )
        try:
            if cipher is self._cipher and id.startswith(DATA_KEY):
                raise self._refusal(id)
            return cipher.open(id, data, label)
        except EnvironmentFailure as wrong:
            raise EnvironmentFailure(f"{_row_name(location)}: {wrong}") from None

    def _refusal(self, id: str) -> EnvironmentFailure:
        """Why there is no such data key."""
        key = self._keys.find(id) if self._keys else None
        if key is not None and key.destroyed is not None:
            return EnvironmentFailure(
                f"the content of its tenant was deleted on {key.destroyed:%Y-%m-%d}, and its data key "
                f"{id!r} was destroyed; "
                "to remove the record too, run `assay admin delete --all --tenant NAME` again"
            )
        return EnvironmentFailure(
            f"it is encrypted with the data key {id!r} of a tenant, and the table tenant_keys of this "
            "database lacks that key"
        )


def key_of(head: bytes) -> str:
    """The id of the key that encrypts a run's row; empty: it is not encrypted."""
    return _parts(head)[0] if head.startswith(_MARK) else ""


def _parts(head: bytes) -> tuple[str, bytes]:
    end = 2 + head[1]
    return head[2:end].decode(), head[end:]


def _label(coding: int, location: tuple[str | int, ...]) -> bytes:
    return "\0".join(map(str, (coding, *location))).encode()


def _row_name(location: tuple[str | int, ...]) -> str:
    return f"{location[0]} {location[1]}"
