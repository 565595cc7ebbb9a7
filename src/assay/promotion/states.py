"""The state of each deployed version, for the history of a suite and for lists."""

from collections.abc import Iterable

from msgspec import UNSET

from assay.comparison.views.history import Deployments, DeploymentState
from assay.ports import RequireCount, Store
from assay.promotion.records import KIND, AgentRecords, decode, read_records, wire_records
from assay.protocol.deployments import AgentDeployment
from assay.runs.log_reader import read_documents
from assay.runs.retention import DeployedRuns


async def deployment_states(store: Store, tenant: str, agents: Iterable[str]) -> Deployments:
    """The states of all recorded versions of these agents."""
    found: dict[tuple[str, str], DeploymentState] = {}
    for agent in {*agents}:
        stored = await read_records(store, tenant, agent)
        for record in recorded_versions(stored.records):
            run = None if record.eval_run_id is UNSET else record.eval_run_id
            found[agent, record.version] = DeploymentState(state=record.state, eval_run_id=run)
    return found


async def all_deployments(store: Store, tenant: str) -> list[AgentDeployment]:
    """The recorded versions of every agent of a tenant, by agent and version."""
    return [
        record
        async for document in read_documents(store, tenant, KIND)
        for record in recorded_versions(decode(document))
    ]


def recorded_versions(records: AgentRecords) -> list[AgentDeployment]:
    return wire_records(records, records.versions)


async def evidence_runs(store: Store, tenant: str) -> DeployedRuns:
    """The runs that the deployments of a tenant name as their evidence, in any state: a rollback needs them again."""
    found: set[str] = set()
    versions = 0
    async for document in read_documents(store, tenant, KIND):
        versions += document.version
        found.update(record.eval_run for record in decode(document).versions.values() if record.eval_run)
    unchanged = RequireCount(tenant=tenant, kind=KIND, count=versions, versions=True)
    return DeployedRuns(frozenset(found), unchanged)
