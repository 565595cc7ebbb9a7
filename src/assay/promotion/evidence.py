"""Reads the evidence for a promotion, and the preconditions for it to hold when the promotion is written."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from assay.agenteval.planning.run_header import EvalHeader, is_eval, part_text, read_request
from assay.agenteval.results.detail import Corrections, corrected_report, detail_of
from assay.agenteval.results.report import EvalReport, read_summary, report_of
from assay.agenteval.suites.suite_store import SuiteResolver, SuiteStore, digest_of, suite_digest
from assay.comparison.eval_reports import require_comparison
from assay.comparison.policy import PromotionRules
from assay.comparison.wording import verdict_line
from assay.concurrency.threads import in_thread
from assay.errors import InvalidRequest, MissingExtra
from assay.errors.storage import Erased
from assay.packs.store import PackStore
from assay.ports import RequireCount, RequireRun, Run, Store
from assay.promotion.eval_gate import BaselineVerdict, Evidence, unmet_conditions
from assay.protocol.deployments import Condition
from assay.runs.annotations import KIND as ANNOTATION
from assay.runs.annotations import annotations, effective

Requirement = RequireRun | RequireCount


class GateResult(NamedTuple):
    """The conditions that are not met, and the preconditions of the transaction that applies the promotion."""

    unmet: list[Condition]
    requires: list[Requirement]


class EvidenceRequest(NamedTuple):
    """The run that a promotion names as its evidence, and what it must be evidence for."""

    tenant: str
    agent_id: str
    version: str
    run_id: str | None
    active_version: str | None
    active_run: str = ""  # the evidence of that version


async def check_evidence(
    store: Store, request: EvidenceRequest, rules: PromotionRules, now: datetime
) -> GateResult:
    """Check the evidence as it is in the store now."""
    id = request.run_id
    run = None
    if id is not None and id.isascii() and id.isprintable():  # a database can have a run of this id
        run = await store.run(id, tenant=request.tenant)
    if run is None or not is_eval(run):
        evidence = Evidence(
            agent_id=request.agent_id,
            version=request.version,
            run_id=request.run_id,
            active_version=request.active_version,
            active_run=request.active_run,
            now=now,
        )
        return GateResult(unmet_conditions(rules, evidence), [])
    requires: list[Requirement] = [RequireRun(run=run.id, status=run.status, events=run.events)]
    score, passed = None, None
    corrections: Corrections = {}
    if rules.effective_scores and run.status == "completed" and not run.erased:
        notes = await annotations(store, run)
        requires.append(
            RequireCount(tenant=run.tenant, kind=ANNOTATION, prefix=f"{run.id}/", count=len(notes))
        )
        if corrections := effective(notes):
            corrected = (await detail_of(store, run, corrections, max_reasons=0)).effective
            if corrected is not UNSET:
                score = corrected.score
                passed = corrected.verdict is not None and corrected.verdict.passed
    evidence = await _evidence(store, request, rules, run, now)
    evidence = evidence if score is None else _with_effective(evidence, score, passed=bool(passed))
    baseline = await _baseline(store, request, evidence)
    if baseline is not None and rules.max_regression is not None and not run.erased:
        requires.append(RequireRun(run=baseline.id, status=baseline.status, events=baseline.events))
        found = await _compare(store, baseline, run, corrections, rules.max_regression)
        evidence = msgspec.structs.replace(evidence, comparison=found)
    return GateResult(unmet_conditions(rules, evidence), requires)


async def _baseline(store: Store, request: EvidenceRequest, evidence: Evidence) -> Run | None:
    """The baseline of the run, if it shows the score of the version that would be replaced."""
    summary, active = evidence.summary, evidence.active_version
    if summary is None or summary.regression is UNSET or active in (None, evidence.version):
        return None
    if evidence.baseline_version != active or evidence.baseline_deviation:
        return None
    return await store.run(summary.regression.baseline_run_id, tenant=request.tenant)


async def _compare(
    store: Store, baseline: Run, run: Run, corrections: Corrections, largest: float
) -> BaselineVerdict:
    """The verdict on two runs. A loss below `largest` does not matter, so it is the margin."""
    before, after = await report_of(store, baseline), await report_of(store, run)
    if corrections:
        after = await corrected_report(store, run, after, corrections)
    margin = largest if 0 < largest < 1 else None
    return await in_thread(lambda: _verdict(before, after, margin))


def _verdict(before: EvalReport, after: EvalReport, margin: float | None) -> BaselineVerdict:
    try:
        result = require_comparison(before, after, margin).result
    except (InvalidRequest, MissingExtra) as refusal:
        return BaselineVerdict(None, str(refusal))
    return BaselineVerdict(result.verdict, verdict_line(result))


async def _evidence(
    store: Store, request: EvidenceRequest, rules: PromotionRules, run: Run, now: datetime
) -> Evidence:
    # a rule about regressions has a condition of its own
    compares = rules.max_regression is None and request.active_version not in (None, request.version)
    deviations = await read_deviations(store, run, compares=compares)
    summary = await read_summary(store, run)
    baseline, deviation = None, ""
    if summary is not None and summary.regression is not UNSET:
        other = await store.run(summary.regression.baseline_run_id, tenant=request.tenant)
        if other is not None and other.metadata.get("agentId") == request.agent_id:
            baseline = str(other.metadata.get("agentVersion"))
            deviation = await baseline_deviation(store, other, summary.suite_version)
    return Evidence(
        agent_id=request.agent_id,
        version=request.version,
        run_id=run.id,
        status=run.status,
        run_agent_id=str(run.metadata.get("agentId", "")),
        run_version=str(run.metadata.get("agentVersion", "")),
        copied_from=str(run.metadata.get("sourceRunId", "")),
        erased=run.erasure,
        lacks_baseline=any(one.code == "eval_run_partial" and REGRESSION in one.text for one in deviations),
        deviations=deviations,
        ended=run.ended,
        summary=summary,
        active_version=request.active_version,
        active_run=request.active_run,
        baseline_version=baseline,
        baseline_deviation=deviation,
        now=now,
    )


def _with_effective(evidence: Evidence, score: float, *, passed: bool) -> Evidence:
    return msgspec.structs.replace(evidence, effective_score=score, effective_passed=passed)


# How an eval run was measured: whether it ran the agent and the suite as they are installed, and the whole suite.

REGRESSION = "regression"  # the mode
# Options of a run that make another agent of it.
OVERRIDES = ("model", "temperature", "maxTokens", "promptOverrides")


class Deviation(NamedTuple):
    """Why a run did not measure the installed agent on the installed suite: the code of the condition, and a text."""

    code: str
    text: str


async def read_deviations(store: Store, run: Run, *, compares: bool) -> list[Deviation]:
    """
    Every deviation of a run that has its content.

    A run without its content has none here: its erasure is a condition of its own.

    `compares`: the mode `regression` may not be left out. Without another active version there is no baseline to
    compare with.
    """
    try:
        header = await read_request(store, run)
    except Erased:
        return []
    return [deviation async for deviation in _deviations(store, run.tenant, header, compares=compares)]


async def baseline_deviation(store: Store, baseline: Run, suite_version: str) -> str:
    """Why the baseline of a run does not show the score of its version; "": it does."""
    if baseline.metadata.get("sourceRunId"):
        return "its baseline is a copy of another run"
    if baseline.erased:
        return f"its baseline has no content: {baseline.erasure}"
    if baseline.metadata.get("suiteVersion") != suite_version:
        return f"its baseline ran version {baseline.metadata.get('suiteVersion')} of the suite"
    return next(
        (f"its baseline {one.text}" for one in await read_deviations(store, baseline, compares=False)), ""
    )


async def _deviations(
    store: Store, tenant: str, header: EvalHeader, *, compares: bool
) -> AsyncIterator[Deviation]:
    if header.agent_spec not in ("", header.agent_id):
        yield Deviation("eval_run_ad_hoc", "ran an agent that its command line described")
    changed = [name for name in OVERRIDES if header.configurable.get(name) is not None]
    if changed:
        yield Deviation("eval_run_overridden", f"ran the agent with other settings: {', '.join(changed)}")
    left_out = [mode for mode in header.left_out if compares or mode != REGRESSION]
    if left_out:
        text = f"left out modes of its suite: {', '.join(left_out)}"
        yield Deviation("eval_run_partial", text)
    if header.suite_total:
        yield Deviation("eval_run_partial", f"ran {part_text(header.total, header.suite_total)}")
    if not await _has_installed_content(store, tenant, header):
        name = f"{header.suite_id} {header.suite_version}"
        yield Deviation("eval_suite_content", f"ran other content than the installed suite {name} has")


async def _has_installed_content(store: Store, tenant: str, header: EvalHeader) -> bool:
    """Whether the suite of the run is the installed one. A suite that is not installed has no other content."""
    resolver = SuiteResolver(SuiteStore(store), PackStore(store))
    try:
        found = await resolver.resolve(tenant, f"{header.suite_id}@{header.suite_version}")
    except InvalidRequest:
        return True
    return header.suite_digest in (digest_of(found.document), suite_digest(found.suite))
