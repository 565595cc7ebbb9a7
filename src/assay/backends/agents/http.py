"""An agent behind a URL: JSON in, JSON out, and a callback for tools and memory (docs/agent-protocol.md)."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp  # an extra: `from_settings.py` imports this file on demand
import msgspec

from assay.backends.agents.callback import Callbacks, OpenInvocation
from assay.backends.agents.deadlines import with_deadline
from assay.backends.agents.frames import ProtocolError, read_end, read_json, tool_specs
from assay.backends.models.key_scrubbing import HiddenWords
from assay.errors import ForeignFault
from assay.ports.agents import AgentContext
from assay.ports.telemetry import propagation_headers
from assay.protocol.agents import AgentCard, InvocationResult
from assay.protocol.redaction import redact_text

BODY = 64 * 1024 * 1024  # bytes of an answer
READ = 4_000  # bytes of an error body that are read
QUOTED = 300  # characters of an error body that are quoted
# Answers of a proxy, or of a URL without an agent: nothing was measured.
ELSEWHERE = frozenset({401, 403, 404, 405, 407, 408, 413, 415, 429, 502, 503, 504, 529})
PASSING = frozenset({408, 429, 502, 503, 504, 529})
TRIES = 3
WAIT = 0.2  # seconds before the second attempt, doubled before the third
LONGEST = 30.0  # seconds of `Retry-After` that are honoured


class _Place(NamedTuple):
    """The state of one event loop."""

    session: aiohttp.ClientSession
    callbacks: Callbacks


class HttpAgent:
    """
    POSTs `{task, invocationId, callback?, tools?, memory?}` and reads `{result}`, `{error}` or `{refused}`.

    A 500, 400 or 422, and an invalid 2xx, are the agent's own failure. If the agent is unreachable, forbidden or throttled, the
    request is repeated unless the agent has called back already; then it is a fault, and nothing was measured.
    """

    def __init__(
        self,
        card: AgentCard,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
        wait: float = WAIT,
    ) -> None:
        self.card, self._url, self._seconds, self._wait = card, url, seconds, wait
        self._headers = {**(headers or {}), "Content-Type": "application/json", "Accept": "application/json"}
        self._hidden = HiddenWords(headers or {})
        self._places: dict[asyncio.AbstractEventLoop, _Place] = {}

    async def invoke(self, task: Any, context: AgentContext) -> InvocationResult:
        return await with_deadline(context, self._seconds, self._invoke(task, context))

    async def close(self) -> None:
        place = self._places.pop(asyncio.get_running_loop(), None)
        if place is not None:
            await place.session.close()
            await place.callbacks.close()

    async def _invoke(self, task: Any, context: AgentContext) -> InvocationResult:
        place = self._place()
        asked: dict[str, Any] = {"task": task, "invocationId": context.invocation_id}
        if not (self.card.takes_tools or self.card.takes_memory):
            return await self._ask(place, asked, None, context)
        address, visit = await place.callbacks.open(context)
        asked |= {"callback": address, "memory": self.card.takes_memory}
        asked |= {"tools": tool_specs(context.tools)} if self.card.takes_tools else {}
        try:
            return await self._ask(place, asked, visit, context)
        finally:
            place.callbacks.forget(address)

    async def _ask(
        self, path: _Place, asked: dict[str, Any], visit: OpenInvocation | None, context: AgentContext
    ) -> InvocationResult:
        body = msgspec.json.encode(asked)
        for attempt in range(1, TRIES + 1):
            final = attempt == TRIES
            try:
                async with path.session.post(
                    self._url, data=body, headers=propagation_headers(), allow_redirects=False
                ) as response:
                    said = await response.content.read(BODY + 1)
                    while len(said) <= BODY and not response.content.at_eof():
                        said += await response.content.read(BODY + 1 - len(said))
            except (aiohttp.ClientError, OSError) as lost:
                if final or (visit and visit.called):
                    raise ForeignFault(
                        self._told(f"could not be reached: {_brief(lost)}"), recoverable=True
                    ) from None
                await asyncio.sleep(self._wait * 2 ** (attempt - 1))
                continue
            again = response.status in PASSING and not final and not (visit and visit.called)
            if not again:
                return self._read(response.status, said, context)
            await asyncio.sleep(max(_asked(response.headers), self._wait * 2 ** (attempt - 1)))
        raise AssertionError("the last attempt returns or raises")

    def _read(self, status: int, said: bytes, context: AgentContext) -> InvocationResult:
        if len(said) > BODY:
            return InvocationResult(outcome="failed", error=f"it answered with more than {BODY} bytes")
        if status in ELSEWHERE or 300 <= status < 400:
            raise ForeignFault(self._told(f"answered {status}"), recoverable=status in PASSING)
        try:
            finish = read_end(self._hidden.out_of(read_json(said)), context)
        except ValueError as wrong:  # a ProtocolError, or invalid usage
            why = (
                str(wrong)
                if isinstance(wrong, ProtocolError) and status < 400
                else self._hidden.out_of(said[:READ].decode(errors="replace"))[:QUOTED]
            )
            return InvocationResult(outcome="failed", error=f"it answered {status}: {why}")
        if status >= 400 and finish.outcome == "completed":
            return InvocationResult(outcome="failed", error=f"it answered {status}")
        return finish

    def _told(self, what: str) -> str:
        return f"the agent at {redact_text(self._url.partition('?')[0])} {what}"

    def _place(self) -> _Place:
        loop = asyncio.get_running_loop()
        place = self._places.get(loop)
        if place is None:
            for old in [other for other in self._places if other.is_closed()]:
                del self._places[old]
            session = aiohttp.ClientSession(
                headers=self._headers,
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None),  # the deadline is enforced by `with_deadline`
                cookie_jar=aiohttp.DummyCookieJar(),
            )
            place = self._places[loop] = _Place(session, Callbacks())
        return place


def _brief(lost: BaseException) -> str:
    return f"{type(lost).__name__}: {lost}"[:QUOTED] if str(lost) else type(lost).__name__


def _asked(headers: Mapping[str, str]) -> float:
    try:
        return min(LONGEST, max(0.0, float(headers.get("Retry-After", 0))))
    except ValueError:  # a date: use the default wait
        return 0.0
