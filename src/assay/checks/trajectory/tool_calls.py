"""
tool_calls (an extension to FEP): an agent called the expected tools: in this order, in any order, at least these, or
none but these.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from assay.checks.checker import Answer, Checker, closed_object
from assay.checks.trajectory.match_calls import CallMatcher, is_long_work, matchers_of, pairs
from assay.checks.trajectory.read_calls import DEFAULT_PATH, Call, read_trajectory
from assay.checks.trajectory.wording import call_text, calls_text, pattern_document
from assay.checks.worker_tasks import WorkerTask, offload
from assay.errors import InvalidRequest, ValueFault
from assay.ports import Services
from assay.protocol.evaluation import CallPattern
from assay.protocol.json_types import JSON

Mode = Literal["exact", "any_order", "in_order", "superset", "subset"]
LISTED = 20  # calls and patterns that an answer has


class ToolCalls(Checker):
    type = "tool_calls"
    waits = False
    default_paths = {"trajectory": DEFAULT_PATH}  # noqa: RUF012  # declared a ClassVar in Checker
    results_schema = closed_object(
        {
            "passed": {"type": "boolean"},
            "reason": {"type": "string"},
            "missing": {"type": "array", "description": "expected calls that were not made, or not in order"},
            "unexpected": {"type": "array", "description": "calls that are not among the expected ones"},
            "forbidden": {"type": "array", "description": "forbidden calls that were made or tried"},
        },
        optional=(
            "missing",
            "unexpected",
            "forbidden",
        ),
    )

    trajectory: list[Any]
    expected: list[str | CallPattern] | UnsetType = UNSET
    forbidden: list[str | CallPattern] | UnsetType = UNSET
    mode: Mode = "exact"
    argument_match: Literal["equal", "subset"] = "equal"

    def run(self, services: Services) -> Answer | WorkerTask:
        patterns = [*(self.expected or ()), *(self.forbidden or ())]
        return offload(self) if is_long_work(patterns, self.trajectory) else self.answer(services)

    def answer(self, services: Services) -> Answer:
        calls = read_trajectory(self.trajectory).calls
        made = [one for one in calls if not one.refused]
        expected, forbidden = self._matchers("expected"), self._matchers("forbidden")
        broken = [one for one in forbidden if any(one.fits(call, services) for call in calls)]
        missing, unexpected = list[CallMatcher](), list[Call]()
        if self.expected is not UNSET:
            missing, unexpected = compare(expected, made, self.mode, services)
        answer: JSON = {"passed": not (missing or unexpected or broken)}
        answer["reason"] = _reason(missing, unexpected, broken, calls, self.mode)
        answer |= {"missing": [pattern_document(one.pattern) for one in missing[:LISTED]]} if missing else {}
        answer |= {"unexpected": [one.document for one in unexpected[:LISTED]]} if unexpected else {}
        return answer | (
            {"forbidden": [pattern_document(one.pattern) for one in broken[:LISTED]]} if broken else {}
        )

    def _matchers(self, name: str) -> list[CallMatcher]:
        equal = self.argument_match == "equal" and name == "expected"
        try:
            return matchers_of(getattr(self, name) or (), name, equal=equal)
        except InvalidRequest as refused:  # patterns that a path found
            raise ValueFault(str(refused.problems[0])) from None

    @classmethod
    def validate_literals(cls, literals: Mapping[str, Any]) -> None:
        if all(literals.get(name) is UNSET for name in ("expected", "forbidden")):
            raise ValueError("expected `expected`, `forbidden` or both, got neither")
        for name in ("expected", "forbidden"):
            matchers_of(literals.get(name) or (), name)


def compare(
    expected: Sequence[CallMatcher], made: Sequence[Call], mode: Mode, services: Services
) -> tuple[list[CallMatcher], list[Call]]:
    """The expected calls that are missing or not in order, and the calls that are too many."""
    if mode == "exact":
        at = 0
        while at < min(len(expected), len(made)) and expected[at].fits(made[at], services):
            at += 1
        return list(expected[at:]), list(made[at:])
    if mode == "in_order":
        rest = iter(made)
        for at, one in enumerate(expected):
            if not any(one.fits(call, services) for call in rest):
                return list(expected[at:]), []
        return [], []
    found = pairs(expected, made, services)
    used = set(found.values())
    missing = [one for at, one in enumerate(expected) if at not in found] if mode != "subset" else []
    unexpected = [one for at, one in enumerate(made) if at not in used] if mode != "superset" else []
    return missing, unexpected


def _reason(
    missing: list[CallMatcher],
    unexpected: list[Call],
    broken: list[CallMatcher],
    calls: list[Call],
    mode: Mode,
) -> str:
    if not (missing or unexpected or broken):
        return "made the expected calls"
    parts: list[str] = []
    if mode == "exact" and missing and unexpected:
        number = len([one for one in calls if not one.refused]) - len(unexpected) + 1
        parts.append(
            f"call {number:,}: expected {call_text(pattern_document(missing[0].pattern))}, got "
            f"{call_text(unexpected[0].document)}"
        )
    elif missing:
        order = " in this order" if mode == "in_order" else ""
        parts.append(
            f"expected a call of {calls_text([pattern_document(one.pattern) for one in missing])}{order}"
        )
    if unexpected and not parts:
        parts.append(f"did not expect a call of {calls_text([one.document for one in unexpected])}")
    if broken:
        parts.append(
            f"must not make a call of {calls_text([pattern_document(one.pattern) for one in broken])}"
        )
    names = calls_text([{"tool": one.tool} for one in calls], join=", ")
    return f"{'; '.join(parts)}; it called {names or 'no tool'}"
