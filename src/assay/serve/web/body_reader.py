"""Request bodies: read in chunks, decompressed, within limits of size and time."""

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from typing import Any

from assay.errors import InvalidRequest, TooLarge, UnsupportedMediaType
from assay.protocol.duplicates import check_elements, elements
from assay.serve.web.request import ClientDisconnected, HttpRequest

SLOWEST = 1024  # bytes per second, once `body_seconds` have passed
BLOCK = 1 << 18
SLICE = 1 << 12
_TYPES = {"application/json": "json", "application/x-ndjson": "lines", "application/ndjson": "lines"}


def body_format(call: HttpRequest, *, lines: bool = False) -> str:
    """`json` or `lines`, by the content type. Another type is refused; `lines`: NDJSON is accepted too."""
    if call.headers.get(b"content-type") == b"application/json":
        return "json"
    header = call.header(b"content-type") or ""
    media, _, rest = header.partition(";")
    form = _TYPES.get(media.strip().lower())
    charset = rest.replace(" ", "").lower()
    if (
        form is None
        or (form == "lines" and not lines)
        or charset not in ("", "charset=utf-8", 'charset="utf-8"')
    ):
        supported = ["application/json", *(["application/x-ndjson"] if lines else [])]
        got = repr(header[:100]) if header else "no content type"
        raise UnsupportedMediaType(f"expected a body of {' or '.join(supported)}, got {got}", supported)
    return form


async def read_body(call: HttpRequest, *, in_parts: bool = False) -> bytes:
    """Read a body into memory; it counts with its decoded form. `in_parts`: it is not decoded in one call."""
    body = await _read_all(call, call.server.serving.max_body_bytes, "max_body_bytes")
    if not in_parts:
        check_elements(body, call.server.serving.max_elements)
    return body


async def read_document(call: HttpRequest) -> bytes:
    """Read a body that is decoded in one call and stored as a whole, such as the inputs of a run."""
    serving = call.server.serving
    if serving.max_body_bytes <= serving.max_document_bytes:
        return await read_body(call)
    body = await _read_all(call, serving.max_document_bytes, "max_document_bytes")
    check_elements(body, serving.max_elements)
    return body


async def read_binary(call: HttpRequest, types: Sequence[str], limit: int, setting: str) -> bytes:
    """Read a body of one of these content types, unchanged and within `limit` bytes."""
    header = call.header(b"content-type") or ""
    if header.partition(";")[0].strip().lower() not in types:
        got = repr(header[:100]) if header else "no content type"
        raise UnsupportedMediaType(f"expected a body of {' or '.join(types)}, got {got}", list(types))
    return await _read_all(call, limit, setting)


async def _read_all(call: HttpRequest, limit: int, setting: str) -> bytes:
    first: Any = None
    if b"content-encoding" not in call.headers and _content_length(call) <= limit:
        first = await _next_message(call)
        if not first.get("more_body"):  # the whole body in one message, which is the usual case
            call.reservation.reserve_bytes(footprint(first["body"]))
            return without_bom(first["body"])
    parts: list[bytes] = []
    taken = Footprint()
    async for part in stream_body(call, limit, setting, call.server.serving.max_body_seconds, first):
        call.reservation.reserve_bytes(taken.add(part))
        parts.append(part)
    return without_bom(parts[0] if len(parts) == 1 else b"".join(parts))


def without_bom(body: bytes) -> bytes:
    """Files are read without their byte order mark, so bodies are too."""
    return body[3:] if body.startswith(b"\xef\xbb\xbf") else body


async def stream_body(
    call: HttpRequest, limit: int, setting: str, seconds: float, first: Any = None
) -> AsyncIterator[bytes]:
    """The chunks of a body, decompressed. TooLarge above `limit` bytes; a body slower than `seconds` is refused."""
    coding = (call.header(b"content-encoding") or "identity").lower()
    if coding not in ("identity", "gzip", "x-gzip"):
        raise UnsupportedMediaType(
            f"expected a content-encoding of gzip or identity, got {coding[:40]!r}", ["gzip", "identity"]
        )
    if _content_length(call) > limit:
        raise TooLarge("the body", limit, setting)
    size = sent = 0
    unzip = None if coding == "identity" else GzipReader()
    async for chunk in _chunks(call, seconds, first):
        sent += len(chunk)
        if sent > limit:  # an endless compressed body may decompress to nothing
            raise TooLarge("the body", limit, setting)
        for part in (chunk,) if unzip is None else unzip.feed(chunk):
            size += len(part)
            if size > limit:
                raise TooLarge("the body", limit, setting)
            yield part
    if unzip is not None:
        unzip.finish()


def _content_length(call: HttpRequest) -> int:
    value = call.headers.get(b"content-length", b"0")
    return int(value) if value.isdigit() else 0


