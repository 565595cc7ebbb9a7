"""Where an issuer's keys come from: a file, or the one address the operator named. No request ever names one."""

import asyncio
import http.client
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from assay.errors import Broken

MAX_BYTES = 1024 * 1024
SECONDS = 5.0


class Unmoved(urllib.request.HTTPRedirectHandler):
    """Another address was not named by the operator."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return None


def source(where: str) -> Callable[[], Awaitable[bytes]]:
    """What fetches the set, in a thread. Whatever goes wrong is Broken, with what and where."""
    read = _from_address if "://" in where else _from_file

    async def fetch() -> bytes:
        return await asyncio.to_thread(read, where)

    return fetch


def _from_file(where: str) -> bytes:
    try:
        with Path(where).open("rb") as file:
            return _bounded(file.read(MAX_BYTES + 1), where)
    except OSError as wrong:
        raise Broken(f"{where}: cannot be read: {wrong.strerror}") from None


def _from_address(where: str) -> bytes:
    asking = urllib.request.Request(where, headers={"Accept": "application/json", "User-Agent": "assay"})  # noqa: S310
    try:
        with urllib.request.build_opener(Unmoved).open(asking, timeout=SECONDS) as answer:
            return _bounded(answer.read(MAX_BYTES + 1), where)
    except urllib.error.HTTPError as wrong:
        wrong.close()
        raise Broken(f"{where}: answers {wrong.code}") from None
    except (OSError, http.client.HTTPException, ValueError) as wrong:
        raise Broken(f"{where}: cannot be fetched: {wrong or type(wrong).__name__}") from None


def _bounded(data: bytes, where: str) -> bytes:
    if len(data) > MAX_BYTES:
        raise Broken(f"{where}: more than {MAX_BYTES} bytes")
    return data
