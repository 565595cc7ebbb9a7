"""The table of cases of one run while it is written: its rows, and the labels of its checks."""

from collections.abc import Iterable
from typing import Any

from assay.cases.outcomes import CaseOutcomes, CheckLabels
from assay.ports import CaseBlock, CaseTotals, Run, Store

CHECKS = "checks"  # in the metadata of a run: the labels of the columns


class CaseFold:
    """Makes the rows of a run, in the order in which its units end. `totals`: of the rows that exist."""

    def __init__(self, labels: Iterable[str] = (), totals: CaseTotals | None = None) -> None:
        self._labels = CheckLabels(labels)
        self.totals = totals or CaseTotals()

    def add(self, first: int, outcomes: CaseOutcomes) -> list[CaseBlock]:
        """The row of results that begin with number `first`; none if there are no results."""
        if not outcomes.columns.index:
            return []
        block = self._labels.block(first, outcomes)
        self.add_row(block)
        return [block]

    def add_row(self, block: CaseBlock) -> None:
        before = self.totals
        self.totals = CaseTotals(
            passed=before.passed + block.passed,
            failed=before.failed + block.failed,
            ungraded=before.ungraded + block.ungraded,
            error=before.error + block.error,
            skipped=before.skipped + block.skipped,
            spent=before.spent + block.spent,
            unknown=before.unknown + block.unknown,
        )

    @property
    def metadata(self) -> dict[str, Any]:
        return {CHECKS: self._labels.labels} if self._labels.labels else {}


async def totals_of(store: Store, run: Run) -> CaseTotals | None:
    """The sums of the recorded rows of a run that continues; None if it has none."""
    if not run.events:
        return None
    return (await store.case_totals([run.id])).get(run.id)
