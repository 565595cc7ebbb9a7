"""What an adapter of a framework has: what it can do, how it runs an agent, and the session that records it."""

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec import Struct

from assay.backends.agents.callable import SyncAgentContext
from assay.backends.models.prices import published_cost
from assay.concurrency.threads import run_foreign
from assay.errors.connection import is_connection_error
from assay.lazy_pattern import lazy_pattern
from assay.ports.agents import AgentContext, ToolFailure
from assay.protocol.agents import InvocationResult, Usage

FATAL = frozenset({"fixture_missing", "not_allowed", "over"})  # codes that end the run of an agent at once
_NOT_OF_IDS = lazy_pattern(r"[^\w.:@/-]+")
CAUSES = 10  # exceptions behind an exception that are looked at
MOMENT = 0.5  # seconds that a run has to end after such a code


class Capabilities(Struct, frozen=True, kw_only=True):
    """What an adapter can do. docs/frameworks.md has the table of all adapters."""

    run: bool = True  # runs the agent with a task, in a conversation of its own
    steps: bool = False  # records each step when it happens
    tool_calls: bool = False  # records tool calls with arguments and results
    usage: bool = False  # records the tokens of each model call
    cost: bool = False  # knows the cost of a model call, if its price is published
    cancel: bool = False  # a run that is cancelled, or that is late, ends at its next step
    fixtures: bool = False  # fixtures can answer the tools of the agent
    multi_turn: bool = False  # a conversation goes on after an answer, as the framework keeps it


class OwnTools(NamedTuple):
    """The tools of an agent that fixtures can answer. `others`: what else it may have, and cannot be reached."""

    names: frozenset[str] = frozenset()
    complete: bool = True  # False: there may be more that fixtures answer; they are known when the agent runs
    others: str = ""


class ModelName(NamedTuple):
    """A model as its provider calls it. The address of the provider decides its price, if it is known."""

    provider: str
    name: str
    url: str = ""


