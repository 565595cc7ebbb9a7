"""Fixtures of a task (openwop-contract §6.2): answers of tools and seeds of memory, instead of live ones."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import UNSET

from assay.checks.async_tasks import run_tasks_async
from assay.checks.trajectory.match_calls import CallMatcher, matcher_of
from assay.checks.trajectory.read_calls import Call
from assay.checks.worker_tasks import WorkerTask
from assay.errors import InvalidRequest, Problem
from assay.ports import Clock, Services, SystemClock
from assay.ports.agents import ToolFailure
from assay.protocol.agent_evals import ToolResponse
from assay.protocol.agents import MemoryEntry, ToolSpec
from assay.protocol.json_types import is_list
from assay.protocol.redaction import redact, redact_text
from assay.protocol.suite_extension import FixtureRule

REDACTED = b"[REDACTED:"
SERVICES = Services()  # of checks of patterns, which ask no model


class FixtureTools:
    """
    A ToolBox with fixed answers. Create one per invocation.

    The first of the `rules` that fits a call answers it. Without one, each tool gives its `responses` in order, then
    repeats the last; without any, the call fails.

        FixtureTools(task.fixtures.tool_responses)
    """

    def __init__(
        self,
        responses: Iterable[ToolResponse] = (),
        specs: Mapping[str, ToolSpec] | None = None,
        rules: Iterable[FixtureRule] = (),
    ) -> None:
        self._answers: dict[str, list[Any]] = {}
        for one in responses:
            self._answers.setdefault(one.tool, []).append(one.response)
        self._rules: dict[str, list[_Rule]] = {}
        for at, rule in enumerate(rules):
            made = _Rule(rule, matcher_of(rule.pattern, f"fixtures[{at}]"))
            self._rules.setdefault(rule.tool, []).append(made)
        self._calls: dict[str, int] = {}
        self._specs = specs or {}
        self._turn = asyncio.Lock()  # calls are counted in their order, also if a check takes long

    def static_specs(self, tools: Sequence[str]) -> list[ToolSpec]:
        """A tool without a spec can be called too."""
        return [self._specs.get(tool) or ToolSpec(id=tool) for tool in tools]

    async def specs(self, tools: Sequence[str]) -> list[ToolSpec]:
        return self.static_specs(tools)

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        rules = self._rules.get(tool, ())
        if rules:
            async with self._turn:
                found = await _first(rules, Call(tool, arguments))
            if found is not None:
                return found.answer()
        if (answers := self._answers.get(tool)) is None:
            raise ToolFailure("fixture_missing", self._missing(tool, len(rules)))
        at = self._calls.get(tool, 0)
        self._calls[tool] = at + 1
        # an agent that changes its answer must not change the next one
        return deepcopy(answers[min(at, len(answers) - 1)])

    def _missing(self, tool: str, rules: int) -> str:
        if rules:
            none = (
                f"the fixture of {tool} does not fit"
                if rules == 1
                else f"none of the {rules} fixtures of {tool} fits"
            )
            return f"{none} this call, and there is none for every call"
        return f"no fixture answers {tool}; there are fixtures for {', '.join(sorted(self.tools)) or 'none'}"

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that have an answer."""
        return tuple(dict.fromkeys((*self._answers, *self._rules)))

    async def close(self) -> None: ...


class _Rule:
    """A rule of one invocation, with the calls that it fitted so far."""

    def __init__(self, rule: FixtureRule, matcher: CallMatcher) -> None:
        self._rule, self._matcher, self._fitted = rule, matcher, 0
        # a recorded call has its secrets replaced, and is compared with calls whose secrets are replaced too
        self._redacted = rule.match is not UNSET and REDACTED in msgspec.json.encode(rule.match)

    @property
    def counts(self) -> bool:
        return self._rule.call is not UNSET

    async def answers(self, call: Call) -> bool:
        """Whether this is a call that it answers. A rule that counts must see every call."""
        if self._redacted:
            call = call._replace(arguments=redact(call.arguments))
        if not await self._matcher.fits_soon(call, SERVICES, _run_task):
            return False
        self._fitted += 1
        return self._rule.call in (UNSET, self._fitted)

    def answer(self) -> Any:
        error = self._rule.error
        if error is not UNSET:
            raise ToolFailure(error.code, error.message or f"{self._rule.tool} failed")
        return None if self._rule.response is UNSET else deepcopy(self._rule.response)