async def _next_message(call: HttpRequest) -> Any:
    """The next message of the body. Raises if it does not come within `body_seconds`."""
    seconds = call.server.serving.body_seconds
    pending = call.receive().__await__()
    try:
        first = next(pending)
    except StopIteration as result:  # the usual case: nothing to wait for, so no timer is needed
        message = result.value
    else:
        try:
            async with asyncio.timeout(seconds):
                message = await StartedAwaitable(first, pending)
        except TimeoutError:
            raise body_too_slow(seconds) from None
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return message


class StartedAwaitable:
    """An awaitable already advanced to its first suspension point; awaiting it resumes from there."""

    def __init__(self, first: Any, pending: Generator[Any, Any, Any]) -> None:
        self._first, self._pending = first, pending

    def __await__(self) -> Generator[Any, Any, Any]:
        try:
            yield self._first
            return (yield from self._pending)
        finally:
            self._pending.close()


async def _chunks(call: HttpRequest, seconds: float, message: Any) -> AsyncIterator[bytes]:
    idle = call.server.serving.body_seconds
    began = time.monotonic()
    size = 0
    more = True
    while more:
        message = message or await _next_message(call)
        body: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(body)
        spent = time.monotonic() - began
        if more and spent > seconds:
            raise body_timeout(seconds)
        if more and spent > idle and size < spent * SLOWEST:
            raise body_too_slow(idle)
        message = None
        if body:
            yield body


def body_timeout(seconds: float) -> InvalidRequest:
    settings = "ASSAY_MAX_BODY_SECONDS; for NDJSON, ASSAY_MAX_UPLOAD_SECONDS"
    return InvalidRequest(
        f"request body timed out: not complete within {seconds:g} s ({settings}); no evaluation was started"
    )


def body_too_slow(seconds: float) -> InvalidRequest:
    return InvalidRequest(
        f"request body timed out: under 1 kB/s for {seconds:g} s (ASSAY_BODY_SECONDS); no evaluation was started"
    )


class GzipReader:
    """Decompresses gzip in chunks of bounded size, so that a bomb is refused after its first chunks."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(31)
        self._has_data = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Works in slices: zlib copies the rest of its input at the end of each gzip member."""
        for at in range(0, len(chunk), SLICE):
            yield from self._feed(chunk[at : at + SLICE])

    def _feed(self, chunk: bytes) -> Iterator[bytes]:
        try:
            while chunk:
                if self._stream.eof:  # another member follows
                    self._stream = zlib.decompressobj(31)
                self._has_data = True
                part = self._stream.decompress(chunk, BLOCK)
                chunk = self._stream.unconsumed_tail or self._stream.unused_data
                if part:
                    yield part
                elif self._stream.eof and not self._stream.unused_data:
                    break
        except zlib.error as wrong:
            raise InvalidRequest(f"the body is not valid gzip: {wrong}") from None

    def finish(self) -> None:
        """Refuse a body that ended inside a gzip member."""
        if not self._stream.eof:
            reason = "it is truncated" if self._has_data else "it is empty"
            raise InvalidRequest(f"the body is not valid gzip: {reason}")


# Estimates how much memory a text takes once it is decoded, without decoding it (ADR-0038).

EACH = 64  # bytes of memory for each element; an object of one member has three
FIELD = b"\n"  # in protobuf, the first byte of each list value and each object member
EACH_FIELD = 160
SMALL = 16 * 1024  # bytes; a smaller text is not worth counting
MAX_FACTOR = 48  # bytes of memory that one byte of a small text may need
FOOTPRINT_SLICE = 1 << 20  # bytes counted in one call
_WIDE = (
    b"\xf0",
    b"\xf1",
    b"\xf2",
    b"\xf3",
    b"\xf4",
    b"\\ud",
    b"\\uD",
)  # marks of characters beyond the first 65,536


class Footprint:
    """The estimate for a JSON text that arrives in parts."""

    __slots__ = ("_size", "_width")

    def __init__(self) -> None:
        self._size, self._width = 0, 1

    def add(self, part: bytes) -> int:
        """How many more bytes this part takes: the text itself, its characters and its values."""
        width = max(self._width, width_of(part))
        grown = len(part) * (1 + width) + self._size * (width - self._width) + EACH * elements(part)
        self._size += len(part)
        self._width = width
        return grown


def width_of(text: bytes) -> int:
    """Bytes per character of a Python string with these characters: one wide character makes all of them wide."""
    if text.isascii() and b"\\u" not in text:
        return 1
    return 4 if any(mark in text for mark in _WIDE) else 2


def footprint(text: bytes) -> int:
    """The estimate for a whole JSON text."""
    return MAX_FACTOR * len(text) if len(text) <= SMALL else Footprint().add(text)


def message_footprint(data: bytes) -> int:
    """The estimate for a protobuf message. It counts slice by slice, so that other threads get the GIL in between."""
    if len(data) <= SMALL:
        return MAX_FACTOR * len(data)
    fields = sum(data[at : at + FOOTPRINT_SLICE].count(FIELD) for at in range(0, len(data), FOOTPRINT_SLICE))
    return 2 * len(data) + EACH_FIELD * fields
