"""Comparisons over HTTP: an evaluation or an eval run beside another of the same tenant."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from assay.agenteval.planning.run_header import KIND as EVAL
from assay.auth.keys import authorize
from assay.comparison.compare import RunComparison
from assay.comparison.run_scores import ReadOptions
from assay.comparison.sources import CompareOptions, compare_sources, read_options
from assay.comparison.stored_runs import require_comparable
from assay.comparison.views.case_grid import GridRow
from assay.comparison.views.case_lists import FILTERS, CaseLists, ComparedCase
from assay.comparison.views.page_view import ComparisonView
from assay.comparison.views.partings import PartingsView
from assay.concurrency.threads import in_thread
from assay.errors import InvalidRequest, NotFound, Problem, UsageError
from assay.errors.door import place_of
from assay.extras import missing_packages
from assay.fep.records.service import EvaluationService
from assay.lazy_pattern import lazy_pattern
from assay.ports import Run
from assay.serve.fep.comparison_cache import stored_reasons
from assay.serve.fep.server_state import fep_of
from assay.serve.web.request import NAME, HttpRequest
from assay.serve.web.responses import Response, answer

MAX_RESULTS = 20_000  # of one run; `assay compare` has no limit
MAX_CHANGES = 100
MAX_BY, MAX_NAME = 10, 300  # names of groupings, and characters of one
_OPTION = lazy_pattern(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)")


async def compare_evaluation(call: HttpRequest) -> Response:
    """GET /v1/evaluations/{id}/comparison: the run beside `baseline`."""
    params = call.query("baseline", "metric", "by", "margin", "limit", "standardize_by")
    run = await comparable_run(call, call.run_id)
    require_comparisons()
    options, margin = query_options(params), query_number(params, "margin", None)
    limit = int(query_number(params, "limit", 10.0) or 0)
    if not 0 <= limit <= MAX_CHANGES:
        raise InvalidRequest(Problem("limit", f"expected 0 to {MAX_CHANGES}, got {params['limit'][:50]}"))
    if "baseline" not in params:
        raise InvalidRequest(Problem("baseline", "expected the id of the run to compare with"))
    fep, runs = fep_of(call), [await comparable_run(call, params["baseline"]), run]
    for one in runs:
        await call.audit_read(one)

    async def work() -> RunComparison:
        sources = await fep.comparisons.sources(fep.evaluations, runs, options)
        scores = [await source.scores(options) for source in sources]
        with words_of_requests():
            return await compare_sources(sources, scores, margin, limit)

    return answer(await call.until_disconnect(work()))


@contextmanager
def words_of_requests() -> Generator[None]:
    """A refusal of the command line becomes one of the request: the names of options are those of members."""
    try:
        yield
    except UsageError as wrong:
        raise InvalidRequest(_in_words(str(wrong))) from None
    except InvalidRequest as wrong:
        problems = [Problem(_in_words(one.place), _in_words(one.message)) for one in wrong.problems]
        raise InvalidRequest(problems) from None


def _in_words(text: str) -> str:
    return _OPTION.sub(lambda match: match[1].replace("-", "_"), text)


def query_options(params: dict[str, str]) -> ReadOptions:
    """The metric and the groupings of a query."""
    names = tuple(name for name in params.get("by", "").split(",") if name)
    standard = params.get("standardize_by") or None
    require_few([*names, *([] if standard is None else [standard])])
    with words_of_requests():
        return read_options(CompareOptions(metric=params.get("metric"), by=names, standardize_by=standard))


def require_few(by: Sequence[str]) -> None:
    """Refuse more or longer groupings than a request may have."""
    if len(by) > MAX_BY:
        raise InvalidRequest(Problem(place_of("by"), f"expected at most {MAX_BY} names, got {len(by)}"))
    if any(len(name) > MAX_NAME for name in by):
        raise InvalidRequest(Problem(place_of("by"), f"expected names of at most {MAX_NAME} characters"))


def require_comparisons() -> None:
    """Refuse a request that compares on a host without the packages for it."""
    if missing_packages("compare"):
        raise InvalidRequest("this host has no comparisons: the extra `compare` is not installed")


def query_number(params: dict[str, str], name: str, default: float | None) -> float | None:
    """A number of a query that is not negative."""
    text = params.get(name)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not 0 <= number < float("inf") or (name == "margin" and not number):
        raise InvalidRequest(Problem(name, f"expected a number above 0, got {text[:50]!r}"))
    return number


async def comparable_run(
    call: HttpRequest, id: str, limit: int = MAX_RESULTS, command: str = "assay compare"
) -> Run:
    """A run of the caller's tenant that can be compared here. An agent eval needs its own scope."""
    if not NAME.fullmatch(id):
        raise NotFound(f"there is no run {id[:128]!r}")
    run = await call.server.executor.get(id, call.tenant)
    if run.kind == EVAL:
        authorize(call.principal, "runs:read")
    require_size(run, limit, command)
    return run


