"""Results of cases that never started and whose checks are no longer registered (FEP-28)."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import UNSET

from assay.checks.runner import ResultOptions
from assay.fep.request import checks_from
from assay.fep.run_header import StoredRequest
from assay.fep.scorer import Scorer
from assay.inputs.context import Context, stored_context
from assay.ports import Services
from assay.protocol.evaluation import Check
from assay.protocol.results import CheckResult
from assay.results.tally import Tally


class SkippedCases:
    """A stored request with a check that this host does not have: writes its skipped results."""

    def __init__(self, request: StoredRequest, services: Services) -> None:
        self._checks: Any = None if request.checks is None else checks_from(request.checks)
        self._services = services
        self._scorer = Scorer((), (), services, ResultOptions())

    def skip_cases(self, lines: Iterable[bytes], first: int, tally: Tally) -> Iterator[bytes]:
        for at, line in enumerate(lines, first):
            context = stored_context(line, self._services.limits)
            results = [
                CheckResult(
                    check_type=check.type,
                    status="skip",
                    results={},
                    evaluated_at=self._services.clock.now(),
                    metadata=_metadata(check) or UNSET,
                )
                for check in self._checks_of(at, context)
            ]
            answers = tally.answers(tuple(check.name or check.type for check in self._checks_of(at, context)))
            skipped = self._scorer.result_of(context, results, answers)
            tally.count_case(skipped.status)
            yield skipped.line

    def _checks_of(self, index: int, context: Context) -> Sequence[Check]:
        if context.checks is not None or not self._checks:
            return context.checks or ()
        return self._checks[index] if not isinstance(self._checks[0], Check) else self._checks


def _metadata(check: Check) -> dict[str, Any]:
    members = {"check_version": check.version, "check_name": check.name}
    return {name: value for name, value in members.items() if value}


class FrozenClock(NamedTuple):
    """A clock that always returns the same time."""

    moment: datetime

    def now(self) -> datetime:
        return self.moment
