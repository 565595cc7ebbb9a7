"""
The first cases of a run that did not pass, each with the reasons of its checks, collected while results are written.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from assay.fep.planning.scorer import CompiledCase, ScoredCase
from assay.protocol.json_types import JSON, is_object
from assay.protocol.results import TestCaseResult
from assay.results.check_names import scored_label
from assay.results.reasons import is_failing, reason_of

CASES = 5
CHECKS = 3  # of one case
_NOT_PASSED = b'"passed":false'
_SIGNS = (_NOT_PASSED, b'"status":"error"', b'"status":"skip"')  # a failing case has one of these


class FailedCheck(Struct, frozen=True):
    check: str
    reason: str


class FailingCase(Struct, frozen=True, omit_defaults=True):
    """
    A case that did not pass, or those of its `trials` that have the same reasons. `more`: failing checks that are not
    listed.
    """

    id: str
    checks: list[FailedCheck]
    trials: list[int] = []
    more: int = 0

    def repeats(self, other: "FailingCase") -> bool:
        """Whether this is another trial of the same case, with the same reasons."""
        same = (self.id, self.checks, self.more) == (other.id, other.checks, other.more)
        return same and bool(self.trials) and bool(other.trials)


class FailingCases:
    """Collects the first failing cases. A line without a sign of a failure is not decoded."""

    name = ""

    def __init__(self) -> None:
        self.cases: list[FailingCase] = []
        self.complete = True  # False: there may be more of them

    def write(self, line: bytes) -> None:
        if self.complete and any(sign in line for sign in _SIGNS):
            self._add(line)

    def note_case(self, case: ScoredCase, line: bytes) -> None:
        """As `write`, for a case whose status is known. An empty line is written only if the case is needed."""
        if not self.complete or (isinstance(case, CompiledCase) and case.is_passed):
            return
        line = line or case.line
        if case.status != "completed" or _NOT_PASSED in line:
            self._add(line)

    def add(self, cases: list[FailingCase], *, complete: bool) -> None:
        """Add the cases of another collector, which come after these."""
        self.complete = self.complete and complete and len(self.cases) + len(cases) <= CASES
        self.cases += cases[: CASES - len(self.cases)]

    def flush(self) -> None: ...

    def close(self, footer: Any) -> None: ...

    def _add(self, line: bytes) -> None:
        case = _failing_case(msgspec.json.decode(line))
        if case is None:
            return
        for index, earlier in enumerate(self.cases):
            if case.repeats(earlier):
                self.cases[index] = replace(earlier, trials=[*earlier.trials, *case.trials])
                return
        if len(self.cases) == CASES:
            self.complete = False
        else:
            self.cases.append(case)


def every_failing_case(results: Iterable[TestCaseResult]) -> list[FailingCase]:
    """All failing cases with all their checks. Trials with the same reasons are one."""
    found: dict[object, FailingCase] = {}
    for result in results:
        case = _failing_case(msgspec.to_builtins(result), checks=None)
        if case is None:
            continue
        key: object = (case.id, tuple(case.checks)) if case.trials else len(found)
        earlier = found.get(key)
        found[key] = case if earlier is None else replace(earlier, trials=[*earlier.trials, *case.trials])
    return list(found.values())


def _failing_case(result: JSON, checks: int | None = CHECKS) -> FailingCase | None:
    failing = [check for check in result["check_results"] if is_failing(check)]
    if not failing:
        return None
    context = result["execution_context"]
    metadata = context["output"].get("metadata")
    trial = metadata.get("trial") if is_object(metadata) else None
    return FailingCase(
        id=str(context["test_case"].get("id", "")),
        checks=[
            FailedCheck(scored_label(check), reason_of(check, context["test_case"]))
            for check in failing[:checks]
        ],
        trials=[trial] if type(trial) is int else [],
        more=0 if checks is None else max(0, len(failing) - checks),
    )
