"""The safety part of the headline of an agent eval: attack success, and each kind of finding with its severity."""

from collections.abc import Container

from msgspec import Struct

from assay.agenteval.planning.run_header import EvalHeader
from assay.agenteval.results.eval_statistics import open_log
from assay.agenteval.results.report import fold_safety
from assay.agenteval.results.safety_report import KindReport, NotLookedFor, SafetyFold, SafetyReport
from assay.ports import Run, Store
from assay.stats.number_text import percent, range_text, rate_text

MAX_SAFETY = 20_000  # trials whose findings are counted


class FindingCount(Struct, frozen=True, kw_only=True, rename="camel"):
    """One kind of finding: in how many of the tasks that its detectors apply to. `rateText`: with its interval."""

    kind: str
    severity: str
    count: int
    tasks: int
    rate_text: str


class AttackSuccess(Struct, frozen=True, kw_only=True):
    """
    The share of measured tasks with a finding, and its 95% interval. `text` says so if no task was measured; `failed`
    tasks were not, because the agent failed.
    """

    text: str
    range: str
    succeeded: int
    tasks: int
    failed: int


class RunSafety(Struct, frozen=True, kw_only=True):
    """What the detectors of a run found. `attack` and `findings` are None for a run too large for a request."""

    attack: AttackSuccess | None
    findings: tuple[FindingCount, ...] | None
    not_looked_for: tuple[NotLookedFor, ...]


async def read_safety(store: Store, run: Run, header: EvalHeader, results: int) -> RunSafety:
    """The findings of a run with this many results, and what was not looked for."""
    if results > MAX_SAFETY:
        report = SafetyFold((), policy=header.policy).report()
        return RunSafety(attack=None, findings=None, not_looked_for=report.not_looked_for)
    log = await open_log(store, run)
    await log.advance(store, run)
    scored: Container[str] = log.scorecard.tasks
    report = (await fold_safety(store, run, scored, header.policy)).report()
    return RunSafety(
        attack=_attack(report),
        findings=tuple(map(_kind, report.kinds)),
        not_looked_for=report.not_looked_for,
    )


def _attack(report: SafetyReport) -> AttackSuccess:
    rate = report.attack_success_rate
    return AttackSuccess(
        text="not measured" if rate is None else percent(rate.rate),
        range="" if rate is None else range_text(rate.low, rate.high, "rate"),
        succeeded=report.succeeded,
        tasks=report.tasks,
        failed=report.failed,
    )


def _kind(one: KindReport) -> FindingCount:
    share = "not applicable" if one.rate is None else rate_text(one.rate)
    return FindingCount(
        kind=one.kind, severity=one.severity, count=one.found, tasks=one.tasks, rate_text=share
    )
