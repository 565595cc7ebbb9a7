"""Fetches an issuer's key set from the file or URL that the operator configured. A request cannot choose it."""

import asyncio
import http.client
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from assay.client_tls import client_context
from assay.concurrency.threads import run_blocking
from assay.errors import EnvironmentFailure

MAX_BYTES = 1024 * 1024
SECONDS = 5.0


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the operator did not configure their target."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return None


def source(address: str, seconds: float = SECONDS) -> Callable[[], Awaitable[bytes]]:
    """Return a function that fetches the key set. Any failure is an EnvironmentFailure."""
    read = partial(_from_address, seconds=seconds) if "://" in address else _from_file
    return _SharedFetch(read, address, seconds * 2).fetch


class _SharedFetch:
    """Fetches one at a time, in a thread. The caller waits at most `seconds`."""

    def __init__(self, read: Callable[[str], bytes], address: str, seconds: float) -> None:
        self._read, self._address, self._seconds = read, address, seconds
        self._under_way = threading.Lock()

    async def fetch(self) -> bytes:
        try:
            async with asyncio.timeout(self._seconds):
                return await run_blocking(self._fetch)
        except TimeoutError:  # a slow answer, byte by byte, passes the socket's timeout
            raise EnvironmentFailure(f"{self._address}: the answer did not end in time") from None

    def _fetch(self) -> bytes:
        if not self._under_way.acquire(blocking=False):
            raise EnvironmentFailure(f"{self._address}: has not answered the previous request")
        try:
            return self._read(self._address)
        finally:
            self._under_way.release()


def _from_file(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return _check_size(file.read(MAX_BYTES + 1), path)
    except OSError as wrong:
        raise EnvironmentFailure(f"{path}: expected a file that can be read, got {wrong.strerror}") from None


def _from_address(address: str, *, seconds: float) -> bytes:
    asking = urllib.request.Request(address, headers={"Accept": "application/json", "User-Agent": "assay"})  # noqa: S310
    try:
        tls = urllib.request.HTTPSHandler(context=client_context())
        with urllib.request.build_opener(NoRedirects, tls).open(asking, timeout=seconds) as answer:
            return _check_size(_read(answer, address, seconds), address)
    except urllib.error.HTTPError as wrong:
        wrong.close()
        raise EnvironmentFailure(f"{address}: answers {wrong.code}") from None
    except (OSError, http.client.HTTPException, ValueError) as wrong:
        raise EnvironmentFailure(
            f"{address}: expected a key set, got {wrong or type(wrong).__name__}"
        ) from None


def _read(answer: Any, address: str, seconds: float) -> bytes:
    until, parts, size = time.monotonic() + seconds, list[bytes](), 0
    while size <= MAX_BYTES and (part := answer.read1(MAX_BYTES)):
        parts.append(part)
        size += len(part)
        if time.monotonic() > until:
            raise EnvironmentFailure(f"{address}: takes more than {seconds:g} s")
    return b"".join(parts)


def _check_size(data: bytes, address: str) -> bytes:
    if len(data) > MAX_BYTES:
        raise EnvironmentFailure(f"{address}: more than {MAX_BYTES} bytes")
    return data
