"""An agent that is a Python function: `answer(task)` or `answer(task, ctx)`, async or not."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from assay.concurrency.foreign_code import exception_text, with_deadline
from assay.concurrency.threads import run_foreign
from assay.errors import ForeignFault, NotMeasured, TimeFault
from assay.errors.connection import is_connection_error
from assay.import_code import is_async, takes_context
from assay.ports.agents import AgentContext, AgentRefusal, ToolFailure
from assay.protocol.agents import AgentCard, InvocationResult, MemoryEntry, ToolSpec, Usage

T = TypeVar("T")


class CallableAgent:
    """
    Calls a Python function.

    Its return value is the result, or an InvocationResult; an exception is its failure, and AgentRefusal its refusal.
    NotMeasured, or a connection error of an HTTP client, means that it could not be measured. A synchronous function
    runs in a thread, and its context is synchronous too: `ctx.tool("shop:orders", id=17)` without `await`.
    """

    system_prompt: str | None = None

    def __init__(
        self, card: AgentCard, function: Callable[..., Any], *, seconds: float | None = None, path: str = ""
    ) -> None:
        self.card, self._function, self._seconds = card, function, seconds
        self._takes_context = takes_context(function, path or card.agent_id)

    async def invoke(self, task: Any, context: AgentContext) -> InvocationResult:
        return await with_deadline(context, self._seconds, self._invoke(task, context))

    async def close(self) -> None: ...

    async def _invoke(self, task: Any, context: AgentContext) -> InvocationResult:
        try:
            result = await self._call(task, context)
        except (ForeignFault, TimeFault):  # raised by the function: its own model was not reachable
            raise
        except AgentRefusal as refused:
            return InvocationResult(outcome="refused", error=str(refused))
        except asyncio.CancelledError:
            raise
        except BaseException as surprise:  # an agent is foreign code: SystemExit too
            if is_connection_error(surprise):
                raise NotMeasured(exception_text(surprise)) from surprise
            return InvocationResult(outcome="failed", error=exception_text(surprise))
        return (
            result
            if isinstance(result, InvocationResult)
            else InvocationResult(outcome="completed", result=result)
        )

    async def _call(self, task: Any, context: AgentContext) -> Any:
        if is_async(self._function):
            result = await self._function(task, *((context,) if self._takes_context else ()))
        else:
            sync = (SyncAgentContext(context, asyncio.get_running_loop()),) if self._takes_context else ()
            result = await run_foreign(lambda: self._function(task, *sync))
        while inspect.isawaitable(result):  # a wrapper returned a coroutine without awaiting it
            result = await result
        return result


class SyncAgentContext:
    """An AgentContext for a thread: the same, without `await`."""

    def __init__(self, context: AgentContext, loop: asyncio.AbstractEventLoop) -> None:
        self._context, self._loop = context, loop
        self._asking: set[asyncio.Future[None]] = set()
        self.memory = SyncMemory(context, self.wait)

    @property
    def invocation_id(self) -> str:
        return self._context.invocation_id

    @property
    def task_id(self) -> str:
        return self._context.task_id

    @property
    def trial(self) -> int:
        return self._context.trial

    @property
    def remaining_seconds(self) -> float:
        return self._context.remaining_seconds

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        return self._context.messages

    @property
    def state(self) -> dict[str, Any]:
        return self._context.state

    @property
    def tools(self) -> Sequence[ToolSpec]:
        return self._context.tools

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return self.wait(lambda: self._context.call(tool, arguments))

    def tool(self, tool: str, /, **arguments: Any) -> Any:
        return self.call(tool, arguments)

    def usage(self, **usage: Any) -> None:
        self.wait(lambda: _await_soon(lambda: self._context.usage(**usage)))

    def record_usage(self, usage: Usage) -> None:
        self.wait(lambda: _await_soon(lambda: self._context.record_usage(usage)))

    def reason(self, text: str, *, full: bool = False) -> None:
        self.wait(lambda: _await_soon(lambda: self._context.reason(text, full=full)))

    def wait(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine on the event loop. An abandoned thread may call this after the loop was closed."""
        ended: Future[T] = Future()

        async def answer() -> None:
            try:
                ended.set_result(await ask())
            except BaseException as failure:  # noqa: BLE001  # the thread gets every exception
                ended.set_exception(failure)

        def start() -> None:
            task = asyncio.ensure_future(answer())
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

        try:
            self._loop.call_soon_threadsafe(start)
        except RuntimeError:
            raise ToolFailure("over", "the invocation is over; nothing can be called any more") from None
        return ended.result()


class SyncMemory:
    def __init__(self, context: AgentContext, wait: Callable[[Callable[[], Awaitable[Any]]], Any]) -> None:
        self._memory, self._wait = context.memory, wait

    def list(self, *, tag: str | None = None, limit: int = 100) -> list[MemoryEntry]:
        return self._wait(lambda: self._memory.list(tag=tag, limit=limit))

    def get(self, id: str) -> MemoryEntry | None:
        return self._wait(lambda: self._memory.get(id))

    def write(self, content: str, *, tags: Sequence[str] = (), ttl: float | None = None) -> MemoryEntry:
        return self._wait(lambda: self._memory.write(content, tags=tags, ttl=ttl))


async def _await_soon(work: Callable[[], T]) -> T:
    """Run it on the event loop, so that steps are recorded in order."""
    return work()
