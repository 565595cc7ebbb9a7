"""An agent that is an object: of a framework, made by a factory, or any object that can be called or run."""

import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

from msgspec.structs import replace

from assay.backends.agents.callable import CallableAgent
from assay.backends.agents.frameworks.adapter import Adapter, Session, connection_error, is_of_closed_loop
from assay.backends.agents.frameworks.recognise import adapter_of
from assay.concurrency.foreign_code import exception_text
from assay.concurrency.threads import run_foreign
from assay.errors import NotMeasured, Problem, UsageError
from assay.extras import missing_packages
from assay.import_code import local_id, takes_context
from assay.ports.agents import AgentContext, RunNeeds
from assay.protocol.agents import AgentCard

STALE = 32  # connections of earlier event loops that the client of a model may have kept
KEPT = (
    "assay.framework"  # of the state of a trial: its agent, and what the framework keeps of the conversation
)
GENERATORS = inspect.isgeneratorfunction, inspect.isasyncgenfunction
METHODS = ("arun", "run", "ainvoke", "invoke")  # of an object that cannot be called, in this order
EXPECTED = (
    "expected a function of the task, an agent of a framework that assay knows (docs/frameworks.md), a function without"
    f" parameters that makes one, or an object that can be called or has a method {', '.join(METHODS)}"
)

EXPECTED_OF_FACTORY = (
    "expected a function of the task, or one without parameters that makes an agent of a framework that assay knows"
    " (docs/frameworks.md); give any other object itself"
)


class NotAnAgent(UsageError):
    """A value is of no kind that assay can call."""


class FrameworkAgent(CallableAgent):
    """An agent of a framework. A factory makes a new one for each invocation."""

    def __init__(
        self,
        card: AgentCard,
        subject: "Subject",
        *,
        factory: Callable[[], Any] | None = None,
        seconds: float | None = None,
    ) -> None:
        super().__init__(card, self._ask, seconds=seconds)
        self._subject, self._factory = subject, factory
        self.system_prompt = subject.adapter.instructions(subject.agent)
        self._tools = subject.adapter.tools(subject.agent)
        self.own_tools = self._tools.names

    async def _ask(self, task: Any, ctx: AgentContext) -> Any:
        subject, history = ctx.state.get(KEPT) or (await self._new_subject(), None)
        for left in reversed(range(STALE)):
            session = Session(ctx, subject.options, history)
            try:
                answer = await session.until_failed(subject.adapter.run(subject.agent, task, session))
                ctx.state[KEPT] = subject, session.history
                return answer
            except Exception as surprise:
                cause = connection_error(surprise)
                if cause is None:
                    raise
                if left and history is None and is_of_closed_loop(cause) and not session.reported:
                    continue  # the client has dropped that connection
                raise NotMeasured(exception_text(cause)) from surprise
        raise AssertionError

    async def _new_subject(self) -> "Subject":
        """The agent of a new conversation."""
        if self._factory is None:
            return self._subject
        made = await run_foreign(self._factory)
        found = subject_of(made)
        if found is None or found.adapter is not self._subject.adapter:
            raise TypeError(f"the factory made {_kind(made)}, and before an agent of {self.card.kind}")
        return found

    def unmet(self, needs: RunNeeds) -> list[Problem]:
        return [
            *self._cannot_run(),
            *self._fixtures(needs),
            *self._conversations(needs),
            *self._turns(needs),
            *self._cost(needs),
        ]

    def _cannot_run(self) -> Iterator[Problem]:
        adapter, agent, options = self._subject
        if why := adapter.problem(agent, options):
            yield Problem("agent", f"expected an agent of {adapter.framework} that runs as it is: {why}")

    def _fixtures(self, needs: RunNeeds) -> Iterator[Problem]:
        names, complete, others = self._tools
        missing = [tool for tool in sorted(needs.fixtures) if not {tool, tool.partition(":")[2]} & names]
        if missing and complete:
            there, name = ", ".join(sorted(names)) or "it has none", self._subject.adapter.framework
            yield Problem(
                "fixtures",
                f"expected fixtures for tools that {name} calls for this agent ({there}), got fixtures for"
                f" {', '.join(missing)}" + (f" ({others})" if others else ""),
            )

    def _conversations(self, needs: RunNeeds) -> Iterator[Problem]:
        why = self._subject.adapter.conversation(self._subject.agent, self._subject.options)
        if why and self._factory is None and needs.conversations != 1:
            count = "several" if needs.conversations is None else f"{needs.conversations:,}"
            yield Problem(
                "agent",
                f"a run of {count} conversations needs a new agent for each, and this agent has one: {why}. Give a"
                " function without parameters that makes the agent",
            )

    def _turns(self, needs: RunNeeds) -> Iterator[Problem]:
        adapter, agent, options = self._subject
        if needs.turns and (why := adapter.single_turn(agent, options)):
            yield Problem("agent", f"tasks with turns need an agent that continues a conversation: {why}")

    def _cost(self, needs: RunNeeds) -> Iterator[Problem]:
        if needs.max_cost is None or self.card.free:
            return
        if not self._subject.adapter.capabilities.usage:
            name = self._subject.adapter.framework
            yield Problem("max_cost", f"a cost limit needs the usage of models, and {name} reports none")
        elif "genai-prices" in missing_packages("judges"):
            yield Problem("max_cost", "a cost limit needs prices: pip install 'openassay[judges]'")


