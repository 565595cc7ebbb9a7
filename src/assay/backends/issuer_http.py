"""Requests to an issuer of tokens, at addresses that the operator configured. A client cannot choose them."""

import asyncio
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple

from assay.client_tls import client_context
from assay.concurrency.threads import run_blocking
from assay.errors import EnvironmentFailure

MAX_BYTES = 1024 * 1024
SECONDS = 5.0
HEADERS = {"Accept": "application/json", "User-Agent": "assay"}


class IssuerAnswer(NamedTuple):
    status: int
    data: bytes


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the operator did not configure their target."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return None


async def ask(address: str, headers: Mapping[str, str], form: bytes | None = None) -> IssuerAnswer:
    """GET an address, or POST a form to it, in a thread. Any failure is an EnvironmentFailure."""
    try:
        async with asyncio.timeout(SECONDS * 2):  # a slow answer, byte by byte, passes the socket's timeout
            return await run_blocking(ask_now, address, headers, form, SECONDS)
    except TimeoutError:
        raise EnvironmentFailure(f"{address}: the answer did not end in time") from None


def ask_now(address: str, headers: Mapping[str, str], form: bytes | None, seconds: float) -> IssuerAnswer:
    """The same in this thread. An answer of any status is one, also a redirect."""
    asking = urllib.request.Request(address, form, {**HEADERS, **headers})  # noqa: S310  # the operator's
    try:
        tls = urllib.request.HTTPSHandler(context=client_context())
        opener = urllib.request.build_opener(NoRedirects, tls)
        try:
            with opener.open(asking, timeout=seconds) as answer:
                return IssuerAnswer(answer.status, _read(answer, address, seconds))
        except urllib.error.HTTPError as refused:
            with refused:
                return IssuerAnswer(refused.code, _read(refused, address, seconds))
    except urllib.error.URLError as wrong:
        raise EnvironmentFailure(f"{address}: expected an answer, got {wrong.reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as wrong:
        why = str(wrong) or type(wrong).__name__
        raise EnvironmentFailure(f"{address}: expected an answer, got {why}") from None


def _read(answer: Any, address: str, seconds: float) -> bytes:
    until, parts, size = time.monotonic() + seconds, list[bytes](), 0
    while size <= MAX_BYTES and (part := answer.read1(MAX_BYTES)):
        parts.append(part)
        size += len(part)
        if time.monotonic() > until:
            raise EnvironmentFailure(f"{address}: takes more than {seconds:g} s")
    return check_size(b"".join(parts), address)


def check_size(data: bytes, place: str) -> bytes:
    if len(data) > MAX_BYTES:
        raise EnvironmentFailure(f"{place}: more than {MAX_BYTES} bytes")
    return data
