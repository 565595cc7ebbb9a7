"""An agent behind a URL: JSON in, JSON out, and a callback for tools and memory (docs/agent-protocol.md)."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import aiohttp  # an extra: `from_settings.py` imports this file on demand
import msgspec
from aiohttp import web  # an extra: only `http.py` imports this file
from aiohttp.abc import AbstractResolver

from assay.backends.agents.frames import ProtocolError, handle, read_end, read_frame, read_json, tool_specs
from assay.backends.models.key_scrubbing import HiddenWords
from assay.client_tls import client_context
from assay.concurrency.foreign_code import with_deadline
from assay.errors import ForeignFault
from assay.ports.agents import AgentContext
from assay.ports.telemetry import agent_traceparent
from assay.protocol.agents import AgentCard, InvocationResult
from assay.protocol.redaction import redact_text

# The callback server for HTTP agents, on loopback, with one URL per invocation.

CALLBACK_BODY = 16 * 1024 * 1024  # bytes of a frame


class OpenInvocation:
    """An invocation in progress, and whether the agent has called back."""

    def __init__(self, context: AgentContext) -> None:
        self.context, self.called = context, False


class Callbacks:
    """One server per event loop. It starts with the first invocation that needs it."""

    def __init__(self) -> None:
        self._open: dict[str, OpenInvocation] = {}
        self._start: asyncio.Task[tuple[web.AppRunner, str]] | None = None

    async def open(self, context: AgentContext) -> tuple[str, OpenInvocation]:
        """Return the callback URL of an invocation. It is a secret while the invocation runs."""
        if self._start is None or (self._start.done() and not _succeeded(self._start)):
            self._start = asyncio.create_task(self._serve())
        _, base = await asyncio.shield(
            self._start
        )  # an invocation that is cancelled leaves no half-open server
        token = secrets.token_urlsafe(32)
        invocation = self._open[token] = OpenInvocation(context)
        return f"{base}/{token}", invocation

    def forget(self, address: str) -> None:
        self._open.pop(address.rpartition("/")[2], None)

    async def close(self) -> None:
        start, self._start = self._start, None
        if start is not None:
            await asyncio.wait([start])
            if _succeeded(start):
                await start.result()[0].cleanup()

    async def _serve(self) -> tuple[web.AppRunner, str]:
        app = web.Application(client_max_size=CALLBACK_BODY)
        app.router.add_post("/{token}", self._receive)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        return runner, f"http://{host}:{port}"

    async def _receive(self, request: web.Request) -> web.Response:
        invocation = self._open.get(request.match_info["token"])
        if invocation is None:
            return _error(404, "over", "there is no such invocation, or it is over")
        invocation.called = True
        try:
            frame = read_frame(read_json(await request.read()))
            return web.json_response(await handle(frame, invocation.context))
        except (ProtocolError, ValueError) as wrong:
            return _error(400, "invalid_frame", str(wrong))


def _succeeded(task: asyncio.Task[Any]) -> bool:
    return not task.cancelled() and task.exception() is None


def _error(status: int, code: str, message: str) -> web.Response:
    return web.json_response({"error": {"code": code, "message": message}}, status=status)


BODY = 64 * 1024 * 1024  # bytes of an answer
READ = 4_000  # bytes of an error body that are read
QUOTED = 300  # characters of an error body that are quoted
# Answers of a proxy, or of a URL without an agent: nothing was measured.
ELSEWHERE = frozenset({401, 403, 404, 405, 407, 408, 413, 415, 429, 502, 503, 504, 529})
PASSING = frozenset({408, 429, 502, 503, 504, 529})
TRIES = 3
WAIT = 0.2  # seconds before the second attempt, doubled before the third
LONGEST = 30.0  # seconds of `Retry-After` that are honoured


class _LoopState(NamedTuple):
    """The state of one event loop."""

    session: aiohttp.ClientSession
    callbacks: Callbacks


class HttpSessions:
    """
    The connections of HTTP agents, on each event loop that uses them.

    `resolver` finds the addresses of hosts; None: that of aiohttp.
    """

    def __init__(self, resolver: Callable[[], AbstractResolver] | None = None) -> None:
        self._resolver = resolver
        self._states: dict[asyncio.AbstractEventLoop, _LoopState] = {}

    def state(self) -> _LoopState:
        """That of the running event loop."""
        loop = asyncio.get_running_loop()
        state = self._states.get(loop)
        if state is None:
            for old in [other for other in self._states if other.is_closed()]:
                del self._states[old]
            resolver = None if self._resolver is None else self._resolver()
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, resolver=resolver, ssl=client_context()),
                timeout=aiohttp.ClientTimeout(total=None),  # the deadline is enforced by `with_deadline`
                cookie_jar=aiohttp.DummyCookieJar(),
            )
            state = self._states[loop] = _LoopState(session, Callbacks())
        return state

    async def close(self) -> None:
        state = self._states.pop(asyncio.get_running_loop(), None)
        if state is not None:
            await state.session.close()
            await state.callbacks.close()


class HttpAgent:
    """
    POSTs `{task, invocationId, messages?, callback?, tools?, memory?}` and reads `{result}`, `{error}` or `{refused}`.

    A 500, 400 or 422, and an invalid 2xx, are the agent's own failure. If the agent is unreachable, forbidden or
    throttled, the request is repeated unless the agent has called back already; then it is a fault, and nothing was
    measured.
    """

    system_prompt: str | None = None

    def __init__(
        self,
        card: AgentCard,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
        wait: float = WAIT,
        sessions: HttpSessions | None = None,
    ) -> None:
        """`sessions` are shared with other agents, and closed by their owner; None: it has its own."""
        self.card, self._url, self._seconds, self._wait = card, url, seconds, wait
        self._headers = {**(headers or {}), "Content-Type": "application/json", "Accept": "application/json"}
        self._redactor = HiddenWords(headers or {})
        self._sessions, self._shared = sessions or HttpSessions(), sessions is not None

    async def invoke(self, task: Any, context: AgentContext) -> InvocationResult:
        return await with_deadline(context, self._seconds, self._invoke(task, context))

    async def close(self) -> None:
        if not self._shared:
            await self._sessions.close()

    async def _invoke(self, task: Any, context: AgentContext) -> InvocationResult:
        state = self._sessions.state()
        request: dict[str, Any] = {"task": task, "invocationId": context.invocation_id}
        request |= {"messages": list(context.messages)} if context.messages else {}
        if not (self.card.takes_tools or self.card.takes_memory):
            return await self._ask(state, request, None, context)
        address, visit = await state.callbacks.open(context)
        request |= {"callback": address, "memory": self.card.takes_memory}
        request |= {"tools": tool_specs(context.tools)} if self.card.takes_tools else {}
        try:
            return await self._ask(state, request, visit, context)
        finally:
            state.callbacks.forget(address)

    async def _ask(
        self,
        state: _LoopState,
        request: dict[str, Any],
        invocation: OpenInvocation | None,
        context: AgentContext,
    ) -> InvocationResult:
        body = msgspec.json.encode(request)
        headers = {**self._headers, "traceparent": agent_traceparent()}
        for attempt in range(1, TRIES + 1):
            final = attempt == TRIES
            try:
                async with state.session.post(
                    self._url,
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                ) as response:
                    answer = await response.content.read(BODY + 1)
                    while len(answer) <= BODY and not response.content.at_eof():
                        answer += await response.content.read(BODY + 1 - len(answer))
            except (aiohttp.ClientError, OSError) as lost:
                if final or (invocation and invocation.called):
                    raise ForeignFault(
                        self._message(f"could not be reached: {_short_error(lost)}"), recoverable=True
                    ) from None
                await asyncio.sleep(self._wait * 2 ** (attempt - 1))
                continue
            again = response.status in PASSING and not final and not (invocation and invocation.called)
            if not again:
                return self._read(response.status, answer, context)
            await asyncio.sleep(max(_retry_after(response.headers), self._wait * 2 ** (attempt - 1)))
        raise AssertionError("the last attempt returns or raises")

    def _read(self, status: int, answer: bytes, context: AgentContext) -> InvocationResult:
        if len(answer) > BODY:
            return InvocationResult(outcome="failed", error=f"it answered with more than {BODY} bytes")
        if status in ELSEWHERE or 300 <= status < 400:
            raise ForeignFault(self._message(f"answered {status}"), recoverable=status in PASSING)
        try:
            finish = read_end(self._redactor.out_of(read_json(answer)), context)
        except ValueError as wrong:  # a ProtocolError, or invalid usage
            why = (
                str(wrong)
                if isinstance(wrong, ProtocolError) and status < 400
                else self._redactor.out_of(answer[:READ].decode(errors="replace"))[:QUOTED]
            )
            return InvocationResult(outcome="failed", error=f"it answered {status}: {why}")
        if status >= 400 and finish.outcome == "completed":
            return InvocationResult(outcome="failed", error=f"it answered {status}")
        return finish

    def _message(self, text: str) -> str:
        return f"the agent at {redact_text(self._url.partition('?')[0])} {text}"


def _short_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:QUOTED] if str(error) else type(error).__name__


def _retry_after(headers: Mapping[str, str]) -> float:
    try:
        return min(LONGEST, max(0.0, float(headers.get("Retry-After", 0))))
    except ValueError:  # a date: use the default wait
        return 0.0