class Session:
    """
    One run of an agent: a framework reports here what the agent does.

    An adapter with multi-turn continues from `history`, and leaves there what the next turn needs.

    A tool that no fixture answers ends the run: what a model would say to such an error was not asked for.
    """

    def __init__(
        self, context: AgentContext, options: Mapping[str, Any] | None = None, history: Any = None
    ) -> None:
        self.context, self.options = context, dict(options or {})
        self.history = history  # what the last turn of this conversation left here; None: this is the first
        self.loop = asyncio.get_running_loop()
        self._failed: asyncio.Future[ToolFailure] = self.loop.create_future()
        self._watching: set[asyncio.Future[Any]] = set()
        self.reported = False  # the agent has done something

    async def tool(self, name: str, arguments: Any, run: Callable[[], Awaitable[Any]]) -> Any:
        """The answer of a tool: that of a fixture, or with live tools that of `run`."""
        self.reported = True
        try:
            return await self.context.call_own(name, arguments_of(arguments), run)
        except ToolFailure as failure:
            if failure.code in FATAL:
                self._fail(failure)
            raise

    def tool_in_thread(self, name: str, arguments: Any, run: Callable[[], Any]) -> Any:
        """The same for a thread of the framework, which waits."""
        waiting = SyncAgentContext(self.context, self.loop)
        return waiting.wait(lambda: self.tool(name, arguments, lambda: run_foreign(run)))

    def usage(self, model: ModelName, sent: int | None, received: int | None, cached: int = 0) -> None:
        """
        A call of a model and its tokens, from any thread. Its cost is that of the published price, if there is one.
        """
        self.reported, cost = True, None
        if sent is not None and received is not None:
            cost = published_cost(model.provider, model.name, sent, received, cached, url=model.url)
        usage = Usage(
            provider=model.provider or "unknown",
            model=model.name or "unknown",
            input_tokens=max(0, sent or 0),
            output_tokens=max(0, received or 0),
            cost_usd=cost,
        )
        self._on_loop(lambda: self.context.record_usage(usage))

    def hand_off(self, agent: str) -> None:
        """The framework passed the task to another of its agents."""
        with suppress(ValueError):  # a name that is not fit for an event
            self.context.hand_off(_NOT_OF_IDS.sub("-", agent))

    def observe(self, name: str, arguments: Any) -> "asyncio.Future[Any]":
        """
        A tool begins that only reports what it does; `end` says its answer, or its exception. From any thread.

        Where fixtures answer tools, this raises: the tool must not run.
        """
        answer: asyncio.Future[Any] = self.loop.create_future()
        if not self.context.runs_own:
            failure = ToolFailure(
                "fixture_missing", f"no fixture can answer {name}, which a node calls itself"
            )
            self._on_loop(lambda: self._fail(failure))
            raise failure

        async def watch() -> None:
            with suppress(Exception):  # the framework has it
                await self.tool(name, arguments, lambda: answer)

        def start() -> None:
            task = asyncio.ensure_future(watch())
            self._watching.add(task)
            task.add_done_callback(self._watching.discard)

        self._on_loop(start)
        return answer

    def end(self, running: "asyncio.Future[Any]", answer: Any) -> None:
        self._on_loop(lambda: _settle(running, answer))

    def _on_loop(self, work: Callable[[], Any]) -> None:
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self.loop:
            work()
        else:
            with suppress(RuntimeError):  # an abandoned thread goes on after the loop was closed
                self.loop.call_soon_threadsafe(work)

    def _fail(self, failure: ToolFailure) -> None:
        if not self._failed.done():
            self._failed.set_result(failure)

    def check_running(self) -> None:
        """Raise what has ended the run. A thread of a framework goes on until it sees it, and must ask no model."""
        if self._failed.done():
            raise self._failed.result()

    async def until_failed(self, work: Awaitable[Any]) -> Any:
        """Await the run of the framework. A tool that no fixture answers ends it."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait((task, self._failed), return_when=asyncio.FIRST_COMPLETED)
            self.check_running()
            if self._watching:
                await asyncio.wait(self._watching, timeout=MOMENT)
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=MOMENT)
            if task.done() and not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not log it


class Adapter(ABC):
    """
    Runs the agents of one framework.

    A package of your own adds one: an entry point of the group `assay.agents`, whose name is the module of the
    framework, such as `my_framework`, and whose value is a subclass of this class.
    """

    framework: ClassVar[str]
    classes: ClassVar[tuple[str, ...]]  # of its agents, such as `my_framework.agents.Agent`
    capabilities: ClassVar[Capabilities]

    def accepts(self, kind: type) -> bool:
        """Whether it is a class of agents. A framework that is not imported has none."""
        for name in self.classes:
            module, _, member = name.rpartition(".")
            base = getattr(sys.modules.get(module), member, None)
            if isinstance(base, type) and issubclass(kind, base):
                return True
        return False

    def tools(self, agent: Any) -> OwnTools:
        """The tools that fixtures can answer."""
        return OwnTools()

    def problem(self, agent: Any, options: Mapping[str, Any]) -> str:
        """Why this agent cannot run at all, and what is possible; or ""."""
        return ""

    def conversation(self, agent: Any, options: Mapping[str, Any]) -> str:
        """Why the agent has one conversation for all tasks; "": each run has its own, and runs may overlap."""
        return ""

    def single_turn(self, agent: Any, options: Mapping[str, Any]) -> str:
        """Why this agent answers one message only, although the adapter has multi-turn; or ""."""
        return ""

    def instructions(self, agent: Any) -> str | None:
        """The system prompt, which detectors look for in what the agent writes; None: not known."""
        return None

    @abstractmethod
    async def run(self, agent: Any, task: Any, session: Session) -> Any:
        """Run the agent, in a new conversation unless there is a `session.history`, and return its output."""


def _settle(running: "asyncio.Future[Any]", answer: Any) -> None:
    if running.done():
        return
    if isinstance(answer, BaseException):
        running.set_exception(answer)
    else:
        running.set_result(answer)


def waiting_for(calls: Iterable[Any]) -> InvocationResult:
    """How a run ended that waits for the answer of a person, such as an approval of these calls."""
    names = ", ".join(str(one) for one in calls if one)
    return InvocationResult(
        outcome="escalated", error=f"the run waits for a person{f': {names}' if names else ''}"
    )


def text_of(task: Any) -> str:
    """A task as a message: a text as it is, anything else as JSON."""
    return task if isinstance(task, str) else msgspec.json.encode(task).decode()


def connection_error(error: BaseException, *, handled: bool = False) -> BaseException | None:
    """
    The connection error behind the exception of a framework.

    `handled`: also one that was caught where a client of models raised an exception of its own.
    """
    cause: BaseException | None = error
    for _ in range(CAUSES):
        if cause is None or is_connection_error(cause) or is_of_closed_loop(cause):
            return cause
        cause = cause.__cause__ or (cause.__context__ if handled else None)
    return None


def is_of_closed_loop(error: BaseException) -> bool:
    """A client of models kept a connection of an earlier event loop, such as that of another test. It sent nothing."""
    return isinstance(error, RuntimeError) and str(error) == "Event loop is closed"


def arguments_of(arguments: Any) -> dict[str, Any]:
    """The arguments of a call: an object, or its JSON text."""
    if isinstance(arguments, str | bytes):
        arguments = msgspec.json.decode(arguments) if arguments else {}
    return dict(arguments or {})