async def _first(rules: Iterable[_Rule], call: Call) -> _Rule | None:
    found: _Rule | None = None
    for rule in rules:
        if (found is None or rule.counts) and await rule.answers(call):
            found = found or rule
    return found


async def _run_task(task: WorkerTask) -> Any:
    (answer,) = await run_tasks_async([task])
    return answer


class SeededMemory:
    """
    A Memory that holds the seeds, as long as this object lives.

    Reads are as of its start: the agent does not read its own writes. They are in `written`.
    """

    def __init__(self, seeds: Iterable[MemoryEntry] = (), clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        began = self._clock.now()
        self.entries = tuple(entry for entry in seeds if not _expired(entry, began))
        self.written: list[MemoryEntry] = []

    async def list(self, *, tag: str | None = None, limit: int = 100) -> list[MemoryEntry]:
        return [entry for entry in self.entries if tag is None or tag in entry.tags][: max(0, limit)]

    async def get(self, id: str) -> MemoryEntry | None:
        return next((entry for entry in self.entries if entry.id == id), None)

    async def write(self, content: str, *, tags: Sequence[str] = (), ttl: float | None = None) -> MemoryEntry:
        now = self._clock.now()
        entry = MemoryEntry(
            id=f"mem-{uuid4().hex}",
            content=redact_text(content),
            tags=tuple(redact_text(tag) for tag in tags if tag),
            createdAt=_stamp(now),
            expiresAt=UNSET if ttl is None else _stamp(now + timedelta(seconds=ttl)),
        )
        self.written.append(entry)
        return entry


def read_seeds(seeds: Sequence[Mapping[str, Any]], path: str = "memorySeed") -> tuple[MemoryEntry, ...]:
    """
    Parse seeds as memory entries, without secrets. An InvalidRequest lists every problem.

    `content` is required. A missing `id` or `createdAt` is filled in.
    """
    problems: list[Problem] = []
    entries = [_seed(at, seed, f"{path}[{at}]", problems) for at, seed in enumerate(seeds)]
    seen: set[str] = set()
    for at, entry in enumerate(entries):
        if entry.id in seen:
            problems.append(
                Problem(
                    f"{path}[{at}].id",
                    f"expected an id of its own, got {entry.id!r}, which an earlier seed has",
                )
            )
        seen.add(entry.id)
    if problems:
        raise InvalidRequest(problems)
    return tuple(entries)


def _seed(index: int, seed: Mapping[str, Any], path: str, problems: list[Problem]) -> MemoryEntry:
    def text(name: str, default: str | None, expected: str = "a text") -> str:
        value = seed.get(name, default)
        if isinstance(value, str) and value:
            return value
        problems.append(Problem(f"{path}.{name}", f"expected {expected}"))
        return default or "-"

    def moment(name: str, default: str) -> str:
        value = text(name, default, MOMENT)
        if _moment(value) is None:
            problems.append(Problem(f"{path}.{name}", f"expected {MOMENT}"))
            return default
        return value

    tags: Any = seed.get("tags", [])
    if not is_list(tags) or not all(isinstance(tag, str) for tag in tags):
        problems.append(Problem(f"{path}.tags", "expected a list of texts"))
        tags = []
    return MemoryEntry(
        id=text("id", f"seed-{index + 1}"),
        content=redact_text(text("content", None)),
        tags=tuple(redact_text(tag) for tag in tags),
        createdAt=moment("createdAt", EPOCH),
        expiresAt=moment("expiresAt", EPOCH) if "expiresAt" in seed else UNSET,
    )


EPOCH = "1970-01-01T00:00:00Z"
MOMENT = "a time with a zone, such as 2026-06-01T00:00:00Z"


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _expired(entry: MemoryEntry, now: datetime) -> bool:
    end = _moment(entry.expiresAt) if isinstance(entry.expiresAt, str) else None
    return end is not None and end <= now


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
