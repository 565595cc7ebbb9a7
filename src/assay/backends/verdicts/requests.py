"""POST requests to a backend of traces, repeated as OTLP/HTTP says: after 429, 502, 503, 504 and a lost connection."""

import asyncio
import gzip
import http.client
import random
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from assay.backends.issuer_http import NoRedirects
from assay.client_tls import client_context
from assay.concurrency.threads import run_blocking
from assay.errors import EnvironmentFailure

SECONDS = 10.0  # for one request
TRIES = 6
WAIT = 0.25  # seconds before the second attempt, doubled before each further one
LONGEST = 60.0  # seconds of Retry-After that are honoured
PASSING = frozenset({429, 502, 503, 504})
MAX_ANSWER = 1024 * 1024  # bytes
QUOTED = 300  # characters of an answer that are quoted


class Reply(NamedTuple):
    status: int
    body: bytes
    content_type: str
    retry_after: float = 0.0

    @property
    def text(self) -> str:
        return " ".join(self.body[: QUOTED * 4].decode(errors="replace").split())[:QUOTED]


class Poster:
    """Sends bodies to one URL. Headers may hold keys; no message has them."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        seconds: float = SECONDS,
        compressed: bool = True,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not _has_port(parts):
            raise ValueError(f"expected an address such as http://localhost:4318, got {url!r}")
        if parts.username or parts.password:
            raise ValueError("expected an address without a password; a variable for headers may have it")
        self.address = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self._url, self._seconds, self._compressed = url, seconds, compressed
        self._headers = {"User-Agent": "assay", **headers} | (
            {"Content-Encoding": "gzip"} if compressed else {}
        )
        context = tls or (client_context() if parts.scheme == "https" else None)
        handlers = [] if context is None else [urllib.request.HTTPSHandler(context=context)]
        self._opener = urllib.request.build_opener(NoRedirects, *handlers)

    async def post(self, body: bytes) -> Reply:
        """The answer that is not to be repeated, whatever its status. EnvironmentFailure: there is none."""
        data = gzip.compress(body, 6, mtime=0) if self._compressed else body
        why = ""
        for attempt in range(TRIES):
            reply = await run_blocking(self._post, data)
            if isinstance(reply, Reply):
                if reply.status not in PASSING:
                    return reply
                why, pause = f"answered {reply.status} {reply.text}".rstrip(), reply.retry_after
            else:
                why, pause = reply, 0.0
            if attempt + 1 < TRIES:
                backoff = WAIT * 2**attempt * random.uniform(0.75, 1.25)  # noqa: S311  # spreads senders
                await asyncio.sleep(max(pause, backoff))
        raise EnvironmentFailure(f"{self.address} {why}, {TRIES} times")

    def _post(self, data: bytes) -> Reply | str:
        """The answer, or why there is none."""
        request = urllib.request.Request(self._url, data, self._headers, method="POST")  # noqa: S310  # see above
        try:
            with self._opener.open(request, timeout=self._seconds) as answer:
                return Reply(answer.status, answer.read(MAX_ANSWER), answer.headers.get_content_type())
        except urllib.error.HTTPError as wrong:
            with wrong:
                headers = wrong.headers
                return Reply(wrong.code, _rest(wrong), headers.get_content_type(), _retry_after(headers))
        except urllib.error.URLError as wrong:
            return f"could not be reached: {wrong.reason}"
        except TimeoutError:
            return f"did not answer within {self._seconds:g} s"
        except (OSError, http.client.HTTPException) as wrong:
            return f"closed the connection: {wrong or type(wrong).__name__}"

    def refusal(self, reply: Reply) -> EnvironmentFailure:
        return EnvironmentFailure(f"{self.address} answered {reply.status} {reply.text}".rstrip())


def _has_port(parts: SplitResult) -> bool:
    """Whether the port is a number, or none is given."""
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


def _rest(answer: Any) -> bytes:
    try:
        return answer.read(MAX_ANSWER)
    except (OSError, http.client.HTTPException):
        return b""


def _retry_after(headers: Message) -> float:
    """Seconds, from a number or a date."""
    text = headers.get("Retry-After") or ""
    try:
        seconds = (
            float(text) if text.strip().isdigit() else parsedate_to_datetime(text).timestamp() - time.time()
        )
    except ValueError:
        return 0.0
    return min(LONGEST, max(0.0, seconds))


def headers_of(text: str, place: str) -> dict[str, str]:
    """The headers of a variable such as OTEL_EXPORTER_OTLP_HEADERS: `name=value,other=value`, percent-encoded."""
    found: dict[str, str] = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, equals, value = pair.partition("=")
        if not (name.strip() and equals):
            raise ValueError(f"{place}: expected name=value,…")
        value = unquote(value.strip())
        if not value.isprintable():
            raise ValueError(f"{place}: {name.strip()}: expected a value of printable characters")
        found[unquote(name.strip()).lower()] = value
    return found
