"""GET /v1/host/assay/runs/{run_id}/overview: the headline of one run of any kind, and what decided its verdict."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from assay.agenteval.planning.run_header import KIND as EVAL
from assay.agenteval.planning.run_header import TASKS_OF_SUITE, EvalHeader
from assay.agenteval.planning.run_header import read_request as read_eval
from assay.agenteval.results.safety_report import NotLookedFor
from assay.agenteval.results.scorecard import verdict
from assay.agenteval.scoring.safety import wants_judge
from assay.agenteval.scoring.safety_records import MODE
from assay.cases.fold import CHECKS
from assay.cases.pages import all_blocks
from assay.cases.table import check_counts
from assay.checks import JUDGE_TYPES
from assay.concurrency.threads import in_thread, off_loop
from assay.fep.records.evaluation_statistics import FEW, read_tally
from assay.fep.records.run_header import KIND as EVALUATION
from assay.fep.records.run_header import read_request as read_evaluation
from assay.ports import CLOSED, CaseBlock, CaseTotals, Run, Store
from assay.ports.cases import ERROR, FAILED, PASSED, SKIPPED, UNGRADED
from assay.protocol.json_types import is_list, is_object
from assay.results.run_part import CASES_OF_DATA, part_in
from assay.runs.run_statistics import CaseCounts, Cost, Latency, RunStatistics
from assay.serve.openwop.host import host_of
from assay.serve.overview.access import any_run, overview_of
from assay.serve.overview.effective import EffectiveResult, effective_result
from assay.serve.overview.last_look import LookSummary, look_summary
from assay.serve.overview.run_rows import SCORED, RunRow, RunRows
from assay.serve.overview.run_safety import AttackSuccess, FindingCount, read_safety
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer
from assay.stats.number_text import format_usd, milliseconds_text, percent, range_text, score_text, value_text


class _Wire(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


class Bar(Struct, frozen=True, kw_only=True, rename="camel"):
    """A threshold of the run. `decided`: because of it, the run did not pass."""

    name: str
    required: float
    required_text: str
    observed: float | None
    observed_text: str | None
    met: bool
    decided: bool


class CheckColumn(Struct, frozen=True, kw_only=True):
    """A column of the matrix: the name of a check, or its type."""

    index: int
    label: str


class CheckStats(Struct, frozen=True, kw_only=True, rename="camel"):
    """The outcomes of one check over all results. `rateText` is its pass rate over cases; a dash if there is none."""

    index: int
    label: str
    rate_text: str
    passed: int = 0
    failed: int = 0
    ungraded: int = 0
    error: int = 0
    skipped: int = 0


class LatencySummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """The latency of the measured results. `p95Ms` is the 95th percentile by nearest rank."""

    median_ms: float
    p95_ms: float
    cases: int
    median_text: str
    p95_text: str


class CostSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the run has spent. `total_usd` is null if a cost is unknown; `known_usd` is the sum of the known ones."""

    total_usd: float | None
    known_usd: float
    unknown: bool
    text: str


class Unmeasured(Struct, frozen=True, kw_only=True, rename="camel"):
    """Cases without a measurement: an error, a skip, or the run ended before them."""

    error: int = 0
    skipped: int = 0
    never_reached: int = 0


class RunProgress(Struct, frozen=True, kw_only=True, rename="camel"):
    """`total` is null as long as a command has not read its file to the end."""

    done: int
    total: int | None
    per_second: float | None
    seconds_left: float | None


class RepeatRate(Struct, frozen=True, kw_only=True):
    """The chance that k trials of a case all pass."""

    k: int
    rate: float
    low: float | None
    high: float | None
    text: str
    range: str