class ObjectAgent(CallableAgent):
    """Any object with one of the METHODS."""

    own_tools: frozenset[str] = frozenset()

    def unmet(self, needs: RunNeeds) -> list[Problem]:
        if needs.max_cost is None or self.card.free or self.card.takes_tools:
            return []
        message = (
            "a cost limit needs the usage of models: give a function of the task and `ctx` that reports it"
        )
        return [Problem("max_cost", message)]


class Subject(typing.NamedTuple):
    """An agent of a framework, its adapter, and the options of its runs."""

    adapter: Adapter
    agent: Any
    options: Mapping[str, Any] = {}


def subject_of(value: Any) -> Subject | None:
    """
    The agent of a framework that a value is; None: it is none.

        subject_of(agent)
        subject_of(agent.run)
        subject_of(functools.partial(agent.run, deps=deps))     # with the options of its runs
        subject_of(functools.partial(Runner.run, agent, max_turns=5))

    A function of the user that gets an agent is a function: only the framework's own run it.
    """
    if (adapter := adapter_of(value.__class__)) is not None:
        return Subject(adapter, value)
    function, values, options = value, (), dict[str, Any]()
    if _is_partial(value):
        function, values, options = value.func, value.args, dict(value.keywords)
    elif not inspect.ismethod(value):
        return None
    for one in (getattr(function, "__self__", None), *values, *options.values()):
        if (adapter := adapter_of(one.__class__)) is not None and _is_of(adapter, function, one):
            return Subject(
                adapter, one, {name: option for name, option in options.items() if option is not one}
            )
    return None


def _is_of(adapter: Adapter, function: Any, agent: Any) -> bool:
    """Whether a function is the framework's own, or one that replaces it in a subclass."""
    packages = {name.partition(".")[0] for name in adapter.classes}
    if getattr(function, "__self__", None) is not agent:
        return str(getattr(function, "__module__", "")).partition(".")[0] in packages
    name = getattr(function, "__name__", "")
    return any(
        name in vars(one) for one in type(agent).__mro__ if one.__module__.partition(".")[0] in packages
    )


def agent_from_object(value: Any, path: str, *, free: bool = False) -> CallableAgent:
    """The agent that a value is. Its id is made of the module and the name."""
    subject = subject_of(value)
    if subject is not None:
        name = getattr(subject.agent, "name", None)
        words = subject.adapter.framework, name if isinstance(name, str) and name else "agent"
    elif hasattr(value, "__qualname__"):
        words = getattr(value, "__module__", None) or "python", value.__qualname__
    else:
        words = type(value).__module__, type(value).__qualname__
    return agent_of(AgentCard(agent_id=local_id(*words), free=free), value, path)


