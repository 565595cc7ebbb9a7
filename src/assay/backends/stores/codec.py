"""How the record lies on the disk: evidence and documents squeezed; and all that may be content sealed, if there is a cipher."""

import threading
from typing import Any, NamedTuple

import msgspec
import zstandard

from assay.errors import EnvironmentFailure
from assay.ports import Cipher, Run

PLAIN, ZSTD = 0, 1
WORTH_SQUEEZING = 2048  # bytes: half a page of SQLite's
_MARK = b"\0"  # no JSON begins so


class _Zstd(threading.local):
    """Squeezes and unfolds: one for each thread, for none of it may be shared."""

    def __init__(self) -> None:
        self.squeeze = zstandard.ZstdCompressor(level=1).compress
        self.unfold = zstandard.ZstdDecompressor().decompress


_press = _Zstd()


class EncodedBlob(NamedTuple):
    coding: int
    key_id: str  # empty: in clear
    data: bytes


class EncodedHead(msgspec.Struct, frozen=True):
    """What is sealed of a run's row: an experiment's name and the reason of a failure may be somebody's words."""

    name: str
    head: dict[str, Any]


_head = msgspec.json.Decoder(EncodedHead).decode
_plain = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class RecordCodec:
    """With `sealing` off it opens what is sealed, and seals nothing: how a store is taken back into the clear."""

    def __init__(self, cipher: Cipher | None = None, *, sealing: bool = True) -> None:
        self._opens, self._seals = cipher, cipher if sealing else None

    @property
    def key_id(self) -> str:
        """Of what is sealed now; empty: nothing is."""
        return self._seals.key_id if self._seals else ""

    @property
    def ids(self) -> frozenset[str]:
        return self._opens.ids if self._opens else frozenset()

    def seal(self, data: bytes, *place: str | int) -> EncodedBlob:
        coding = PLAIN
        if len(data) >= WORTH_SQUEEZING:
            squeezed = _press.squeeze(data)
            if len(squeezed) < len(data):
                coding, data = ZSTD, squeezed
        if self._seals is None:
            return EncodedBlob(coding, "", data)
        return EncodedBlob(coding, self._seals.key_id, self._seals.seal(data, _label(coding, place)))

    def open(self, sealed: EncodedBlob, *place: str | int) -> bytes:
        data = sealed.data
        if sealed.key_id:
            data = self._opened(sealed.key_id, data, _label(sealed.coding, place), place)
        try:
            return _press.unfold(data) if sealed.coding == ZSTD else data
        except (zstandard.ZstdError, MemoryError) as wrong:  # a frame says itself how long it is
            raise EnvironmentFailure(
                f"{_told(place)} is damaged: {str(wrong) or 'it claims to be larger than memory'}"
            ) from None

    def seal_run(self, run: Run) -> tuple[str, bytes]:
        """The columns `name` and `head` of a run."""
        if self._seals is None:
            return run.name, _encode(run.head)
        id = self._seals.key_id
        sealed = self._seals.seal(_encode(EncodedHead(run.name, run.head)), _label(PLAIN, ("runs", run.id)))
        name = self._seals.blind(run.name)[0] if run.name else ""
        return name, b"".join((_MARK, bytes((len(id),)), id.encode(), sealed))

    def open_run(self, run: str, name: str, head: bytes) -> tuple[str, dict[str, Any]]:
        if not head.startswith(_MARK):
            return name, _plain(head)
        id, data = _parts(head)
        place = "runs", run
        opened = _head(self._opened(id, data, _label(PLAIN, place), place))
        return opened.name, opened.head

    def names(self, name: str) -> list[str]:
        """What the column `name` may hold for a name."""
        return [name, *(self._opens.blind(name) if self._opens else ())]

    def _opened(self, id: str, data: bytes, label: bytes, place: tuple[str | int, ...]) -> bytes:
        if self._opens is None:
            raise EnvironmentFailure(
                f"{_told(place)} is encrypted with key {id!r}, and no key is set (ASSAY_EVIDENCE_KEY)"
            )
        try:
            return self._opens.open(id, data, label)
        except EnvironmentFailure as wrong:
            raise EnvironmentFailure(f"{_told(place)}: {wrong}") from None


def key_of(head: bytes) -> str:
    """With which key a run's row is sealed; empty: it is in clear."""
    return _parts(head)[0] if head.startswith(_MARK) else ""


def _parts(head: bytes) -> tuple[str, bytes]:
    end = 2 + head[1]
    return head[2:end].decode(), head[end:]


def _label(coding: int, place: tuple[str | int, ...]) -> bytes:
    return "\0".join(map(str, (coding, *place))).encode()


def _told(place: tuple[str | int, ...]) -> str:
    return f"{place[0]} {place[1]}"