def require_size(run: Run, limit: int, command: str) -> None:
    """Refuse a run that cannot be compared, or has more than `limit` results; `command` takes any number."""
    require_comparable(run)
    results: int = run.metadata.get("total", 0) * (run.metadata.get("trials", 1) if run.kind == EVAL else 1)
    if results > limit:
        message = f"{run.id} has {results:,} results; over HTTP at most {limit:,} are compared"
        raise InvalidRequest(f"{message}: use `{command}`")


# Comparisons for a page: several runs beside the first of them, their charts, and the cases that changed, in
# pages.

MAX_RUNS = 8
MAX_VIEW_RESULTS = 250_000  # of one run
MAX_PAGE = 200
MAX_PARTING_RESULTS = 2_000  # of one run whose steps are compared


class ComparedCases(Struct, frozen=True, kw_only=True):
    """One page of a list of cases. `total` is the length of the list."""

    total: int
    first: int
    cases: tuple[ComparedCase, ...]


async def show_comparison(call: HttpRequest) -> Response:
    """GET /v1/host/assay/comparison: every run of `runs` beside the first."""
    params = call.query("runs", "metric", "by", "margin", "standardize_by", "metrics")
    options, margin = _view_options(params), query_number(params, "margin", None)
    metrics = _flag(params, "metrics")
    fep, runs = fep_of(call), await _runs(call, params)

    async def work() -> ComparisonView:
        stored = await fep.comparisons.get(fep.evaluations, runs, options)
        return await in_thread(lambda: stored.view(margin, metrics=metrics))

    return answer(await call.until_disconnect(work()))


def _view_options(params: dict[str, str]) -> ReadOptions:
    """Those of a query of the page: one reading of the runs is for the verdict, all metrics, the lists and the grid."""
    return msgspec.structs.replace(query_options(params), every_metric=True)


def _flag(params: dict[str, str], name: str) -> bool:
    text = params.get(name, "false")
    if text not in ("true", "false"):
        raise InvalidRequest(Problem(name, f"expected true or false, got {text[:40]!r}"))
    return text == "true"


class ComparedGrid(Struct, frozen=True, kw_only=True):
    """One page of the cases of several runs. `total` is the number of rows, `different` those with different values."""

    metric: str
    total: int
    different: int
    first: int
    rows: list[GridRow]


async def show_grid(call: HttpRequest) -> Response:
    """GET /v1/host/assay/comparison/grid: the cases of up to eight runs, each with its value in every run."""
    params = call.query("runs", "metric", "different", "first", "limit")
    different = _flag(params, "different")
    first, limit = int(query_number(params, "first", 0.0) or 0), int(query_number(params, "limit", 50.0) or 0)
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidRequest(Problem("limit", f"expected 1 to {MAX_PAGE}, got {params['limit'][:50]}"))
    options = _view_options(params)
    fep, runs = fep_of(call), await _runs(call, params)
    trials = [run.metadata.get("trials", 1) for run in runs]

    async def work() -> ComparedGrid:
        stored = await fep.comparisons.get(fep.evaluations, runs, options)

        def read() -> ComparedGrid:
            grid = stored.grid
            return ComparedGrid(
                metric=stored.paired.metric.name,
                total=grid.count(different=different),
                different=grid.count(different=True),
                first=first,
                rows=grid.rows(trials, first, limit, different=different),
            )

        return await in_thread(read)

    return answer(await call.until_disconnect(work()))


