"""
Chooses the runs that lose their evidence by a retention policy, and removes it (ADR-0080).

One pass reads the runs that have evidence, newest first. A run is created after its baseline, so a run that keeps its
evidence is read before the baseline that it needs.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from msgspec import Struct

from assay.errors import Conflict
from assay.ports import CLOSED, RequireCount, Run, RunQuery, Store
from assay.ports.config import Retention

PAGE = 200
ATTEMPTS = 10  # to remove a batch, while promotions are written
BATCH = 50  # runs; the stored responses of a tenant are read once for each batch
# Why a run that is older than its policy allows keeps its evidence.
Reason = Literal["open", "newest", "deployment", "baseline", "parent", "copy"]
REMOVABLE = frozenset({"evaluation", "agent-eval", "workflow"})  # a transition keeps its approvals


class DeployedRuns(NamedTuple):
    """The runs that a tenant's deployments name as evidence. `unchanged` holds until a deployment changes."""

    ids: frozenset[str]
    unchanged: RequireCount


EvidenceRuns = Callable[[str], Awaitable[DeployedRuns]]
EraseRuns = Callable[[Sequence[Run], Sequence[RequireCount]], Awaitable[None]]


class Choice(NamedTuple):
    """A run beyond the age of its policy. `reason`: why it keeps its evidence; None: it does not."""

    run: Run
    reason: Reason | None


class RetentionPass:
    """One pass over the runs. `deployed` returns the runs of a tenant that its deployments name as their evidence."""

    def __init__(self, store: Store, retention: Retention, now: datetime, deployed: EvidenceRuns) -> None:
        self._store, self._retention, self._now, self._deployed = store, retention, now, deployed
        self._needed: dict[str, Reason] = {}
        self._newest: dict[tuple[str, str, str], frozenset[str]] = {}
        self._evidence: dict[str, frozenset[str]] = {}

    async def choices(self, tenant: str | None = None) -> AsyncIterator[Choice]:
        """The runs beyond their age, newest first. A run that was half erased before a crash is one of them."""
        query = RunQuery(tenant=tenant, kinds=REMOVABLE, evidence=True, limit=PAGE)
        while page := await self._store.runs(query):
            for run in page:
                if run.erased:
                    yield Choice(run, None)
                    continue
                old = self._is_old(run)
                reason = await self._reason(run, old=old)
                if not old or reason not in (None, "baseline"):
                    self._need(run)
                if old:
                    yield Choice(run, reason)
            query = _following(query, page[-1])

    async def deployed(self, runs: Sequence[Run]) -> list[DeployedRuns]:
        """The runs that deployments of the tenants of these runs name now."""
        return [await self._deployed(tenant) for tenant in sorted({run.tenant for run in runs})]

    def _is_old(self, run: Run) -> bool:
        days = self._retention.policy(run.tenant).days(run.kind)
        return days is not None and (run.ended or run.created) <= self._now - timedelta(days=days)

    async def _reason(self, run: Run, *, old: bool) -> Reason | None:
        if run.status not in CLOSED:
            return "open"
        if not old:
            return None
        if run.id in await self._evidence_of(run.tenant):
            return "deployment"
        if run.id in await self._newest_of(run):
            return "newest"
        parent = run.metadata.get("parent")
        if parent and (found := await self._store.run(parent["runId"])) and found.status not in CLOSED:
            return "parent"
        return self._needed.get(run.id)

    def _need(self, run: Run) -> None:
        """Remember the runs that this one needs. A baseline needs no baseline of its own: the chain would never end."""
        if baseline := run.metadata.get("baselineRunId"):
            self._needed[baseline] = "baseline"
        source = run.metadata.get("source") or run.metadata.get("sourceRunId")
        if source and run.status not in CLOSED:
            self._needed[source] = "copy"

    async def _evidence_of(self, tenant: str) -> frozenset[str]:
        if tenant not in self._evidence:
            self._evidence[tenant] = (await self._deployed(tenant)).ids
        return self._evidence[tenant]

    async def _newest_of(self, run: Run) -> frozenset[str]:
        """The newest completed runs of the same kind and name that still have evidence."""
        many = self._retention.policy(run.tenant).keep_last
        group = run.tenant, run.kind, run.name
        if many and group not in self._newest:
            query = RunQuery(
                tenant=run.tenant,
                kind=run.kind,
                name=run.name,
                statuses=frozenset({"completed"}),
                evidence=True,
                limit=many,
            )
            self._newest[group] = frozenset(one.id for one in await self._store.runs(query))
        return self._newest.get(group, frozenset())


def _following(query: RunQuery, last: Run) -> RunQuery:
    return RunQuery(
        tenant=query.tenant,
        kinds=query.kinds,
        evidence=True,
        before=(last.created, last.id),
        limit=query.limit,
    )


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


class EvidenceRemoval:
    """Removes the evidence of the runs that a pass chooses, in batches, and counts. `erase` erases a batch."""

    def __init__(self, runs: RetentionPass, erase: EraseRuns, *, dry_run: bool, limit: int) -> None:
        self._runs, self._erase, self._dry_run, self._limit = runs, erase, dry_run, limit
        self._removed: dict[str, list[str]] = {}
        self._kept: dict[str, Counter[Reason]] = {}

    async def remove(self, tenant: str | None) -> RetentionReport:
        batch: list[Run] = []
        chosen, more = 0, False
        async for run, reason in self._runs.choices(tenant):
            if reason is not None:
                self._keep(run, reason)
                continue
            if chosen == self._limit:
                more = True
                break
            chosen += 1
            batch.append(run)
            if len(batch) == BATCH:
                await self._remove(batch)
                batch = []
        await self._remove(batch)
        tenants = [
            TenantReport(
                tenant=name, removed=self._removed.get(name, []), kept=dict(self._kept.get(name, {}))
            )
            for name in sorted({*self._removed, *self._kept})
        ]
        return RetentionReport(dry_run=self._dry_run, more=more, tenants=tenants)

    async def _remove(self, batch: list[Run]) -> None:
        needed = await self._erase_unneeded(batch)
        for run in batch:
            if run.id in needed:
                self._keep(run, "deployment")
            else:
                self._removed.setdefault(run.tenant, []).append(run.id)

    async def _erase_unneeded(self, batch: list[Run]) -> frozenset[str]:
        """
        Erase the batch except the runs that deployments name now, and return those. If one changes meanwhile, ask
        again.
        """
        attempt = 0
        while True:
            deployed = await self._runs.deployed(batch)
            needed = frozenset[str]().union(*(one.ids for one in deployed))
            removed = [run for run in batch if run.id not in needed]
            try:
                if removed and not self._dry_run:
                    await self._erase(removed, [one.unchanged for one in deployed])
                return needed
            except Conflict as conflict:
                attempt += 1
                if conflict.reason != "required" or attempt == ATTEMPTS:
                    raise

    def _keep(self, run: Run, reason: Reason) -> None:
        self._kept.setdefault(run.tenant, Counter())[reason] += 1
