"""Fetches an issuer's key set from the file or URL that the operator configured. A request cannot choose it."""

import asyncio
import http.client
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from assay.errors import EnvironmentFailure

MAX_BYTES = 1024 * 1024
SECONDS = 5.0


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the operator did not configure their target."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return None


def source(where: str, seconds: float = SECONDS) -> Callable[[], Awaitable[bytes]]:
    """Return a function that fetches the key set. Any failure is an EnvironmentFailure."""
    read = partial(_from_address, seconds=seconds) if "://" in where else _from_file
    return _Fetching(read, where, seconds * 2).fetch


class _Fetching:
    """Fetches one at a time, in a thread. The caller waits at most `seconds`."""

    def __init__(self, read: Callable[[str], bytes], where: str, seconds: float) -> None:
        self._read, self._where, self._seconds = read, where, seconds
        self._under_way = False

    async def fetch(self) -> bytes:
        if self._under_way:
            raise EnvironmentFailure(f"{self._where}: has not answered the previous request")
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._under_way = True
        threading.Thread(target=self._work, args=(answer,), daemon=True).start()
        try:
            async with asyncio.timeout(self._seconds):
                return await answer
        except TimeoutError:  # a slow answer, byte by byte, passes the socket's timeout
            raise EnvironmentFailure(f"{self._where}: the answer did not end in time") from None

    def _work(self, answer: "asyncio.Future[bytes]") -> None:
        data, trouble = b"", None
        try:
            data = self._read(self._where)
        except EnvironmentFailure as wrong:
            trouble = wrong
        with suppress(RuntimeError):  # the event loop is closed
            answer.get_loop().call_soon_threadsafe(self._tell, answer, data, trouble)

    def _tell(self, answer: "asyncio.Future[bytes]", data: bytes, trouble: EnvironmentFailure | None) -> None:
        self._under_way = False
        if answer.done():
            return
        if trouble is None:
            answer.set_result(data)
        else:
            answer.set_exception(trouble)


def _from_file(where: str) -> bytes:
    try:
        with Path(where).open("rb") as file:
            return _bounded(file.read(MAX_BYTES + 1), where)
    except OSError as wrong:
        raise EnvironmentFailure(f"{where}: cannot be read: {wrong.strerror}") from None


def _from_address(where: str, *, seconds: float) -> bytes:
    asking = urllib.request.Request(where, headers={"Accept": "application/json", "User-Agent": "assay"})  # noqa: S310
    try:
        with urllib.request.build_opener(NoRedirects).open(asking, timeout=seconds) as answer:
            return _bounded(_read(answer, where, seconds), where)
    except urllib.error.HTTPError as wrong:
        wrong.close()
        raise EnvironmentFailure(f"{where}: answers {wrong.code}") from None
    except (OSError, http.client.HTTPException, ValueError) as wrong:
        raise EnvironmentFailure(f"{where}: cannot be fetched: {wrong or type(wrong).__name__}") from None


def _read(answer: Any, where: str, seconds: float) -> bytes:
    until, parts, size = time.monotonic() + seconds, list[bytes](), 0
    while size <= MAX_BYTES and (part := answer.read1(MAX_BYTES)):
        parts.append(part)
        size += len(part)
        if time.monotonic() > until:
            raise EnvironmentFailure(f"{where}: takes more than {seconds:g} s")
    return b"".join(parts)


def _bounded(data: bytes, where: str) -> bytes:
    if len(data) > MAX_BYTES:
        raise EnvironmentFailure(f"{where}: more than {MAX_BYTES} bytes")
    return data
