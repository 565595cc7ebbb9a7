"""The service for workflows: start, respond, show. Transports and the command call it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from reprlib import repr as brief
from typing import Any

from msgspec import UNSET

from assay.concurrency.threads import json_size, off_loop
from assay.errors import (
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    Problem,
)
from assay.ports import (
    CLOSED,
    Clock,
    DeleteDocument,
    Principal,
    PutDocument,
    Run,
    RunQuery,
    RunStatus,
    RunUpdate,
    Store,
    Transaction,
)
from assay.ports.agents import ChannelResolver
from assay.ports.audit import audit_entry as audited
from assay.ports.telemetry import tracing
from assay.protocol.json_types import is_object
from assay.protocol.redaction import redact
from assay.runs.expiry import expire_runs
from assay.runs.intake import new_id
from assay.runs.run_options import configurable_problems
from assay.workflow import KIND
from assay.workflow.activities import Executor
from assay.workflow.critics import Critics
from assay.workflow.interpreter import ExecutionEnvironment
from assay.workflow.kind import WorkflowKind, WorkflowState
from assay.workflow.library import Library, open_transaction
from assay.workflow.replayer import replay_run
from assay.workflow.state.decisions import read_decision
from assay.workflow.state.definition import Workflow
from assay.workflow.state.effects import Result, Wait
from assay.workflow.state.execution_state import WorkflowRequest
from assay.workflow.verification_report import VerificationReport, report_of

RESTING: frozenset[RunStatus] = frozenset({"waiting-approval", "waiting-input", "waiting-external"})
PARENT = ("runId", "nodeId")  # members of a child run's snapshot


class WorkflowService:
    def __init__(
        self,
        store: Store,
        executor: Executor,
        kind: WorkflowKind,
        library: Library,
        critics: Critics,
        clock: Clock,
    ) -> None:
        self.store, self.executor, self.kind, self.library = store, executor, kind, library
        self._critics, self._clock = critics, clock

    @property
    def channels(self) -> ChannelResolver | None:
        """Resolves the channels of agents; None: deployments are not offered."""
        return self.kind.channels

    @channels.setter
    def channels(self, resolver: ChannelResolver | None) -> None:
        self.kind.channels = resolver

    @property
    def environment(self) -> ExecutionEnvironment:
        return self.kind.environment

    def workflow(self, id: str) -> Workflow:
        found = self.library.get(id)
        if found is None:
            raise NotFound(f"there is no workflow {id!r}")
        return found

    # start

    def plan(self, workflow_id: str, inputs: Any, configurable: Any) -> Workflow:
        """The workflow, or an InvalidRequest with every reason why it cannot start. It has no side effect."""
        found = self.library.get(workflow_id)
        if found is None:
            raise InvalidRequest(Problem("workflowId", f"there is no workflow {workflow_id!r}"))
        problems: list[Problem] = []
        if not is_object(inputs):
            problems.append(Problem("inputs", "expected an object"))
        if not is_object(configurable):
            problems.append(Problem("configurable", "expected an object"))
        if not problems:
            missing = [
                one.name
                for one in found.variables
                if one.required and one.defaultValue is UNSET and one.name not in inputs
            ]
            problems += [Problem(f"inputs.{name}", "this workflow needs this input") for name in missing]
            problems += configurable_problems(configurable)
        for node in found.nodes:
            for critic in _critics_of(node.config, node.settings):
                problems += self._critics.problems(critic, f'workflows."{found.id}"')
        if problems:
            raise InvalidRequest(problems)
        return found

    async def start(
        self,
        principal: Principal,
        workflow_id: str,
        inputs: dict[str, Any] | None = None,
        configurable: dict[str, Any] | None = None,
        *,
        tags: Sequence[str] = (),
        metadata: dict[str, Any] | None = None,
        scope: str = "default",
        documents: Sequence[PutDocument | DeleteDocument] = (),
        run: str | None = None,
    ) -> Run:
        """Start a run."""
        request = self.request(principal, workflow_id, inputs, configurable, tags, metadata, scope)
        await self.check_channels(principal.tenant, request.workflow, run or "")
        return await self.submit(request, principal.tenant, run or new_id("run-"), documents)

    def request(
        self,
        principal: Principal,
        workflow_id: str,
        inputs: dict[str, Any] | None,
        configurable: dict[str, Any] | None,
        tags: Sequence[str] = (),
        metadata: dict[str, Any] | None = None,
        scope: str = "default",
    ) -> WorkflowRequest:
        """The request to store, or an InvalidRequest."""
        inputs = {} if inputs is None else inputs
        configurable = {} if configurable is None else configurable
        workflow = self.plan(workflow_id, inputs, configurable)
        return WorkflowRequest(
            workflow=workflow,
            inputs=inputs,
            configurable=redact(configurable),
            owner={"tenant": principal.tenant, "principal": principal.id},
            tags=tuple(tags),
            metadata=metadata or {},
            scope=scope,
            traceparent=tracing.get(),
        )

    async def check_channels(self, tenant: str, workflow: Workflow, run: str) -> None:
        """Refuse a workflow whose channels cannot be resolved now (openwop-contract §9.3)."""
        for at, node in enumerate(workflow.nodes):
            if node.channel is None:
                continue
            if self.channels is None:
                raise InvalidRequest(Problem(f"nodes[{at}].agent.channel", "this host has no deployments"))
            await self.channels.resolve(tenant, run, node.agent_id or "", node.channel)

    async def open(
        self,
        request: WorkflowRequest,
        tenant: str,
        run: str,
        documents: Sequence[PutDocument | DeleteDocument] = (),
    ) -> Run:
        """Store a pending run that the executor here holds."""
        holder, lease = self.executor.executor_id, self.executor.lease
        opening = await off_loop(
            json_size(request.inputs),
            lambda: open_transaction(run, request, tenant, holder, lease, documents),
        )
        await self.store.commit(opening)
        found = await self.store.run(run)
        assert found is not None
        return found

    async def submit(
        self,
        request: WorkflowRequest,
        tenant: str,
        run: str,
        documents: Sequence[PutDocument | DeleteDocument] = (),
    ) -> Run:
        found = await self.open(request, tenant, run, documents)
        self.executor.start(found)
        return found

    # respond

    async def respond(
        self, principal: Principal, run: str, node: str, value: Any, documents: Sequence[PutDocument] = ()
    ) -> Run:
        """
        Take a person's answer to a run that waits.

        The first answer counts; a later one, or one after the deadline, is a Conflict. `documents` are written with it.

        An approval takes `{"action": "accept" | "reject"}`, a clarification any value.
        """
        if not principal.may("approvals:respond"):
            raise Forbidden("approvals:respond")
        found = await self.get(run, principal.tenant)
        workflow = (await replay_run(self.store, found, self.environment))[0].execution.workflow
        if workflow.node(node) is None:
            raise NotFound(f"run {run} has no node {node!r}")
        if found.status not in RESTING:
            raise Conflict("status", f"run {run}", f"it is {found.status} and does not wait for an answer")
        state, wait = await self._waiting_state(found)
        if wait.node != node:
            raise Conflict("status", f"run {run}", f"it waits at {wait.node!r}, not at {node!r}")
        now = self._clock.now()
        if wait.deadline is not None and wait.deadline <= now:
            await self._answer(found, wait, _expired(), now)
            raise Conflict("status", f"run {run}", "its deadline has passed, so it was rejected")
        action = _action(value, wait, state.replayer.execution.prompt)
        answer = {"action": action, "value": value, "by": principal.id, "expired": False}
        return await self._answer(found, wait, answer, now, documents)

    async def expire_waits(self) -> int:
        """End the waits of all tenants whose deadline has passed; return how many."""
        now, query = self._clock.now(), RunQuery(kind=KIND, statuses=RESTING)
        return await expire_runs(self.store, query, now, _deadline, lambda run: self._expire(run, now))

    async def _expire(self, run: Run, now: datetime) -> None:
        wait = (await self._waiting_state(run))[1]
        await self._answer(run, wait, _expired(), now)

    async def _waiting_state(self, run: Run) -> tuple[WorkflowState, Wait]:
        """The state of a run, and its wait. A Conflict says that another answer came meanwhile."""
        state = await self.kind.restore(self.store, run)
        wait = state.replayer.waiting
        if wait is None or wait.interrupt != run.metadata.get("waiting", {}).get("interruptId"):
            raise Conflict("status", f"run {run.id}", "another answer came first, and the run continues")
        return state, wait

    async def _answer(
        self, run: Run, wait: Wait, answer: dict[str, Any], now: datetime, extra: Sequence[PutDocument] = ()
    ) -> Run:
        """Write the answer and the events that follow from it in one transaction, then continue the run."""
        state, now_at = await self._waiting_state(run)
        if now_at.interrupt != wait.interrupt:
            raise Conflict("status", f"run {run.id}", "another answer came first, and the run continues")
        state.skip_verified(run.events)
        events, evidence, documents, _ = await off_loop(
            state.size + json_size(answer), lambda: state.answer(Result(at=now, value=answer))
        )
        entry = RunUpdate(
            run=run.id,
            when=frozenset({run.status}),
            expected=run.events,
            status="running",
            events=events,
            evidence=evidence,
            metadata=state.metadata(),
        )
        line = audited(run.tenant, "run.respond", run.id, "expired" if answer["expired"] else "ok")
        await self.store.commit(Transaction(entries=[entry], documents=[*documents, *extra], lines=[line]))
        claimed = await self.store.claim(run.id, self.executor.executor_id, seconds=self.executor.lease)
        if claimed is not None:
            self.executor.start(claimed)
        return claimed or await self.get(run.id, run.tenant)

    # show

    async def get(self, run: str, tenant: str) -> Run:
        found = await self.store.run(run, tenant=tenant)
        if found is None or found.kind != KIND:
            raise NotFound(f"there is no run {run!r}")
        return found

    async def wait(self, run: str) -> Run:
        """Wait until the run ends or waits for a person, and return it."""
        return await self.executor.wait(run)

    async def report(self, run: str, tenant: str) -> VerificationReport:
        found = await self.get(run, tenant)
        return await report_of(self.store, found)

    async def snapshot(self, run: Run) -> dict[str, Any]:
        """The members of a RunSnapshot that only workflows have (openwop-contract §3.3). Secrets are removed."""
        replayer, _, _ = await replay_run(self.store, run, self.environment)
        execution, request = replayer.execution, replayer.execution.request
        content = {
            "inputs": request.inputs,
            "variables": execution.variables,
            "configurable": dict(execution.configurable),
        }
        if request.metadata:
            content["metadata"] = request.metadata
        size = replayer.size + json_size(request.metadata) + json_size(content["configurable"])
        safe = await off_loop(
            size, lambda: {name: execution.redact(value) for name, value in content.items()}
        )
        shown: dict[str, Any] = {"workflowId": run.name, **safe}
        if (parent := request.parent) is not None:
            shown |= {f"parent{name[0].upper()}{name[1:]}": parent[name] for name in PARENT if name in parent}
        if execution.current is not None and run.status not in CLOSED:
            shown["currentNodeId"] = execution.current
        if run.status == "completed":
            shown["outputs"] = shown["variables"]
        if "error" in run.metadata:
            shown["error"] = run.metadata["error"]
        if execution.agent is not None:
            shown["agent"] = execution.agent
            if self.channels is not None:
                shown["agent"] |= await self.channels.source(run.tenant, run.id, execution.agent)
        if execution.supervisor:
            shown["runOrchestrator"] = {"agentId": execution.supervisor}
        if "goalSatisfied" in run.metadata:
            shown["goalSatisfied"] = run.metadata["goalSatisfied"]
        return shown

    async def ancestry(self, run: str, tenant: str, host_id: str) -> dict[str, Any]:
        """The parent of a run (openwop-contract §13.8): one hop."""
        found = await self.store.run(run, tenant=tenant)
        if found is None:
            raise NotFound(f"there is no run {run!r}")
        parent = found.metadata.get("parent")
        above = (
            None
            if parent is None
            else {"runId": parent["runId"], "hostId": host_id, "cause": parent["cause"]}
        )
        return {"runId": run, "hostId": host_id, "parent": above}


def _action(value: Any, wait: Wait, prompt: dict[str, Any] | None) -> str:
    if wait.kind == "clarification":
        return "answer"
    action = value.get("action") if is_object(value) else None
    if action not in wait.actions:
        actions = ", ".join(wait.actions)
        raise InvalidRequest(Problem("resumeValue.action", f"expected one of {actions}, got {brief(action)}"))
    if action == "edit-accept":
        _check_edit(value, wait, prompt or {})
    return action


def _check_edit(value: dict[str, Any], wait: Wait, prompt: dict[str, Any]) -> None:
    """Validate the replacement that `edit-accept` brings."""
    if wait.about == "decision":
        try:
            read_decision(value.get("decision"))
        except ValueError as wrong:
            raise InvalidRequest(Problem("resumeValue.decision", str(wrong))) from None
        return
    outputs = value.get("outputs")
    if not is_object(outputs):
        raise InvalidRequest(Problem("resumeValue.outputs", "expected the outputs to merge, by name"))
    there: dict[str, Any] = prompt.get("outputs", {})
    if unknown := sorted(outputs.keys() - there.keys()):
        names = ", ".join(sorted(there)) or "none"
        raise InvalidRequest(
            Problem("resumeValue.outputs", f"there is no output {', '.join(unknown)}; there are {names}")
        )


def _expired() -> dict[str, Any]:
    return {"action": "reject", "value": None, "by": None, "expired": True}


def _critics_of(config: Mapping[str, Any], settings: Any) -> list[dict[str, Any]]:
    more: list[dict[str, Any]] = settings.get("critics", []) if is_object(settings) else []
    return [*config.get("critics", []), *more]


def _deadline(run: Run) -> datetime | None:
    deadline = run.metadata.get("waiting", {}).get("deadline")
    return None if deadline is None else datetime.fromisoformat(deadline)
