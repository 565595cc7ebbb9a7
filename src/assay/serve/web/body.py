"""What comes in: bodies in pieces, unpacked, within their limits and within time."""

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

from assay.errors import InvalidRequest, TooLarge, UnsupportedMediaType
from assay.serve.web.footprint import Footprint, bounded, footprint
from assay.serve.web.request import ClientDisconnected, HttpRequest

SLOWEST = 1024  # bytes a second, once a body has had its time
BLOCK = 1 << 18
SLICE = 1 << 12
_TYPES = {"application/json": "json", "application/x-ndjson": "lines", "application/ndjson": "lines"}


def form_of(call: HttpRequest, *, lines: bool = False) -> str:
    """`json` or `lines`, by the content type."""
    if call.headers.get(b"content-type") == b"application/json":
        return "json"
    said = call.header(b"content-type") or ""
    media, _, rest = said.partition(";")
    form = _TYPES.get(media.strip().lower())
    charset = rest.replace(" ", "").lower()
    if (
        form is None
        or (form == "lines" and not lines)
        or charset not in ("", "charset=utf-8", 'charset="utf-8"')
    ):
        supported = ["application/json", *(["application/x-ndjson"] if lines else [])]
        got = repr(said[:100]) if said else "no content type"
        raise UnsupportedMediaType(f"expected a body of {' or '.join(supported)}, got {got}", supported)
    return form


async def read_body(call: HttpRequest, *, in_parts: bool = False) -> bytes:
    """A body that is held in memory, which counts with what it becomes. `in_parts`: it is not decoded in one go."""
    body = await _whole(call)
    if not in_parts:
        bounded(body, call.server.serving.max_elements)
    return body


async def _whole(call: HttpRequest) -> bytes:
    most = call.server.serving.max_body_bytes
    first: Any = None
    if b"content-encoding" not in call.headers and _announced(call) <= most:
        first = await _message(call)
        if not first.get("more_body"):  # all of it at once, as most are
            call.reservation.reserve_bytes(footprint(first["body"]))
            return unmarked(first["body"])
    parts: list[bytes] = []
    taken = Footprint()
    async for part in stream_body(call, most, "max_body_bytes", call.server.serving.max_body_seconds, first):
        call.reservation.reserve_bytes(taken.more(part))
        parts.append(part)
    return unmarked(parts[0] if len(parts) == 1 else b"".join(parts))


def unmarked(body: bytes) -> bytes:
    """Without a byte order mark, as files are read."""
    return body[3:] if body.startswith(b"\xef\xbb\xbf") else body


async def stream_body(
    call: HttpRequest, most: int, setting: str, seconds: float, first: Any = None
) -> AsyncIterator[bytes]:
    """A body as it comes, unpacked; more of it than allowed is refused, as is one that takes longer than so many seconds."""
    coding = (call.header(b"content-encoding") or "identity").lower()
    if coding not in ("identity", "gzip", "x-gzip"):
        raise UnsupportedMediaType(
            f"no body is read that is packed with {coding[:40]!r}", ["gzip", "identity"]
        )
    if _announced(call) > most:
        raise TooLarge("the body", most, setting)
    size = sent = 0
    packed = coding != "identity"
    unzip = GzipReader() if packed else None
    async for chunk in _received(call, seconds, first):
        sent += len(chunk)
        if sent > most:  # packed, it may come to nothing and have no end
            raise TooLarge("the body", most, setting)
        for part in (chunk,) if unzip is None else unzip.more(chunk):
            size += len(part)
            if size > most:
                raise TooLarge("the body", most, setting)
            yield part
    if unzip is not None:
        unzip.end()


def _announced(call: HttpRequest) -> int:
    said = call.headers.get(b"content-length", b"0")
    return int(said) if said.isdigit() else 0


async def _message(call: HttpRequest) -> Any:
    """What comes next of the body, in time."""
    seconds = call.server.serving.body_seconds
    coming = call.receive().__await__()
    try:
        first = next(coming)
    except StopIteration as there:  # as most are: no clock is wanted for what need not be waited for
        message = there.value
    else:
        try:
            async with asyncio.timeout(seconds):
                message = await StartedAwaitable(first, coming)
        except TimeoutError:
            raise too_slow(seconds) from None
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return message


class StartedAwaitable:
    """What was let run until it waited, for `first`; to be awaited as if it had not."""

    def __init__(self, first: Any, coming: Generator[Any, Any, Any]) -> None:
        self._first, self._coming = first, coming

    def __await__(self) -> Generator[Any, Any, Any]:
        try:
            yield self._first
            return (yield from self._coming)
        finally:
            self._coming.close()


async def _received(call: HttpRequest, seconds: float, message: Any) -> AsyncIterator[bytes]:
    patience = call.server.serving.body_seconds
    began = time.monotonic()
    size = 0
    more = True
    while more:
        message = message or await _message(call)
        body: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(body)
        spent = time.monotonic() - began
        if more and spent > seconds:
            raise too_late(seconds)
        if more and spent > patience and size < spent * SLOWEST:
            raise too_slow(patience)
        message = None
        if body:
            yield body


def too_late(seconds: float) -> InvalidRequest:
    said = "ASSAY_MAX_BODY_SECONDS; of lines, ASSAY_MAX_UPLOAD_SECONDS"
    return InvalidRequest(f"the body did not come whole within {seconds:g} s ({said}); nothing was begun")


def too_slow(seconds: float) -> InvalidRequest:
    return InvalidRequest(
        f"the body did not come: nothing for {seconds:g} s, or too little (ASSAY_BODY_SECONDS); nothing was begun"
    )


class GzipReader:
    """gzip, a bounded piece at a time, so that a bomb is no more than its first pieces."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(31)
        self._fed = False

    def more(self, chunk: bytes) -> Iterator[bytes]:
        """In slices: what follows a member is copied, and there may be many of them."""
        for at in range(0, len(chunk), SLICE):
            yield from self._more(chunk[at : at + SLICE])

    def _more(self, chunk: bytes) -> Iterator[bytes]:
        try:
            while chunk:
                if self._stream.eof:  # another member follows
                    self._stream = zlib.decompressobj(31)
                self._fed = True
                part = self._stream.decompress(chunk, BLOCK)
                chunk = self._stream.unconsumed_tail or self._stream.unused_data
                if part:
                    yield part
                elif self._stream.eof and not self._stream.unused_data:
                    break
        except zlib.error as wrong:
            raise InvalidRequest(f"the body is no gzip: {wrong}") from None

    def end(self) -> None:
        if not self._stream.eof:
            why = "it is cut off" if self._fed else "it is empty"
            raise InvalidRequest(f"the body is no gzip: {why}")
