"""GET …/runs/{run_id}/slices: the cases of a run by tag, by a member, by a path, by check, or by why they fail."""

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.cases.fold import CHECKS
from assay.cases.pages import all_blocks
from assay.cases.table import check_counts
from assay.comparison.stored_runs import columns_of, result_lines
from assay.concurrency.threads import in_thread, off_loop
from assay.errors import NotFound
from assay.errors.storage import Erased
from assay.fep.records.service import EvaluationService
from assay.ports import Run
from assay.ports.cases import FAILED, PASSED
from assay.protocol.json_types import JSON
from assay.results.reason_groups import REASON, reason_groups
from assay.results.slices import NONE, Columns, Dimension, SliceRates, SliceSink, note_members, read_dimension
from assay.serve.fep.comparison import require_few, words_of_requests
from assay.serve.fep.comparison_cache import use_lines
from assay.serve.fep.server_state import fep_of
from assay.serve.overview.access import any_run
from assay.serve.overview.run_rows import SCORED
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer
from assay.stats.intervals import CONFIDENCE, Rate, rate_difference, wilson
from assay.stats.number_text import points_text, rate_text

MAX_RESULTS = 10_000  # that a request counts
LISTED = 100  # slices of an answer
MAX_VALUES = 20  # of a member, that an answer lists
TAG, CHECK = "tag", "check"
MODEL = "$.output.metadata.model"
_decode = msgspec.json.Decoder().decode


class CaseSlice(Struct, frozen=True, kw_only=True, rename="camel"):
    """
    The cases with one value. `difference`: of their pass rate to that of all others, with a 95% interval that is
    adjusted for the number of slices (Holm); `verdict`: `better` or `worse` if it has no 0. Groups of failures and
    checks have neither.
    """

    name: str
    cases: int
    rate: str | UnsetType = UNSET
    difference: str | UnsetType = UNSET
    verdict: str | UnsetType = UNSET


class SlicesAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """
    `members`: the names by which the run can be sliced. `values`: with the reasons, the first values of each member and
    the models. `counted`: false if the run has too many results.
    """

    by: str
    slices: list[CaseSlice]
    more: int  # slices that are not listed
    members: list[str]
    counted: bool
    values: dict[str, list[str]] | UnsetType = UNSET


async def get_slices(call: HttpRequest) -> Response:
    params = call.query("by")
    run = await any_run(call)
    by = params.get("by", "tag")
    require_few([by])
    if run.kind not in SCORED:
        raise NotFound(f"run {run.id} has no cases: it is not an evaluation or an agent eval")
    if run.erased:
        raise Erased(run.id, run.erased, run.erased_by)
    results: int = run.metadata.get("total", 0) * run.metadata.get("trials", 1)
    if results > MAX_RESULTS:
        return answer(SlicesAnswer(by=by, slices=[], more=0, members=[], counted=False))
    await call.audit_read(run)
    with words_of_requests():
        return answer(await read_slices(fep_of(call).evaluations, run, by))


async def read_slices(evaluations: EvaluationService, run: Run, by: str) -> SlicesAnswer:
    """The slices of a run, those that are worse than the rest first; groups of failures have counts alone."""
    if by == CHECK:
        return await _by_check(evaluations, run)
    columns = await columns_of(evaluations.store, run)
    dimension = read_dimension("tag" if by == REASON else by).in_table(columns)
    sink, groups, values = SliceSink([dimension, EVERYTHING]), Counter[str](), MemberValues(columns)

    def use(line: bytes) -> None:
        if by == REASON:
            groups.update(reason_groups(result := _decode(line)))
            values.add(result["execution_context"])
        sink.write(line)

    await use_lines(result_lines(evaluations, run), use)
    members = list(dict.fromkeys([TAG, *(name for name in sink.members if name not in ("tag", "tags"))]))
    if by == REASON:
        found = [CaseSlice(name=name, cases=cases) for name, cases in groups.most_common()]
    else:
        sink.require_values()
        rates = await in_thread(lambda: list(sink.rates()))
        whole = next((one for one in rates if one.dimension == EVERYTHING.name), None)
        found = _slices([one for one in rates if one.dimension == dimension.name], whole)
        found.sort(key=lambda one: (one.verdict != "worse", -one.cases))
    return SlicesAnswer(
        by=by,
        slices=found[:LISTED],
        more=max(0, len(found) - LISTED),
        members=members,
        counted=True,
        values=values.found if by == REASON else UNSET,
    )