async def show_partings(call: HttpRequest) -> Response:
    """GET /v1/host/assay/comparison/diff: where two runs part ways, as `assay diff` finds it."""
    params = call.query("runs", "first", "limit")
    first, limit = int(query_number(params, "first", 0.0) or 0), int(query_number(params, "limit", 50.0) or 0)
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidRequest(Problem("limit", f"expected 1 to {MAX_PAGE}, got {params['limit'][:50]}"))
    ids = [id for id in params.get("runs", "").split(",") if id]
    if len(ids) != 2:
        raise InvalidRequest(
            Problem("runs", f"expected the ids of 2 runs, separated by a comma, got {len(ids)}")
        )
    fep, runs = (
        fep_of(call),
        [await comparable_run(call, id, MAX_PARTING_RESULTS, "assay diff") for id in ids],
    )
    for run in runs:
        await call.audit_read(run)

    async def work() -> PartingsView:
        with words_of_requests():
            found = await fep.comparisons.partings(fep.evaluations, runs[0], runs[1])
        page = found.partings[first : first + limit]
        return msgspec.structs.replace(found, first=first, partings=page)

    return answer(await call.until_disconnect(work()))


async def list_compared_cases(call: HttpRequest) -> Response:
    """GET /v1/host/assay/comparison/cases: one page of the cases of a pair, the worst first, with reasons."""
    params = call.query("runs", "of", "metric", "by", "change", "slice_by", "slice", "first", "limit")
    change = params.get("change", "changed")
    if change not in FILTERS:
        raise InvalidRequest(Problem("change", f"expected one of {', '.join(FILTERS)}, got {change[:40]!r}"))
    first, limit = int(query_number(params, "first", 0.0) or 0), int(query_number(params, "limit", 50.0) or 0)
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidRequest(Problem("limit", f"expected 1 to {MAX_PAGE}, got {params['limit'][:50]}"))
    options = _view_options(params)
    fep, runs = fep_of(call), await _runs(call, params)
    ids = [run.id for run in runs]
    of = params.get("of", ids[1])
    if of not in ids[1:]:
        raise InvalidRequest(Problem("of", f"expected one of {', '.join(ids[1:])}, got {of[:128]!r}"))

    async def work() -> ComparedCases:
        stored = await fep.comparisons.get(fep.evaluations, runs, options)
        at = ids.index(of, 1)
        by, slice = params.get("slice_by", ""), params.get("slice", "")
        lists = await in_thread(lambda: stored.lists(at, by, slice))
        return await read_cases(fep.evaluations, (runs[0], runs[at]), lists, change, first=first, limit=limit)

    return answer(await call.until_disconnect(work()))


async def read_cases(
    evaluations: EvaluationService,
    pair: tuple[Run, Run],
    lists: CaseLists,
    change: str,
    *,
    first: int,
    limit: int,
) -> ComparedCases:
    """A part of a list of the cases of a pair, with their reasons and positions in both runs."""
    total = await in_thread(lambda: lists.count(change))
    numbers = list(lists.numbers(change, min(first, total), limit))
    cases = [lists.case(number) for number in numbers]
    explained: list[ComparedCase] = cases
    for run, side in zip(pair, ("before", "after"), strict=True):
        is_baseline = side == "before"
        rows = lists.rows(numbers, baseline=is_baseline)
        reasons = await stored_reasons(evaluations, run, [case.id for case in cases], rows)
        positions = lists.positions(numbers, run.metadata.get("trials", 1), baseline=is_baseline)
        explained = [
            msgspec.structs.replace(
                case, **{f"reason_{side}": reasons.get(case.id, ""), f"position_{side}": position}
            )
            for case, position in zip(explained, positions, strict=True)
        ]
    return ComparedCases(total=total, first=first, cases=tuple(explained))


async def _runs(call: HttpRequest, params: dict[str, str]) -> list[Run]:
    """The runs that `runs` names, in its order."""
    require_comparisons()
    ids = [id for id in params.get("runs", "").split(",") if id]
    if not 2 <= len(ids) <= MAX_RUNS:
        raise InvalidRequest(
            Problem("runs", f"expected 2 to {MAX_RUNS} ids of runs, separated by commas, got {len(ids)}")
        )
    runs = [await comparable_run(call, id, MAX_VIEW_RESULTS) for id in ids]
    for run in runs:
        await call.audit_read(run)
    return runs
