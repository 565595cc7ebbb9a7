"""GET /v1/host/assay/runs/{run_id}/overview: the headline of one run of any kind, and what decided its verdict."""

from collections.abc import Sequence
from datetime import datetime
from statistics import median
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from assay.agenteval.detail import detail_of
from assay.agenteval.report import fold_safety
from assay.agenteval.run_header import KIND as EVAL
from assay.agenteval.run_header import EvalHeader
from assay.agenteval.run_header import read_request as read_eval
from assay.agenteval.safety_records import MODE
from assay.agenteval.scorecard import p95, verdict
from assay.fep.case_fold import CHECKS
from assay.fep.run_header import KIND as EVALUATION
from assay.fep.run_header import read_request as read_evaluation
from assay.fep.statistics import rates_by_k
from assay.ports import CLOSED, CaseBlock, CaseTotals, Run, Store
from assay.ports.cases import ERROR, FAILED, PASSED, SKIPPED, UNGRADED
from assay.runs.annotations import annotations, effective
from assay.runs.case_blocks import all_blocks
from assay.runs.case_table import CaseFilter, check_counts, entries, latencies_of
from assay.serve.openwop.host import host_of
from assay.serve.overview.access import any_run, overview_of
from assay.serve.overview.run_rows import SCORED, RunRow, RunRows, cases_total
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer
from assay.stats.repeats import pass_all_k
from assay.workers.threads import off_loop

MAX_SAFETY = 20_000  # trials whose findings are counted


