"""Fetches an issuer's key set from the file or URL that the operator configured. A request cannot choose it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from assay.backends.issuer_http import MAX_BYTES, SECONDS, ask_now, check_size
from assay.concurrency.threads import run_blocking
from assay.errors import EnvironmentFailure


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
            return check_size(file.read(MAX_BYTES + 1), path)
    except OSError as wrong:
        raise EnvironmentFailure(f"{path}: expected a file that can be read, got {wrong.strerror}") from None


def _from_address(address: str, *, seconds: float) -> bytes:
    answer = ask_now(address, {}, None, seconds)
    if answer.status != 200:
        raise EnvironmentFailure(f"{address}: answers {answer.status}")
    return answer.data