class RunOverview(_Wire, frozen=True, kw_only=True):
    run: RunRow
    bars: tuple[Bar, ...] = ()
    columns: tuple[CheckColumn, ...] = ()
    checks: tuple[CheckStats, ...] = ()
    latency: LatencySummary | None
    cost: CostSummary | None
    attack: AttackSuccess | UnsetType = UNSET
    findings: tuple[FindingCount, ...] | UnsetType = UNSET
    not_looked_for: tuple[NotLookedFor, ...] = ()  # kinds that only a judge sees, in the mode adversarial
    unmeasured: Unmeasured
    progress: RunProgress | None
    effective: EffectiveResult | UnsetType = UNSET
    pass_k: tuple[RepeatRate, ...] | UnsetType = UNSET
    until: LookSummary | UnsetType = UNSET
    about: dict[str, Any]
    links: dict[str, str]


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
    header = await read_eval(store, run) if run.kind == EVAL else None
    totals = (await store.case_totals([run.id])).get(run.id, CaseTotals())
    statistics = await rows.statistics(run, totals) or RunStatistics()
    blocks, labels = await all_blocks(store, run.id), labels_of(run)
    rates = await check_rates(store, run)
    checks = await off_loop(_size(blocks), lambda: check_stats(blocks, labels, rates))
    changed = await effective_result(store, run, statistics, blocks) if feedback else UNSET
    safety = (
        await read_safety(store, run, header, totals.results) if header and MODE in header.modes else None
    )
    return RunOverview(
        run=row,
        bars=_bars(header, run, statistics) if header else (),
        columns=tuple(CheckColumn(index=at, label=label) for at, label in enumerate(labels)),
        checks=checks,
        latency=_latency(statistics.latency),
        cost=_cost(statistics.cost),
        attack=UNSET if safety is None or safety.attack is None else safety.attack,
        findings=UNSET if safety is None or safety.findings is None else safety.findings,
        not_looked_for=() if safety is None else safety.not_looked_for,
        unmeasured=_unmeasured(run, row),
        progress=_progress(run, row, statistics.cases, now),
        effective=changed,
        pass_k=_repeats(statistics) or UNSET,
        until=look_summary(run),
        about=await _about(store, run, header),
        links=_links(run) | await _review_link(store, run, header),
    )


def _latency(latency: Latency | None) -> LatencySummary | None:
    if latency is None:
        return None
    return LatencySummary(
        median_ms=latency.median_ms,
        p95_ms=latency.p95_ms,
        cases=latency.results,
        median_text=latency.median_text,
        p95_text=latency.p95_text,
    )


def _cost(cost: Cost | None) -> CostSummary | None:
    if cost is None:
        return None
    return CostSummary(
        total_usd=cost.total_usd, known_usd=cost.known_usd, unknown=cost.unknown > 0, text=cost.text
    )


def _repeats(statistics: RunStatistics) -> tuple[RepeatRate, ...]:
    return tuple(
        RepeatRate(
            k=int(k),
            rate=rate.rate,
            low=rate.low,
            high=rate.high,
            text=value_text(rate.rate, "rate"),
            range=range_text(rate.low, rate.high, "rate"),
        )
        for k, rate in statistics.pass_k.items()
    )


def labels_of(run: Run) -> list[str]:
    """The columns of the matrix of a run."""
    return list(run.metadata.get(CHECKS, ()))


def _size(blocks: Sequence[CaseBlock]) -> int:
    return sum(len(block.data) for block in blocks)


async def check_rates(store: Store, run: Run) -> dict[str, float]:
    """The pass rate of each check of an evaluation, by its label. Checks of an agent eval have none."""
    if run.kind != EVALUATION or len(labels_of(run)) < 1:
        return {}
    tally = await read_tally(store, run)
    statistics = await in_thread(tally.statistics) if tally.cases > FEW else tally.statistics()
    checks = statistics.checks if statistics else {}
    return {label: check.pass_rate.rate for label, check in checks.items() if check.pass_rate}


def check_stats(
    blocks: Sequence[CaseBlock], labels: Sequence[str], rates: Mapping[str, float]
) -> tuple[CheckStats, ...]:
    """The outcomes of each check over all results."""
    counts = check_counts(blocks, len(labels))
    return tuple(
        CheckStats(
            index=at,
            label=label,
            rate_text=_rate_text(rates.get(label), counts[at]),
            passed=counts[at][PASSED],
            failed=counts[at][FAILED],
            ungraded=counts[at][UNGRADED],
            error=counts[at][ERROR],
            skipped=counts[at][SKIPPED],
        )
        for at, label in enumerate(labels)
    )


def _rate_text(rate: float | None, counts: Counter[str]) -> str:
    decided = counts[PASSED] + counts[FAILED]
    if not decided:
        return "–"
    return percent(counts[PASSED] / decided if rate is None else rate)


