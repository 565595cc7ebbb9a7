"""The service for deployments: list, transition, respond, resolve a channel. Transports and the command call it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct

from assay.comparison.policy import ApprovalRules, PromotionPolicy, PromotionRules, read_policy_file
from assay.errors import (
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    Problem,
    Unavailable,
)
from assay.ports import Clock, Limits, Principal, PutDocument, Run, RunQuery, RunStatus, Store
from assay.ports.agents import Agent, Agents, AgentVersions, PackAgents, VersionedAgent, agent_at
from assay.ports.audit import HOST, AuditEntry, audit_entry
from assay.promotion import KIND
from assay.promotion.management import (
    NODE,
    RESPOND,
    ManagementRequest,
    decide,
    find_management_run,
    read_management_request,
    without_secrets,
)
from assay.promotion.records import (
    AgentRecords,
    ApprovalDenied,
    EvalGateUnmet,
    NoActiveDeployment,
    StoredRecords,
    TransitionForbidden,
    read_records,
    wire_record,
    wire_records,
)
from assay.promotion.transitions import CHANNELS, DEPLOY_SCOPES, Planned, plan_transition, version_of
from assay.promotion.writer import TransitionWriter
from assay.protocol.deployments import AgentDeployment, ApprovalRejected, TransitionRequest
from assay.runs.expiry import expire_runs
from assay.runs.intake import new_id

NO_RECORDS: Mapping[str, AgentRecords] = MappingProxyType({})
ATTEMPTS = 10  # of a transition, while others of the same agent commit
WAITING: frozenset[RunStatus] = frozenset({"waiting-approval"})
MAX_LOOKUPS = 100  # versions that the agent does not list, which are looked up one by one


class TransitionOutcome(Struct, frozen=True, kw_only=True):
    """A transition that was applied, or whose management run waits for an approval; then `record` is unchanged."""

    run: Run
    record: AgentDeployment

    @property
    def waits(self) -> bool:
        return self.run.status.startswith("waiting")


class PromotionService:
    """The deployments of one host."""

    def __init__(
        self,
        store: Store,
        policy: PromotionPolicy,
        clock: Clock,
        agents: AgentVersions,
        initial: Mapping[str, AgentRecords] = NO_RECORDS,
    ) -> None:
        """`initial`: the records of sample agents in a tenant where they had no transition yet."""
        self.store, self.policy, self._clock, self._agents = store, policy, clock, agents
        self._initial = initial

    async def deployments(self, tenant: str, agent_id: str) -> list[AgentDeployment]:
        """The records of an agent by version; an installed version without one is a draft. NotFound: no such agent."""
        stored, installed = await self._read(tenant, agent_id)
        return wire_records(stored.records, {*installed, *stored.records.versions})

    async def record(self, tenant: str, agent_id: str, version: str) -> AgentDeployment:
        return wire_record((await self._records(tenant, agent_id)).records, version)

    async def transition(
        self,
        principal: Principal,
        agent_id: str,
        request: TransitionRequest,
        documents: Sequence[PutDocument] = (),
        *,
        run: str | None = None,
    ) -> TransitionOutcome:
        """
        Apply a transition, or suspend it until it is approved. `run` is the id of the management run.

        Refusals: Forbidden, NotFound (the agent), InvalidRequest (version, state, channel, canary), EvalGateUnmet,
        Conflict.
        """
        request, tenant = without_secrets(request), principal.tenant
        change = TransitionWriter(
            self.store, self._clock, run or new_id("run-"), tenant, agent_id, principal.id, request, documents
        )
        scope = DEPLOY_SCOPES[request.transition]
        if not principal.may(scope):
            refusal = TransitionForbidden(scope, run=change.run)
            await change.refuse(principal, refusal, allowed=False)
            raise refusal
        for _ in range(ATTEMPTS):
            stored, installed = await self._read(tenant, agent_id, request.version)
            planned = plan_transition(stored.records, request, installed)
            if planned.is_promotion:  # checked against another state, it must not become the next step
                request = msgspec.structs.replace(request, to_state=planned.to_state)
            rules = self.policy.rules_for(agent_id)
            gate = await change.check(planned, stored, rules)
            if gate.unmet:
                refusal = EvalGateUnmet(gate.unmet, run=change.run)
                await change.refuse(principal, refusal, allowed=True)
                raise refusal
            approval = _approval(rules, planned)
            try:
                if approval is not None:
                    await change.suspend(principal, planned, approval)
                else:
                    await change.apply_now(principal, stored, planned, gate)
            except Conflict as conflict:
                if conflict.reason not in ("version", "exists", "missing", "required"):
                    raise
                if documents and conflict.place.startswith("idempotency"):
                    raise  # another request has used its key
                continue
            found = await find_management_run(self.store, change.run, tenant)
            return TransitionOutcome(run=found, record=await self.record(tenant, agent_id, request.version))
        raise Unavailable(
            f"agent {agent_id}: other transitions were faster each time: try again", retry_after=1
        )

    async def respond(
        self, principal: Principal, run: str, node: str, value: Any, documents: Sequence[PutDocument] = ()
    ) -> Run:
        """Take an answer to a management run that waits: `{"action": "accept" | "reject" | "override", "reason"?}`."""
        for _ in range(ATTEMPTS):
            try:
                return await self._respond(principal, run, node, value, documents)
            except (
                Conflict
            ) as conflict:  # another principal has answered meanwhile: this answer may still count
                if conflict.reason != "sequence":
                    raise
        raise Conflict("version", f"run {run}", "other answers were faster each time: try again")

    async def _respond(
        self, principal: Principal, run: str, node: str, value: Any, documents: Sequence[PutDocument]
    ) -> Run:
        if not principal.may(RESPOND):
            raise Forbidden(RESPOND)
        found = await find_management_run(self.store, run, principal.tenant)
        if node != NODE:
            raise NotFound(f"run {run} has no node {node!r}")
        if found.status not in WAITING:
            raise Conflict("status", f"run {run}", f"it is {found.status} and does not wait for an answer")
        pending = await read_management_request(self.store, found)
        rules = self.policy.rules_for(pending.agent_id).approval or ApprovalRules()
        if _deadline(found) <= self._clock.now():
            await self._expire(found)
            raise Conflict("status", f"run {run}", "its deadline has passed, so it was rejected")
        grants = tuple(found.metadata.get("grants", ()))
        decision = decide(rules, principal, pending.author, value, grants)
        change = TransitionWriter.of(self.store, self._clock, found, pending, documents)
        change.log.add(decision.type, decision.payload, node=NODE)
        line = audit_entry(found.tenant, "run.respond", found.id, decision.action)
        if not decision.final:
            await change.keep_waiting(found, decision.grants, line)
        elif decision.action == "reject":
            await change.reject(found, ApprovalDenied(rules.gate, "rejected"), line)
        else:
            await self._apply_approved(found, pending, rules, change, line)
        return await find_management_run(self.store, run, found.tenant)

    async def resolve(self, tenant: str, run: str, agent_id: str, channel: str) -> Agent:
        """The agent of the version that a channel means for a run. NoActiveDeployment: there is none."""
        if channel not in CHANNELS:
            raise NoActiveDeployment(
                agent_id, channel, f"there is no such channel; there are {', '.join(CHANNELS)}"
            )
        stored = await self._records(tenant, agent_id)
        version = version_of(stored.records, channel, run)
        if version is None:
            raise NoActiveDeployment(agent_id, channel, "no version is active")
        agent = await self.get(tenant, agent_id, version)
        if agent is None:
            raise NoActiveDeployment(
                agent_id, channel, f"version {version} is active, but it is not installed"
            )
        return agent

    async def source(self, tenant: str, run: str, ref: Mapping[str, Any]) -> dict[str, str]:
        """The member `sourceManifestId` of an AgentRef with a channel, if its agent is from a pack."""
        if "channel" not in ref:
            return {}
        try:
            return (await self.resolve(tenant, run, ref["agentId"], ref["channel"])).card.source
        except NoActiveDeployment:
            return {}

    async def get(self, tenant: str, agent_id: str, version: str) -> Agent | None:
        return await self._agents.get(tenant, agent_id, version)

    async def expire_waits(self) -> int:
        """Reject the transitions of all tenants that were not approved in time; return how many."""
        query = RunQuery(kind=KIND, statuses=WAITING)
        return await expire_runs(self.store, query, self._clock.now(), _deadline, self._expire)

    async def _expire(self, run: Run) -> None:
        pending = await read_management_request(self.store, run)
        rules = self.policy.rules_for(pending.agent_id).approval or ApprovalRules()
        change = TransitionWriter.of(self.store, self._clock, run, pending)
        rejected = ApprovalRejected(gate_id=rules.gate, principal=HOST, reason="timeout")
        change.log.add("approval.rejected", rejected, node=NODE)
        line = audit_entry(run.tenant, "run.respond", run.id, "expired")
        await change.reject(run, ApprovalDenied(rules.gate, "not approved in time"), line)

    async def _apply_approved(
        self,
        run: Run,
        pending: ManagementRequest,
        rules: ApprovalRules,
        change: TransitionWriter,
        line: AuditEntry,
    ) -> None:
        """Check everything again, and apply. If it is no longer possible, the run fails and the record stays."""
        for _ in range(ATTEMPTS):
            try:
                stored, installed = await self._read(run.tenant, pending.agent_id, pending.transition.version)
                planned = plan_transition(stored.records, pending.transition, installed)
                _check_same_step(pending, planned)
            except (InvalidRequest, NotFound) as refusal:
                await change.reject(run, refusal, line)
                return
            gate = await change.check(planned, stored, self.policy.rules_for(pending.agent_id))
            if gate.unmet:
                await change.reject(run, EvalGateUnmet(gate.unmet, run=run.id), line)
                return
            try:
                await change.apply_waiting(run, stored, planned, gate, rules.gate, line)
            except Conflict as conflict:
                if (
                    conflict.reason in ("version", "exists", "missing", "required")
                    and run.id not in conflict.place
                ):
                    continue
                raise
            return
        raise Conflict(
            "version", f"agent {pending.agent_id}", "other transitions were faster each time: try again"
        )

    async def _records(self, tenant: str, agent_id: str) -> StoredRecords:
        stored = await read_records(self.store, tenant, agent_id)
        if stored.revision or agent_id not in self._initial:
            return stored
        return StoredRecords(records=self._initial[agent_id])

    async def _read(
        self, tenant: str, agent_id: str, version: str | None = None
    ) -> tuple[StoredRecords, set[str]]:
        """The records and the installed versions, which may be more than it lists. NotFound: no such agent."""
        installed = set(await self._agents.versions(tenant, agent_id) if _is_name(agent_id) else ())
        stored = await self._records(tenant, agent_id) if _is_name(agent_id) else None
        if stored is None or not (installed or stored.records.versions):
            raise NotFound(f"there is no agent {agent_id[:256]!r}")
        for other in [] if version is None else _lookups(stored.records, version):
            if installed and other not in installed:
                found = await self._agents.get(tenant, agent_id, other)
                installed |= set() if found is None else {other}
        return stored, installed


def _approval(rules: PromotionRules, planned: Planned) -> ApprovalRules | None:
    """The approval that a transition needs: a promotion to a state, or a rollback."""
    gated = planned.is_promotion or planned.request.transition == "rollback"
    approval = rules.approval
    return approval if approval is not None and gated and planned.to_state in approval.states else None


def _check_same_step(pending: ManagementRequest, planned: Planned) -> None:
    """Refuse a step that is not the one that was approved: other transitions have moved the version since."""
    approved = pending.from_state, pending.to_state
    if pending.from_state is not None and approved != (planned.from_state, planned.to_state):
        message = f"the approval is for {approved[0]} to {approved[1]}, and it is {planned.from_state} now"
        raise InvalidRequest(Problem("version", f"{planned.request.version}: {message}"))


def _lookups(records: AgentRecords, version: str) -> list[str]:
    """The versions that a transition concerns: itself, and those it may be rolled back to, newest binding first."""
    serving = [name for name, one in records.versions.items() if one.state in ("active", "paused")]
    serving.sort(key=lambda name: max(records.of(name).channels.values(), default=0), reverse=True)
    return [*dict.fromkeys((version, records.of(version).replaces or version, *serving))][:MAX_LOOKUPS]


def _deadline(run: Run) -> datetime:
    return datetime.fromisoformat(run.metadata["waiting"]["deadline"])


def _is_name(agent_id: str) -> bool:
    """Whether a database can have an agent of this id."""
    return (
        3 <= len(agent_id) <= 256
        and agent_id.isprintable()
        and len(agent_id.encode("utf-8", "replace")) <= 256
    )


# The versions of agents that a tenant can run: those of the host, else those of the tenant's packs.


class InstalledVersions:
    """An agent of the host has the version of its card, unless it has several."""

    def __init__(self, agents: Agents, packs: PackAgents | None) -> None:
        self._agents, self._packs = agents, packs

    async def versions(self, tenant: str, agent_id: str) -> list[str]:
        """The installed versions; none: there is no such agent."""
        agent = self._agents.get(agent_id)
        if isinstance(agent, VersionedAgent):
            return list(agent.versions)
        if agent is not None:
            return [agent.card.version]
        return [] if self._packs is None else await self._packs.versions(tenant, agent_id)

    async def get(self, tenant: str, agent_id: str, version: str) -> Agent | None:
        agent = self._agents.get(agent_id)
        if agent is not None:
            return agent_at(agent, version)
        return None if self._packs is None else await self._packs.get(tenant, agent_id, version)


# Builds the service for deployments from a policy file and the agents of a host.


def build_promotions(
    store: Store,
    policy_file: str,
    limits: Limits,
    clock: Clock,
    agents: Agents,
    packs: PackAgents | None,
    initial: Mapping[str, AgentRecords],
) -> PromotionService:
    """Without a policy file, the default rules apply: a passed eval run for `staged` and `active`."""
    policy = read_policy_file(policy_file, limits) if policy_file else PromotionPolicy()
    return PromotionService(store, policy, clock, InstalledVersions(agents, packs), initial)
