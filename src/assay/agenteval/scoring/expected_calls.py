"""The expectations on the tool calls of a task, as a check of its trial (ADR-0156)."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from assay.checks.checker import Answer, Checker
from assay.checks.standard.has_items import item_key
from assay.ports import Services
from assay.protocol.agents import Step, ToolAttempt, ToolCalled, ToolReturned
from assay.protocol.evaluation import Check
from assay.protocol.json_types import JSON, is_object
from assay.protocol.suite_extension import CallPattern, TaskExtension
from assay.results.reasons import short

MEMBER = "tool_calls"  # of `output.metadata` of a trial whose task has expectations
CALLED = 20  # calls that a reason names


class ExpectedToolCalls(Checker):
    """Passes if each of `must_call` was called, and none of `must_not_call` was."""

    type = "expected_tool_calls"
    waits = False
    results_schema = {  # noqa: RUF012  # declared a ClassVar in Checker
        "type": "object",
        "required": ["passed", "reason"],
        "properties": {
            "passed": {"type": "boolean"},
            "reason": {"type": "string"},
            "missing": {"type": "array", "description": "calls of must_call that were not made"},
            "forbidden": {"type": "array", "description": "calls of must_not_call that were made"},
        },
        "additionalProperties": False,
    }

    calls: list[dict[str, Any]]
    must_call: list[dict[str, Any]] = msgspec.field(default_factory=list[dict[str, Any]])
    must_not_call: list[dict[str, Any]] = msgspec.field(default_factory=list[dict[str, Any]])

    def run(self, services: Services) -> Answer:
        made = [one for one in self.calls if not one.get("refused")]
        missing = [one for one in self.must_call if not _is_among(one, made)]
        forbidden = [one for one in self.must_not_call if _is_among(one, self.calls)]
        answer: JSON = {"passed": not missing and not forbidden}
        answer["reason"] = _reason(missing, forbidden, self.calls)
        answer |= {"missing": missing} if missing else {}
        return answer | ({"forbidden": forbidden} if forbidden else {})


def calls_check(expected: TaskExtension) -> Check:
    """The check of a task with these expectations."""
    lists = {
        name: [{"tool": one.tool, "arguments": one.arguments} for one in patterns]
        for name, patterns in (("must_call", expected.must_call), ("must_not_call", expected.must_not_call))
    }
    return Check(type=ExpectedToolCalls.type, arguments={"calls": f"$.output.metadata.{MEMBER}", **lists})


def calls_of(attempts: Sequence[ToolAttempt], steps: Sequence[Step], *, cut: bool) -> list[JSON]:
    """
    The calls of a trial: those that were answered or refused, and those that the end of the trial cut off.

    `cut`: there are more attempts than were kept, so the steps, which have all calls without secrets, count too.
    """
    calls: list[JSON] = [
        {"tool": one.tool, "arguments": one.arguments}
        | ({"refused": True} if one.outcome == "refused" else {})
        for one in attempts
    ]
    returned = frozenset[str]() if cut else {one.call_id for one in steps if isinstance(one, ToolReturned)}
    return calls + [
        {"tool": one.tool, "arguments": one.inputs}
        for one in steps
        if isinstance(one, ToolCalled) and one.call_id not in returned
    ]


def _is_among(pattern: JSON, calls: Iterable[JSON]) -> bool:
    """Whether a call of the tool has all members of the pattern, each equal as JSON."""
    wanted = {name: item_key(value) for name, value in pattern["arguments"].items()}
    return any(
        call["tool"] == pattern["tool"] and (not wanted or _has(call["arguments"], wanted)) for call in calls
    )


def _has(arguments: Any, wanted: dict[str, str]) -> bool:
    return is_object(arguments) and all(
        name in arguments and item_key(arguments[name]) == key for name, key in wanted.items()
    )


def _reason(missing: list[JSON], forbidden: list[JSON], called: Sequence[JSON]) -> str:
    if not missing and not forbidden:
        return "made every expected call and no forbidden one"
    parts = [f"expected {_listed(missing)}"] if missing else []
    parts += [f"must not make {_listed(forbidden)}"] if forbidden else []
    more = f" and {len(called) - CALLED:,} more" if len(called) > CALLED else ""
    by_arguments = {one["tool"] for one in (*missing, *forbidden) if one["arguments"]}
    shown = [one if one["tool"] in by_arguments else {"tool": one["tool"]} for one in called[:CALLED]]
    names = ", ".join(pattern_text(one)[:300] for one in shown) + more
    return f"{'; '.join(parts)}; it called {names or 'no tool'}"


def _listed(patterns: list[JSON]) -> str:
    return f"a call of {' and of '.join(map(pattern_text, patterns))}"


def pattern_text(pattern: JSON | CallPattern) -> str:
    """`orders with {"id":17}`."""
    one: JSON = msgspec.to_builtins(pattern)
    arguments = one.get("arguments")
    return f"{one['tool']} with {short(arguments)}" if arguments else str(one["tool"])