class _Wire(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


class Bar(Struct, frozen=True, kw_only=True):
    """A threshold of the run. `decided`: because of it, the run did not pass."""

    name: str
    required: float
    observed: float | None
    met: bool
    decided: bool


class CheckColumn(Struct, frozen=True, kw_only=True):
    """A column of the matrix: the name of a check, or its type."""

    index: int
    label: str


class CheckStats(Struct, frozen=True, kw_only=True):
    """The outcomes of one check over all results."""

    index: int
    label: str
    passed: int = 0
    failed: int = 0
    ungraded: int = 0
    error: int = 0
    skipped: int = 0


class LatencySummary(Struct, frozen=True, kw_only=True, rename="camel"):
    median_ms: float | None
    p95_ms: float | None
    cases: int


class CostSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the run has spent. `total_usd` is null if a cost is unknown; `known_usd` is the sum of the known ones."""

    total_usd: float | None
    known_usd: float
    unknown: bool


class FindingCount(Struct, frozen=True, kw_only=True):
    kind: str
    severity: str
    count: int


class Unmeasured(Struct, frozen=True, kw_only=True, rename="camel"):
    """Cases without a measurement: an error, a skip, or the run ended before them."""

    error: int = 0
    skipped: int = 0
    never_reached: int = 0


class RunProgress(Struct, frozen=True, kw_only=True, rename="camel"):
    done: int
    total: int
    per_second: float | None
    seconds_left: float | None


class EffectiveResult(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result with the corrections of people. The recorded one stays."""

    score: float
    passed: bool | None
    passed_count: int
    corrected: tuple[str, ...]


class RepeatRate(Struct, frozen=True, kw_only=True):
    """The chance that k trials of a case all pass."""

    k: int
    rate: float
    low: float | None
    high: float | None


class RunOverview(_Wire, frozen=True, kw_only=True):
    run: RunRow
    bars: tuple[Bar, ...] = ()
    columns: tuple[CheckColumn, ...] = ()
    checks: tuple[CheckStats, ...] = ()
    latency: LatencySummary | None
    cost: CostSummary | None
    findings: tuple[FindingCount, ...] | UnsetType = UNSET
    unmeasured: Unmeasured
    progress: RunProgress | None
    effective: EffectiveResult | UnsetType = UNSET
    pass_k: tuple[RepeatRate, ...] | UnsetType = UNSET
    about: dict[str, Any]
    links: dict[str, str]


class TableNumbers(Struct, frozen=True, kw_only=True):
    """What the table of cases says of a run."""

    checks: tuple[CheckStats, ...] = ()
    latency: LatencySummary | None = None
    p95_ms: int | None = None
    pass_k: tuple[RepeatRate, ...] = ()


async def get_overview(call: HttpRequest) -> Response:
    call.query()
    run = await any_run(call)
    await call.audit_read(run, content=False)
    rows, now = overview_of(call).rows, call.server.clock.now()
    return answer(await read_overview(call.server.store, rows, run, now, feedback=host_of(call).feedback))


async def read_overview(
    store: Store, rows: RunRows, run: Run, now: datetime, *, feedback: bool
) -> RunOverview:
    """The numbers of a run. With `feedback`, those with the corrections of people too."""
    (row,) = await rows.rows([run], now)
    if run.kind not in SCORED or run.erased:
        return RunOverview(
            run=row,
            latency=None,
            cost=None,
            unmeasured=Unmeasured(),
            progress=None,
            about={},
            links=_links(run),
        )
    header = await read_eval(store, run.id) if run.kind == EVAL else None
    totals = (await store.case_totals([run.id])).get(run.id, CaseTotals())
    blocks = await all_blocks(store, run.id)
    labels, trials = labels_of(run), int(run.metadata.get("trials", 1))
    numbers = await off_loop(
        _size(blocks), lambda: table_numbers(blocks, trials, labels, complete=run.status in CLOSED)
    )
    changed = await _effective(store, run) if run.kind == EVAL and feedback else UNSET
    return RunOverview(
        run=row,
        bars=_bars(header, run, numbers, totals) if header else (),
        columns=tuple(CheckColumn(index=at, label=label) for at, label in enumerate(labels)),
        checks=numbers.checks,
        latency=numbers.latency,
        cost=CostSummary(
            total_usd=None if totals.unknown else round(totals.spent, 12),
            known_usd=round(totals.spent, 12),
            unknown=totals.unknown > 0,
        ),
        findings=await _findings(store, run, totals) if header and MODE in header.modes else UNSET,
        unmeasured=_unmeasured(run, row),
        progress=_progress(run, row, now),
        effective=changed,
        pass_k=numbers.pass_k or UNSET,
        about=await _about(store, run, header),
        links=_links(run),
    )


def labels_of(run: Run) -> list[str]:
    """The columns of the matrix of a run."""
    return list(run.metadata.get(CHECKS, ()))


def _size(blocks: Sequence[CaseBlock]) -> int:
    return sum(len(block.data) for block in blocks)


def table_numbers(
    blocks: Sequence[CaseBlock], trials: int, labels: Sequence[str], *, complete: bool
) -> TableNumbers:
    counts = check_counts(blocks, len(labels))
    checks = tuple(
        CheckStats(
            index=at,
            label=label,
            passed=counts[at][PASSED],
            failed=counts[at][FAILED],
            ungraded=counts[at][UNGRADED],
            error=counts[at][ERROR],
            skipped=counts[at][SKIPPED],
        )
        for at, label in enumerate(labels)
    )
    latencies = latencies_of(blocks)
    latency = None
    if latencies:
        latency = LatencySummary(median_ms=median(latencies), p95_ms=_p95(latencies), cases=len(latencies))
    repeats = tuple[RepeatRate, ...]()
    if trials > 1:
        clusters: dict[tuple[int, int], int] = {}
        for case in entries(blocks, trials, CaseFilter(), complete=complete):
            decided = case.count(PASSED) + case.count(FAILED)
            if decided and case.status not in (ERROR, SKIPPED):
                key = case.count(PASSED), decided
                clusters[key] = clusters.get(key, 0) + 1
        repeats = tuple(
            RepeatRate(k=int(k), rate=rate.rate, low=rate.low, high=rate.high)
            for k, rate in rates_by_k(clusters, pass_all_k).items()
        )
    return TableNumbers(checks=checks, latency=latency, p95_ms=_p95(latencies), pass_k=repeats)


def _p95(latencies: Sequence[float]) -> int | None:
    return p95(map(round, latencies))


def _bars(header: EvalHeader, run: Run, numbers: TableNumbers, totals: CaseTotals) -> tuple[Bar, ...]:
    """The thresholds of an eval. A run without a verdict has no bar that decided."""
    bars, score = header.thresholds, run.facts.score
    cost = None if totals.unknown else round(totals.spent, 12)
    judged = None if score is None else verdict(score, cost, numbers.p95_ms, bars, header.pass_score)
    failed: tuple[str, ...] = judged.failed if judged is not None and run.facts.passed is False else ()
    rows: list[tuple[str, float, float | None, bool]] = [
        ("passScore", header.pass_score, score, score is not None and score >= header.pass_score)
    ]
    if bars.max_cost_usd is not UNSET:
        rows.append(("maxCostUsd", bars.max_cost_usd, cost, cost is not None and cost <= bars.max_cost_usd))
    if bars.max_p95_latency_ms is not UNSET:
        late = numbers.p95_ms is not None and numbers.p95_ms > bars.max_p95_latency_ms
        rows.append(("maxP95LatencyMs", bars.max_p95_latency_ms, numbers.p95_ms, not late))
    return tuple(
        Bar(name=name, required=required, observed=observed, met=met, decided=name in failed)
        for name, required, observed, met in rows
    )


async def _findings(store: Store, run: Run, totals: CaseTotals) -> tuple[FindingCount, ...] | UnsetType:
    """The findings by kind; absent for a run that is too large to count them in a request."""
    if totals.results > MAX_SAFETY:
        return UNSET
    report = (await fold_safety(store, run, _Everything())).report()
    return tuple(
        FindingCount(kind=kind.kind, severity=kind.severity, count=kind.found)
        for kind in report.kinds
        if kind.found
    )


class _Everything:
    """Contains every task."""

    def __contains__(self, task: object) -> bool:
        return True


def _unmeasured(run: Run, row: RunRow) -> Unmeasured:
    counts, total = row.counts, cases_total(run)
    error, skipped = (counts.error, counts.skipped) if counts else (0, 0)
    done = sum((counts.passed, counts.failed, counts.ungraded, error, skipped)) if counts else 0
    never = max(0, (total or 0) - done) if run.status in CLOSED else 0
    return Unmeasured(error=error, skipped=skipped, never_reached=never)


def _progress(run: Run, row: RunRow, now: datetime) -> RunProgress | None:
    if run.status in CLOSED:
        return None
    counts, total = row.counts, cases_total(run) or 0
    done = sum((counts.passed, counts.failed, counts.ungraded, counts.error, counts.skipped)) if counts else 0
    seconds = (now - run.started).total_seconds() if run.started else 0.0
    speed = done / seconds if done and seconds > 0 else None
    left = round((total - done) / speed, 1) if speed and total >= done else None
    return RunProgress(done=done, total=total, per_second=speed and round(speed, 3), seconds_left=left)


async def _effective(store: Store, run: Run) -> EffectiveResult | UnsetType:
    corrections = effective(await annotations(store, run))
    if not corrections:
        return UNSET
    found = (await detail_of(store, run, corrections, first=0, limit=0, max_reasons=0)).effective
    if found is UNSET:
        return UNSET
    passed = None if found.verdict is None else found.verdict.passed
    return EffectiveResult(
        score=found.score, passed=passed, passed_count=found.passed_count, corrected=found.corrected
    )


async def _about(store: Store, run: Run, header: EvalHeader | None) -> dict[str, Any]:
    """The provenance of the result, which is not content of a case."""
    if header is None:
        request = await read_evaluation(store, run.id)
        agent = {"agent": request.agent.agent_id} if request.agent else {}
        return agent | ({"experiment": request.experiment} if request.experiment else {})
    found = {
        "judge": header.judge,
        "suiteDigest": header.suite_digest,
        "agentPack": f"{header.definition.pack}@{header.definition.version}" if header.definition else None,
        "suiteSource": header.suite_source,
    }
    return {name: value for name, value in found.items() if value}


def _links(run: Run) -> dict[str, str]:
    """The addresses of what else there is about the run."""
    if run.kind == EVALUATION:
        base = f"/v1/evaluations/{run.id}"
        links = {"events": f"{base}/events", "result": base}
        return links if run.status in CLOSED else links | {"cancel": f"{base}:cancel"}
    base, host = f"/v1/runs/{run.id}", f"/v1/host/assay/runs/{run.id}"
    links = {"events": f"{base}/events", "result": base, "annotations": f"{base}/annotations"}
    links |= {"report": f"{host}/eval-report"} if run.kind == EVAL else {}
    links |= {"verification": f"{host}/verification"} if run.kind == "workflow" else {}
    return links if run.status in CLOSED else links | {"cancel": f"{base}/cancel"}
