"""Which cases of a run a client asks for: by outcome, check, position, id, number, finding and correction."""

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from assay.cases.case_search import results_with_id
from assay.cases.table import CaseFilter, CheckFilter, NumberRange
from assay.ports import CaseTotals, Run, Store
from assay.ports.cases import ERROR, FAILED, PASSED, SKIPPED, UNGRADED
from assay.serve.overview.effective import EffectiveCases

Outcome = Literal["passed", "failed", "ungraded", "error", "skipped"]
LETTERS: dict[str, str] = {
    "passed": PASSED, "failed": FAILED, "ungraded": UNGRADED, "error": ERROR, "skipped": SKIPPED
}  # fmt: skip
MAX_POSITIONS = 10_000
MAX_CHECKS = 10  # of a filter


class CheckOutcome(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A check by its column, and its outcome in any trial of the case."""

    index: Annotated[int, Meta(ge=0, lt=64)]
    outcome: Outcome = "failed"


class Limits(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Numbers above one limit and below another. A case whose number is not known never fits."""

    above: float | UnsetType = UNSET
    below: float | UnsetType = UNSET


class CasesFilter(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which cases a client asks for. Of several checks, each has its outcome."""

    status: list[Outcome] | UnsetType = UNSET
    check: CheckOutcome | Annotated[list[CheckOutcome], Meta(max_length=MAX_CHECKS)] | UnsetType = UNSET
    positions: Annotated[list[int], Meta(max_length=MAX_POSITIONS)] | UnsetType = UNSET
    case_id: Annotated[list[str], Meta(max_length=20)] | UnsetType = UNSET
    findings: Literal[True] | UnsetType = UNSET
    corrected: Literal[True] | UnsetType = UNSET
    score: Limits | UnsetType = UNSET
    cost_usd: Limits | UnsetType = UNSET
    latency_ms: Limits | UnsetType = UNSET


class LookedForIds(Struct, frozen=True, kw_only=True):
    """How many results were looked at for the ids of the filter."""

    results: int
    complete: bool


async def case_filter(
    store: Store,
    run: Run,
    request: CasesFilter,
    totals: CaseTotals,
    trials: int,
    changed: EffectiveCases,
) -> tuple[CaseFilter, LookedForIds | UnsetType]:
    """The filter of a request, and how far the run was looked through for the ids in it."""
    positions: set[int] | None = None if request.positions is UNSET else set(request.positions)
    looked = UNSET
    if request.corrected is True:
        positions = {*changed.cases} if positions is None else positions & changed.cases.keys()
    if request.case_id is not UNSET:
        results = int(run.metadata.get("total", 0)) * (trials if run.kind != "evaluation" else 1)
        found, seen = await results_with_id(
            store, run.id, frozenset(request.case_id), max(results, totals.results)
        )
        here = {number // trials for number in found}
        positions = here if positions is None else positions & here
        looked = LookedForIds(results=seen, complete=seen >= max(results, totals.results))
    check = [] if request.check is UNSET else request.check
    filter = CaseFilter(
        statuses="" if request.status is UNSET else "".join(LETTERS[status] for status in request.status),
        checks=tuple(
            CheckFilter(one.index, LETTERS[one.outcome])
            for one in (check if isinstance(check, list) else [check])
        ),
        positions=None if positions is None else frozenset(positions),
        findings=request.findings is True,
        numbers=tuple(_ranges(request)),
    )
    return filter, looked


def _ranges(request: CasesFilter) -> Iterator[NumberRange]:
    if request.score is not UNSET:
        yield NumberRange("score", *_limits(request.score))
    if request.cost_usd is not UNSET:
        yield NumberRange("cost", *_limits(request.cost_usd))
    if request.latency_ms is not UNSET:
        yield NumberRange("latency", *_limits(request.latency_ms))


def _limits(limits: Limits) -> tuple[float | None, float | None]:
    above, below = limits.above, limits.below
    return None if above is UNSET else above, None if below is UNSET else below