def _bars(header: EvalHeader, run: Run, statistics: RunStatistics) -> tuple[Bar, ...]:
    """The thresholds of an eval. A run without a verdict has no bar that decided."""
    bars, score = header.thresholds, statistics.score.value if statistics.score else None
    cost = statistics.cost.total_usd if statistics.cost else None
    late = int(statistics.latency.p95_ms) if statistics.latency else None
    judged = None if score is None else verdict(score, cost, late, bars, header.pass_score)
    failed: tuple[str, ...] = judged.failed if judged is not None and run.facts.passed is False else ()
    rows: list[tuple[str, float, float | None, bool]] = [
        ("passScore", header.pass_score, score, score is not None and score >= header.pass_score)
    ]
    if bars.max_cost_usd is not UNSET:
        rows.append(("maxCostUsd", bars.max_cost_usd, cost, cost is not None and cost <= bars.max_cost_usd))
    if bars.max_p95_latency_ms is not UNSET:
        met = late is None or late <= bars.max_p95_latency_ms
        rows.append(("maxP95LatencyMs", bars.max_p95_latency_ms, late, met))
    return tuple(
        Bar(
            name=name,
            required=required,
            required_text=_BAR_TEXT[name](required),
            observed=observed,
            observed_text=None if observed is None else _BAR_TEXT[name](observed),
            met=met,
            decided=name in failed,
        )
        for name, required, observed, met in rows
    )


_BAR_TEXT: dict[str, Callable[[float], str]] = {
    "passScore": score_text,
    "maxCostUsd": format_usd,
    "maxP95LatencyMs": milliseconds_text,
}


def _unmeasured(run: Run, row: RunRow) -> Unmeasured:
    counts = row.counts or CaseCounts()
    error, skipped = counts.error, counts.skipped
    never = max(0, (row.total or 0) - counts.all) if run.status in CLOSED else 0
    return Unmeasured(error=error, skipped=skipped, never_reached=never)


def _progress(run: Run, row: RunRow, done: int, now: datetime) -> RunProgress | None:
    if run.status in CLOSED:
        return None
    total = row.total
    seconds = (now - run.started).total_seconds() if run.started else 0.0
    speed = done / seconds if done and seconds > 0 else None
    left = round((total - done) / speed, 1) if speed and total is not None and total >= done else None
    return RunProgress(done=done, total=total, per_second=speed and round(speed, 3), seconds_left=left)


async def _about(store: Store, run: Run, header: EvalHeader | None) -> dict[str, Any]:
    """The provenance of the result, which is not content of a case, and which part of its cases it has."""
    part = part_in(run.metadata)
    chosen = {"part": part.text(TASKS_OF_SUITE if header else CASES_OF_DATA)} if part else {}
    if header is None:
        request = await read_evaluation(store, run.id)
        agent = {"agent": request.agent.agent_id} if request.agent else {}
        about = chosen | agent | ({"experiment": request.experiment} if request.experiment else {})
        return about | ({"command": request.command} if request.command else {})
    found = chosen | {
        "judge": header.judge,
        "suiteDigest": header.suite_digest,
        "agentPack": f"{header.definition.pack}@{header.definition.version}" if header.definition else None,
        "suiteSource": header.suite_source,
        "command": header.provenance.command,
    }
    return {name: value for name, value in found.items() if value}


def _links(run: Run) -> dict[str, str]:
    """The addresses of what else there is about the run."""
    if run.kind == EVALUATION:
        base = f"/v1/evaluations/{run.id}"
        links = {"events": f"{base}/events", "result": base, "annotations": f"{base}/annotations"}
        return links if run.status in CLOSED else links | {"cancel": f"{base}:cancel"}
    base, host = f"/v1/runs/{run.id}", f"/v1/host/assay/runs/{run.id}"
    links = {"events": f"{base}/events", "result": base, "annotations": f"{base}/annotations"}
    links |= {"report": f"{host}/eval-report"} if run.kind == EVAL else {}
    links |= {"verification": f"{host}/verification"} if run.kind == "workflow" else {}
    return links if run.status in CLOSED else links | {"cancel": f"{base}/cancel"}


async def _review_link(store: Store, run: Run, header: EvalHeader | None) -> dict[str, str]:
    """Of a run with a judge that people can review. Checks that cases bring may ask one."""
    if header is None:
        request = await read_evaluation(store, run.id)
        judged = request.own > 0 or _asks_judge(request.checks)
    else:
        judged = not JUDGE_TYPES.isdisjoint(labels_of(run)) or wants_judge(header.policy)
    return {"review": f"/v1/host/assay/runs/{run.id}/review"} if judged and run.status in CLOSED else {}


def _asks_judge(checks: Any) -> bool:
    """Whether a check of the stored request has the type of a judge; checks may be one list for each case."""
    if is_list(checks):
        return any(map(_asks_judge, checks))
    return is_object(checks) and checks.get("type") in JUDGE_TYPES
