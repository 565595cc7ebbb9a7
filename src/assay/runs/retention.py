"""
Chooses the runs that lose their evidence by a retention policy (ADR-0080).

One pass reads the runs that have evidence, newest first. A run is created after its baseline, so a run that keeps its
evidence is read before the baseline that it needs.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from assay.ports import CLOSED, RequireCount, Run, RunQuery, Store
from assay.ports.config import Retention

PAGE = 200
# Why a run that is older than its policy allows keeps its evidence.
Reason = Literal["open", "newest", "deployment", "baseline", "parent", "copy"]
REMOVABLE = frozenset({"evaluation", "agent-eval", "workflow"})  # a transition keeps its approvals


class DeployedRuns(NamedTuple):
    """The runs that a tenant's deployments name as evidence. `unchanged` holds until a deployment changes."""

    ids: frozenset[str]
    unchanged: RequireCount


EvidenceRuns = Callable[[str], Awaitable[DeployedRuns]]


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
