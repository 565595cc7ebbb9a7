"""`assay admin gc`: remove the evidence of runs that are older than the retention policy of their tenant allows."""

from functools import partial

import msgspec

from assay import settings
from assay.cli.console.console import count_of, echo, echo_json
from assay.cli.stored_runs.run_list import with_evaluations
from assay.errors import UsageError
from assay.fep.records.erase import erase_by_retention
from assay.fep.records.service import EvaluationService
from assay.ports import SystemClock
from assay.promotion.states import evidence_runs
from assay.runs.retention import EvidenceRemoval, Reason, RetentionPass, RetentionReport, TenantReport

REASONS: dict[Reason, str] = {
    "open": "not ended",
    "newest": "among the newest",
    "deployment": "evidence of a deployment",
    "baseline": "baseline of a kept run",
    "parent": "part of a workflow that has not ended",
    "copy": "source of a copy that has not ended",
}


def main(*, tenant: str | None, dry_run: bool, limit: int, json: bool) -> None:
    retention = settings.load().retention
    if not retention.removes:
        raise UsageError("there is no retention policy: set evidence_days under [retention] in assay.toml")

    async def work(evaluations: EvaluationService) -> RetentionReport:
        deployed = partial(evidence_runs, evaluations.store)
        runs = RetentionPass(evaluations.store, retention, SystemClock().now(), deployed)
        erase = partial(erase_by_retention, evaluations)
        return await EvidenceRemoval(runs, erase, dry_run=dry_run, limit=limit).remove(tenant)

    report = with_evaluations(work)
    if json:
        echo_json(msgspec.json.encode(report))
        return
    for one in report.tenants:
        echo(f"{one.tenant or 'no tenant'}: {_sentence(one, dry_run=dry_run)}")
    if not report.tenants:
        echo("no run is older than its policy allows")
    if report.more:
        echo(f"stopped after {count_of(limit, 'run')}: run the command again for the rest")


def _sentence(report: TenantReport, *, dry_run: bool) -> str:
    count = len(report.removed)
    runs = count_of(count, "run")
    text = f"would remove the evidence of {runs}" if dry_run else f"removed the evidence of {runs}"
    kept = ", ".join(f"{many:,} {REASONS[reason]}" for reason, many in report.kept.items())
    return f"{text}; old runs that keep theirs: {kept}" if kept else text
