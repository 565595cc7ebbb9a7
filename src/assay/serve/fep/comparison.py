"""Comparisons over HTTP: an evaluation or an eval run beside another of the same tenant."""

from collections.abc import Sequence

from assay.comparison.case_reasons import CaseReasons, with_reasons
from assay.comparison.compare import PairComparison, RunComparison, compare_runs
from assay.comparison.metric import read_metric
from assay.comparison.run_scores import GROUPINGS, Grouping, ReadOptions
from assay.comparison.stored_runs import require_comparable, result_lines
from assay.concurrency.tenant_threads import in_thread
from assay.errors import InvalidRequest, NotFound, Problem, UsageError
from assay.extras import missing_packages
from assay.fep.records.service import EvaluationService
from assay.ports import Run
from assay.results.slices import read_dimension
from assay.serve.fep.comparison_cache import stored_scores, use_lines
from assay.serve.fep.state import fep_of
from assay.serve.web.request import NAME, HttpRequest
from assay.serve.web.responses import Response, answer

MAX_RESULTS = 20_000  # of one run; `assay compare` has no limit
MAX_CHANGES = 100


async def compare_evaluation(call: HttpRequest) -> Response:
    """GET /v1/evaluations/{id}/comparison: the run beside `baseline`."""
    params = call.query("baseline", "metric", "by", "margin", "limit")
    run = await comparable_run(call, call.run_id)
    if missing_packages("compare"):
        raise InvalidRequest("this host has no comparisons: the extra `compare` is not installed")
    options, margin = query_options(params), query_number(params, "margin", None)
    limit = int(query_number(params, "limit", 10.0) or 0)
    if not 0 <= limit <= MAX_CHANGES:
        raise InvalidRequest(Problem("limit", f"expected 0 to {MAX_CHANGES}, got {params['limit'][:50]}"))
    if "baseline" not in params:
        raise InvalidRequest(Problem("baseline", "expected the id of the run to compare with"))
    runs = [await comparable_run(call, params["baseline"]), run]
    for one in runs:
        await call.audit_read(one)
    evaluations = fep_of(call).evaluations
    scores = [await stored_scores(evaluations, run, options) for run in runs]
    compared = await in_thread(lambda: compare_runs(scores, margin=margin, limit=limit))
    pair = await _explained(evaluations, runs, compared.comparisons[0])
    return answer(
        RunComparison(
            metric=compared.metric,
            lower_is_better=compared.lower_is_better,
            margin=margin,
            comparisons=(pair,),
        )
    )


def query_options(params: dict[str, str]) -> ReadOptions:
    """The metric and the groupings of a query."""
    names = [name for name in params.get("by", "").split(",") if name]
    groupings: tuple[Grouping, ...] = tuple(one for one in GROUPINGS if one in names)
    try:
        metric = read_metric(params["metric"]) if "metric" in params else None
        dimensions = {
            one.name: one for one in (read_dimension(name) for name in names if name not in groupings)
        }
    except UsageError as wrong:
        raise InvalidRequest(str(wrong).removeprefix("--")) from None
    if len(names) > 10:
        raise InvalidRequest(Problem("by", f"expected at most 10 names, got {len(names)}"))
    return ReadOptions(metric, tuple(dimensions.values()), groupings)


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


async def comparable_run(call: HttpRequest, id: str, limit: int = MAX_RESULTS) -> Run:
    """A run of the caller's tenant that can be compared here. It has at most `limit` results."""
    if not NAME.fullmatch(id):
        raise NotFound(f"there is no run {id[:128]!r}")
    run = await call.server.executor.get(id, call.tenant)
    require_comparable(run)
    results = run.metadata.get("total", 0) * run.metadata.get("trials", 1)
    if results > limit:
        message = f"{run.id} has {results:,} results; over HTTP at most {limit:,} are compared"
        raise InvalidRequest(f"{message}: use `assay compare`")
    return run


async def _explained(
    evaluations: EvaluationService, runs: Sequence[Run], pair: PairComparison
) -> PairComparison:
    """The comparison with the reasons of the cases that it lists."""
    if not pair.changes:
        return pair
    texts: list[dict[str, str]] = []
    for run in runs:
        reasons = CaseReasons(change.id for change in pair.changes)
        await use_lines(result_lines(evaluations, run), lambda line, to=reasons, of=run: to.add(line, of.id))
        texts.append(reasons.texts())
    return with_reasons(pair, *texts)
