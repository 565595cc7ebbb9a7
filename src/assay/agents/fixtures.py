"""Fixtures of a task (contract §6.2): what its tools answer, and what its agent remembers, instead of the world."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from msgspec import UNSET

from assay.errors import InvalidRequest, Problem
from assay.ports import Clock, SystemClock
from assay.ports.agents import ToolFailure
from assay.protocol.agents import MemoryEntry, ToolSpec
from assay.protocol.json_types import is_list
from assay.protocol.redaction import redact_text
from assay.protocol.suite import ToolResponse


class FixtureTools:
    """
    A ToolBox that asks nobody: the answers to each tool in their order, of which the last repeats. Make one for each invocation.

        FixtureTools(task.fixtures.tool_responses)
    """

    def __init__(
        self, responses: Iterable[ToolResponse] = (), specs: Mapping[str, ToolSpec] | None = None
    ) -> None:
        self._answers: dict[str, list[Any]] = {}
        for one in responses:
            self._answers.setdefault(one.tool, []).append(one.response)
        self._asked: dict[str, int] = {}
        self._specs = specs or {}

    def static_specs(self, tools: Sequence[str]) -> list[ToolSpec]:
        """A tool that nobody described is still one that may be called."""
        return [self._specs.get(tool) or ToolSpec(id=tool) for tool in tools]

    async def specs(self, tools: Sequence[str]) -> list[ToolSpec]:
        return self.static_specs(tools)

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        if (answers := self._answers.get(tool)) is None:
            there = ", ".join(sorted(self._answers)) or "none"
            raise ToolFailure("fixture_missing", f"no fixture answers {tool}; there are fixtures for {there}")
        at = self._asked.get(tool, 0)
        self._asked[tool] = at + 1
        return deepcopy(
            answers[min(at, len(answers) - 1)]
        )  # one agent's changes are not the next one's answer

    @property
    def tools(self) -> tuple[str, ...]:
        """Those that have an answer."""
        return tuple(self._answers)

    async def close(self) -> None: ...


class SeededMemory:
    """
    What an agent remembers of its seeds, as long as this object lives. What it writes it does not read back: its view is
    that of when it began; `written` has it for whoever comes later.
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


def read_seeds(seeds: Sequence[Mapping[str, Any]], place: str = "memorySeed") -> tuple[MemoryEntry, ...]:
    """
    Seeds as memory entries, redacted as any write; all that is wrong with them at once.

    The schema asks only for objects: an `id` that is missing is given, so is `createdAt`; a `content` must be said.
    """
    problems: list[Problem] = []
    entries = [_seed(at, seed, f"{place}[{at}]", problems) for at, seed in enumerate(seeds)]
    seen: set[str] = set()
    for at, entry in enumerate(entries):
        if entry.id in seen:
            problems.append(Problem(f"{place}[{at}].id", f"{entry.id!r} is the id of an earlier seed"))
        seen.add(entry.id)
    if problems:
        raise InvalidRequest(problems)
    return tuple(entries)


def _seed(at: int, seed: Mapping[str, Any], place: str, problems: list[Problem]) -> MemoryEntry:
    def text(name: str, usual: str | None, wanted: str = "a text") -> str:
        said = seed.get(name, usual)
        if isinstance(said, str) and said:
            return said
        problems.append(Problem(f"{place}.{name}", f"expected {wanted}"))
        return usual or "-"

    def moment(name: str, usual: str) -> str:
        said = text(name, usual, MOMENT)
        if _moment(said) is None:
            problems.append(Problem(f"{place}.{name}", f"expected {MOMENT}"))
            return usual
        return said

    tags: Any = seed.get("tags", [])
    if not is_list(tags) or not all(isinstance(tag, str) for tag in tags):
        problems.append(Problem(f"{place}.tags", "expected a list of texts"))
        tags = []
    return MemoryEntry(
        id=text("id", f"seed-{at + 1}"),
        content=redact_text(text("content", None)),
        tags=tuple(redact_text(tag) for tag in tags),
        createdAt=moment("createdAt", EPOCH),
        expiresAt=moment("expiresAt", EPOCH) if "expiresAt" in seed else UNSET,
    )


EPOCH = "1970-01-01T00:00:00Z"
MOMENT = "a moment, as in 2026-06-01T00:00:00Z"


def _moment(text: str) -> datetime | None:
    try:
        said = datetime.fromisoformat(text)
    except ValueError:
        return None
    return said if said.tzinfo else None


def _expired(entry: MemoryEntry, now: datetime) -> bool:
    end = _moment(entry.expiresAt) if isinstance(entry.expiresAt, str) else None
    return end is not None and end <= now


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