class MemberValues:
    """The first values of each member of some cases, of their tags, and the models that answered."""

    def __init__(self, columns: Columns) -> None:
        self.found: dict[str, list[str]] = {}
        self._columns = columns
        self._names: dict[str, None] = {}
        self._dimensions = {name: read_dimension(name) for name in (TAG, MODEL)}

    def add(self, context: JSON) -> None:
        note_members(context["test_case"], self._names)
        for name in self._names:
            if name not in self._dimensions and name != "tags":
                self._dimensions[name] = Dimension(name, None).in_table(self._columns)
        for name, dimension in self._dimensions.items():
            values = self.found.get(name, [])
            if len(values) < MAX_VALUES and (
                new := [one for one in dimension.slices_of(context) if one != NONE]
            ):
                self.found[name] = list(dict.fromkeys([*values, *new]))[:MAX_VALUES]


class _Everything(Dimension):
    """One slice with all cases."""

    __slots__ = ()

    def slices_of(self, context: dict[str, object]) -> list[str]:
        return [""]


EVERYTHING = _Everything("(all)", None)


async def _by_check(evaluations: EvaluationService, run: Run) -> SlicesAnswer:
    """The pass rate of each check over the results that it decides, the lowest first."""
    labels: list[str] = run.metadata.get(CHECKS, [])
    blocks = await all_blocks(evaluations.store, run.id)
    size = sum(len(block.data) for block in blocks)
    counts = await off_loop(size, lambda: check_counts(blocks, len(labels)))
    rates = [(label, _decided(one[PASSED], one[FAILED])) for label, one in zip(labels, counts, strict=True)]
    rates.sort(key=lambda one: 2.0 if one[1] is None else one[1].rate)
    found = [
        CaseSlice(name=label, cases=rate.cases if rate else 0, rate=rate_text(rate)) for label, rate in rates
    ]
    return SlicesAnswer(
        by=CHECK, slices=found[:LISTED], more=max(0, len(found) - LISTED), members=[], counted=True
    )


def _decided(passed: int, failed: int) -> Rate | None:
    cases = passed + failed
    return Rate(passed / cases, *wilson(passed / cases, cases), cases, cases) if cases else None


def _slices(rates: Sequence[SliceRates], whole: SliceRates | None) -> list[CaseSlice]:
    """
    Each slice beside the rest. Their differences are adjusted for their number as Holm does: the clearest has the level
    of all of them, the next that of one fewer, and from the first that is not clear on all have the same level.
    """
    every = whole.case_pass_rate if whole else None
    pairs = {
        at: (rate, rest)
        for at, one in enumerate(rates)
        if (rate := one.case_pass_rate) is not None and every is not None and (rest := _rest(rate, every))
    }
    order = sorted(pairs, key=lambda at: _clearness(*pairs[at]), reverse=True)
    found = [
        CaseSlice(
            name=one.name, cases=rate.cases if (rate := one.case_pass_rate) else 0, rate=rate_text(rate)
        )
        for one in rates
    ]
    left, is_clear = len(order), True
    for at in order:
        difference, low, high = _difference(*pairs[at], 1 - (1 - CONFIDENCE) / left)
        is_clear = is_clear and (low > 0 or high < 0)
        verdict = UNSET if not is_clear else "better" if low > 0 else "worse"
        text = points_text(difference, low, high)
        found[at] = msgspec.structs.replace(found[at], difference=text, verdict=verdict)
        left -= is_clear
    return found


def _clearness(rate: Rate, rest: Rate) -> float:
    difference, low, high = rate_difference(rate, rest)
    reach = difference - low if difference > 0 else high - difference
    return abs(difference) / reach if reach else 0.0


def _difference(rate: Rate, rest: Rate, level: float) -> tuple[float, float, float]:
    if level == CONFIDENCE:
        return rate_difference(rate, rest)
    wide = [Rate(one.rate, *wilson(one.rate, one.cases, level), one.cases, one.cases) for one in (rate, rest)]
    return rate_difference(*wide)


def _rest(rate: Rate, every: Rate) -> Rate | None:
    """The rate of the cases that are not in the slice."""
    cases = every.cases - rate.cases
    if cases <= 0:
        return None
    share = min(1.0, max(0.0, (every.rate * every.cases - rate.rate * rate.cases) / cases))
    return Rate(share, *wilson(share, cases), cases, cases)