def agent_of(card: AgentCard, value: Any, path: str, *, seconds: float | None = None) -> CallableAgent:
    """The agent that a value is. A UsageError names `path` and says what is possible."""
    factory: Callable[[], Any] | None = None
    subject = subject_of(value)
    if subject is None and _makes_agents(value):
        factory = value
        made = _make(value, path)
        subject = subject_of(made)
        if subject is None:
            raise UsageError(f"{path} takes no task and made {_kind(made)}: {EXPECTED_OF_FACTORY}")
    if subject is None:
        if isinstance(value, type) and (adapter := adapter_of(value)) is not None:
            raise UsageError(
                f"{path}: expected an agent of {adapter.framework}, got the class {value.__qualname__}: make an"
                " object of it, or give a function without parameters that makes one"
            )
        return _plain_agent(card, value, path, seconds)
    can = subject.adapter.capabilities
    card = replace(
        card,
        kind=subject.adapter.framework,
        takes_tools=can.tool_calls,
        takes_memory=False,
        takes_turns=can.multi_turn,
    )
    return FrameworkAgent(card, subject, factory=factory, seconds=seconds)


def _plain_agent(card: AgentCard, value: Any, path: str, seconds: float | None) -> CallableAgent:
    """A function or another object that can be called, else an object with one of the METHODS."""
    agent = CallableAgent
    if isinstance(value, type) and any(
        name in vars(base) for base in value.__mro__ for name in ("__call__", *METHODS)
    ):
        raise UsageError(
            f"{path}: expected a function or an object, got the class {value.__qualname__}: make an object of it"
        )
    if not callable(value):
        method = next((found for name in METHODS if callable(found := _member(value, name, path))), None)
        if method is None:
            raise NotAnAgent(f"{path} is {_kind(value)}: {EXPECTED}")
        value, agent = method, ObjectAgent
        card = replace(card, kind="object")
    if any(test(one) for test in GENERATORS for one in (value, getattr(value, "__call__", None))):  # noqa: B004
        raise UsageError(
            f"{path}: expected a function that returns its answer, got one that yields: collect what it yields, and"
            " return that"
        )
    takes = takes_context(value, path)
    return agent(
        replace(card, takes_tools=takes, takes_memory=takes, takes_turns=takes),
        value,
        seconds=seconds,
        path=path,
    )


def _member(value: Any, name: str, path: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception as surprise:  # a property is foreign code
        raise UsageError(f"{path}: expected a method {name}, got {exception_text(surprise)}") from surprise


def _makes_agents(value: Any) -> bool:
    """Whether it is a function without parameters, or one that needs none and is annotated to return an agent."""
    if not inspect.isfunction(value) and not _is_partial(value):
        return False
    try:
        parameters = inspect.signature(value).parameters.values()
        hint: Any = typing.get_type_hints(value).get("return") if inspect.isfunction(value) else None
    except Exception:  # noqa: BLE001  # annotations of others may name anything
        return False
    kind = typing.get_origin(hint) or hint
    needs = [one for one in parameters if one.default is one.empty]
    return not parameters or (not needs and isinstance(kind, type) and adapter_of(kind) is not None)


def _make(factory: Callable[[], Any], path: str) -> Any:
    if inspect.iscoroutinefunction(factory):
        raise UsageError(f"{path}: expected a function without `async` that makes an agent")
    try:
        return factory()
    except (Exception, SystemExit) as surprise:  # a factory is foreign code
        raise UsageError(
            f"{path}: expected it to make an agent, got {exception_text(surprise)}"
        ) from surprise


def _is_partial(value: Any) -> TypeGuard[functools.partial[Any]]:
    return isinstance(value, functools.partial)


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
