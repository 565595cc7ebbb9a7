"""`assay gc`: remove the evidence of runs that are older than the retention policy of their tenant allows."""

from collections import Counter
from datetime import datetime
from functools import partial

import msgspec
from msgspec import Struct

from assay import settings
from assay.cli.console import count_of, echo, echo_json
from assay.cli.runs import with_evaluations
from assay.errors import Conflict, UsageError
from assay.fep.records.erase import erase_by_retention
from assay.fep.records.service import EvaluationService
from assay.ports import Run, SystemClock
from assay.ports.config import Retention
from assay.promotion.states import evidence_runs
from assay.runs.retention import Reason, RetentionPass

ATTEMPTS = 10  # to remove a batch, while promotions are written
BATCH = 50  # runs; the stored responses of a tenant are read once for each batch
REASONS: dict[Reason, str] = {
    "open": "not ended",
    "newest": "among the newest",
    "deployment": "evidence of a deployment",
    "baseline": "baseline of a kept run",
    "parent": "part of a workflow that has not ended",
    "copy": "source of a copy that has not ended",
}


class TenantReport(Struct, rename="camel", kw_only=True):
    """What happened to the old runs of one tenant. `kept` counts those that keep their evidence, by reason."""

    tenant: str
    removed: list[str] = []
    kept: dict[Reason, int] = {}


class RetentionReport(Struct, rename="camel", kw_only=True):
    """The answer of `--json`. `more`: the limit was reached, and other runs may be old too."""

    dry_run: bool
    more: bool = False
    tenants: list[TenantReport] = []


def main(*, tenant: str | None, dry_run: bool, limit: int, json: bool) -> None:
    retention = settings.load().retention
    if not retention.removes:
        raise UsageError("there is no retention policy: set evidence_days under [retention] in assay.toml")
    collector = Collector(retention, SystemClock().now(), dry_run=dry_run, limit=limit)
    report = with_evaluations(lambda evaluations: collector.collect(evaluations, tenant))
    if json:
        echo_json(msgspec.json.encode(report))
        return
    for one in report.tenants:
        echo(f"{one.tenant or 'no tenant'}: {_sentence(one, dry_run=dry_run)}")
    if not report.tenants:
        echo("no run is older than its policy allows")
    if report.more:
        echo(f"stopped after {count_of(limit, 'run')}: run the command again for the rest")


class Collector:
    """Removes evidence in batches, and counts."""

    def __init__(self, retention: Retention, now: datetime, *, dry_run: bool, limit: int) -> None:
        self._retention, self._now, self._dry_run, self._limit = retention, now, dry_run, limit
        self._removed: dict[str, list[str]] = {}
        self._kept: dict[str, Counter[Reason]] = {}

    async def collect(self, evaluations: EvaluationService, tenant: str | None) -> RetentionReport:
        deployed = partial(evidence_runs, evaluations.store)
        runs = RetentionPass(evaluations.store, self._retention, self._now, deployed)
        batch: list[Run] = []
        chosen, more = 0, False
        async for run, reason in runs.choices(tenant):
            if reason is not None:
                self._keep(run, reason)
                continue
            if chosen == self._limit:
                more = True
                break
            chosen += 1
            batch.append(run)
            if len(batch) == BATCH:
                await self._remove(evaluations, runs, batch)
                batch = []
        await self._remove(evaluations, runs, batch)
        tenants = [
            TenantReport(
                tenant=name, removed=self._removed.get(name, []), kept=dict(self._kept.get(name, {}))
            )
            for name in sorted({*self._removed, *self._kept})
        ]
        return RetentionReport(dry_run=self._dry_run, more=more, tenants=tenants)

    async def _remove(self, evaluations: EvaluationService, runs: RetentionPass, batch: list[Run]) -> None:
        needed = await self._erase(evaluations, runs, batch)
        for run in batch:
            if run.id in needed:
                self._keep(run, "deployment")
            else:
                self._removed.setdefault(run.tenant, []).append(run.id)

    async def _erase(
        self, evaluations: EvaluationService, runs: RetentionPass, batch: list[Run]
    ) -> frozenset[str]:
        """
        Erase the batch except the runs that deployments name now, and return those. If one changes meanwhile, ask
        again.
        """
        attempt = 0
        while True:
            deployed = await runs.deployed(batch)
            needed = frozenset[str]().union(*(one.ids for one in deployed))
            removed = [run for run in batch if run.id not in needed]
            try:
                if removed and not self._dry_run:
                    await erase_by_retention(evaluations, removed, [one.unchanged for one in deployed])
                return needed
            except Conflict as conflict:
                attempt += 1
                if conflict.reason != "required" or attempt == ATTEMPTS:
                    raise

    def _keep(self, run: Run, reason: Reason) -> None:
        self._kept.setdefault(run.tenant, Counter())[reason] += 1


def _sentence(report: TenantReport, *, dry_run: bool) -> str:
    count = len(report.removed)
    runs = count_of(count, "run")
    text = f"would remove the evidence of {runs}" if dry_run else f"removed the evidence of {runs}"
    kept = ", ".join(f"{many:,} {REASONS[reason]}" for reason, many in report.kept.items())
    return f"{text}; old runs that keep theirs: {kept}" if kept else text
