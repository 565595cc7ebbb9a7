"""The last look of a run that stops when it has decided, in its overview (ADR-0241)."""

from msgspec import UNSET, Struct, UnsetType

from assay.ports import Run
from assay.results.last_look import look_in
from assay.stats.stopping import GOOD, UNDECIDED


class LookSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """
    The numbers are those of `until` in `--json`; `text` is as in the terminal. `decision`: "not enough data" as long as
    nothing is decided. `favorable`: improved, equivalent or above the bar. The look saw `cases` of `total`.
    """

    decision: str
    favorable: bool
    text: str
    metric: str
    estimate: float | None
    low: float
    high: float
    measured: int
    unmeasured: int
    min_pass_rate: float | None
    rounds: int
    cases: int
    total: int


def look_summary(run: Run) -> LookSummary | UnsetType:
    last = look_in(run.metadata)
    if last is None:
        return UNSET
    look = last.look
    return LookSummary(
        decision=look.decision or UNDECIDED,
        favorable=look.decision in GOOD,
        text=last.text,
        metric=look.metric,
        estimate=look.estimate,
        low=look.low,
        high=look.high,
        measured=look.cases,
        unmeasured=look.unmeasured,
        min_pass_rate=last.bar,
        rounds=last.rounds,
        cases=last.cases,
        total=last.total,
    )
