"""Agent evals over HTTP: from a request to a plan, and from a run to its snapshot, scorecard and report (contract §3.2–§3.4)."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from assay.agenteval.detail import detail_of
from assay.agenteval.fork import EVIDENCE, branch_point, same_agent, scored_of
from assay.agenteval.report import recorded_results
from assay.agenteval.request import EvalRequest
from assay.agenteval.run_header import KIND, read_request
from assay.agenteval.service import AgentEvalService
from assay.agenteval.suite_store import SuiteStore, digest_of
from assay.errors import EvalRefused, InvalidRequest, NotFound, Problem
from assay.ports import CLOSED, Principal, PutDocument, Run
from assay.protocol.json_types import JSON, is_list
from assay.protocol.redaction import redact
from assay.protocol.runs import ForkRequest, RunRequest
from assay.protocol.suite import AgentEvalSuite
from assay.runs.annotations import annotations, effective
from assay.runs.copy import CopySpec, branch, everything, replay
from assay.runs.large import json_size, off_loop
from assay.runs.options import configurable_problems
from assay.serve.openwop.errors import NotEnded, NotScored
from assay.serve.openwop.host import OpenWopHost, host_of, run_of
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import LINES, Response, answer

TYPES: dict[str, tuple[type, str]] = {
    "trials": (int, "a whole number"),
    "baselineRunId": (str, "the id of a run"),
    "judge": (str, "the name of a model"),
    "allowTargetMismatch": (bool, "true or false"),
    "allowSuiteVersionDrift": (bool, "true or false"),
}


class EvalRuns:
    """The kind `agent-eval` on the run surface."""

    def __init__(self, office: AgentEvalService, shelf: SuiteStore) -> None:
        self.office, self._shelf = office, shelf

    async def open(
        self, request: RunRequest, who: Principal, holder: str, documents: Sequence[PutDocument], *, run: str
    ) -> Run:
        asked = asked_of(request, who.id)
        found = await self._suite(asked, who.tenant)
        suite, digest = found if isinstance(found, tuple) else (found, "")
        asked = msgspec.structs.replace(asked, suite_digest=digest)
        plan = await self.office.plan(asked, who.tenant, suite)
        return await self.office.submit(plan, who.tenant, holder, documents, run=run)

    async def _suite(
        self, asked: EvalRequest, tenant: str
    ) -> tuple[AgentEvalSuite, str] | InvalidRequest | None:
        """What was found, or what is wrong with it: the plan says so, in its turn."""
        if not asked.suite_ref:
            return None
        try:
            suite, document = await self._shelf.resolve(tenant, asked.suite_ref)
            return suite, await off_loop(json_size(document), lambda: digest_of(document))
        except InvalidRequest as refusal:
            return refusal

    async def fork(
        self,
        source: Run,
        request: ForkRequest,
        who: Principal,
        holder: str,
        documents: Sequence[PutDocument],
        *,
        run: str,
    ) -> Run:
        """A replay copies everything; a branch what has a score, and the rest is done again (contract §3.7)."""
        store = self.office.store
        if request.mode == "replay":
            return await replay(store, source, everything(EVIDENCE), run=run, documents=documents)
        if request.run_options_overlay:
            told = (
                "what is copied was measured under the options of its run: a branch of an eval changes none"
            )
            raise EvalRefused(Problem("runOptionsOverlay", told), field="runOptionsOverlay")
        assert request.from_seq is not UNSET
        branch_point(source, request.from_seq)
        scored = await scored_of(store, source)
        same_agent(scored.request, self.office.dependencies.agents)
        copying = CopySpec(scored.evidence, scored.keep)
        made = await branch(store, source, copying, run=run, head=scored.head, documents=documents)
        return await store.claim(made.id, holder, seconds=self.office.lease) or made

    async def shown(self, run: Run) -> JSON:
        request = await read_request(self.office.store, run.id)
        shown: JSON = {
            "mode": "eval",
            "evalSuiteRef": f"{request.suite_id}@{request.suite_version}",
            "agentId": request.agent_id,
            "agent": {"agentId": request.agent_id, "version": request.agent_version},
            "owner": {"tenant": run.tenant} | ({"principal": request.principal} if request.principal else {}),
            "engineVersion": "1",
            "eventLogSchemaVersion": 2,
        }
        if request.configurable:
            shown["configurable"] = request.configurable
        if request.tags:
            shown["tags"] = list(request.tags)
        if request.metadata:
            shown["metadata"] = request.metadata
        if "traceparent" in run.head:
            shown["traceparent"] = run.head["traceparent"]
        if run.status == "failed":
            shown["error"] = await self._error(run)
        if (summary := await self.office.summary(run)) is not None:
            shown["outputs"] = msgspec.to_builtins(summary)
            if summary.total_cost_usd is not UNSET:
                shown["metrics"] = {"openwopCost": {"usd": summary.total_cost_usd}}
        return shown

    async def _error(self, run: Run) -> JSON:
        """As the last event has it."""
        (last,) = await self.office.store.events(run.id, after=run.events - 2)
        return msgspec.json.decode(last.data)["payload"]["error"]


def asked_of(request: RunRequest, principal: str) -> EvalRequest:
    """What `configurable` says that an eval reads; the rest of it is kept and echoed."""
    said: JSON = {} if request.configurable is UNSET else request.configurable
    problems = [
        Problem(f"configurable.{name}", f"expected {words}")
        for name, (type, words) in TYPES.items()
        if name in said
        and (not isinstance(said[name], type) or (type is int and isinstance(said[name], bool)))
    ]
    problems += configurable_problems(said)
    modes: Any = said.get("evalModes")
    if modes is not None and not (is_list(modes) and all(isinstance(mode, str) for mode in modes)):
        problems.append(Problem("configurable.evalModes", "expected a list of modes"))
    if problems:
        raise EvalRefused(problems, field=problems[0].place)
    return EvalRequest(
        suite_ref=None if request.eval_suite_ref is UNSET else request.eval_suite_ref,
        agent_id=None if request.agent_id is UNSET else request.agent_id,
        modes=None if modes is None else tuple(modes),
        baseline_run_id=said.get("baselineRunId"),
        trials=said.get("trials", 1),
        judge=said.get("judge"),
        allow_target_mismatch=said.get("allowTargetMismatch", False),
        allow_suite_version_drift=said.get("allowSuiteVersionDrift", False),
        principal=principal,
        configurable=redact(said),
        tags=() if request.tags is UNSET else tuple(request.tags),
        metadata={} if request.metadata is UNSET else request.metadata,
    )


def evals_of(surface: OpenWopHost) -> EvalRuns:
    """Not offered is not found on a read, where a create says 501 (contract §3.4)."""
    offered = surface.kinds.get(KIND) if surface.evals is not None else None
    if not isinstance(offered, EvalRuns):
        raise NotFound("there are no eval runs here")
    return offered


async def eval_run_of(call: HttpRequest, surface: OpenWopHost) -> Run:
    run = await run_of(call, surface)
    if run.kind != KIND:
        raise NotFound(f"run {run.id} is no eval run")
    return run


async def eval_report(call: HttpRequest) -> Response:
    """All there is to say of an eval run, ended or not; the evidence page by page, or, as lines, alone and all of it."""
    asked = call.query("first", "limit")
    first, limit = (
        _whole(asked, name, usual, least, most)
        for name, usual, least, most in (("first", 0, 0, 999_999_999), ("limit", 100, 0, 1_000))
    )
    surface = host_of(call)
    offered = evals_of(surface)
    run = await eval_run_of(call, surface)
    await call.audit_read(run)
    store = offered.office.store
    if call.accepts_ndjson:
        trials: int = run.head.get("trials", 1)
        stop = (first + limit) * trials if "limit" in asked else None
        return Response(_lines(recorded_results(store, run, first * trials, stop)), 200, LINES)
    said = await annotations(store, run) if surface.feedback else []
    return answer(await detail_of(store, run, effective(said), first=first, limit=limit))


async def _lines(results: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    async for line in results:
        yield line + b"\n"


def _whole(asked: dict[str, str], name: str, usual: int, least: int, most: int) -> int:
    text = asked.get(name, str(usual))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise InvalidRequest(
            Problem(name, f"expected a whole number from {least} to {most}, got {text[:40]!r}")
        )
    return int(text)


async def eval_summary(call: HttpRequest) -> Response:
    """The scorecard; 409 while the run goes on, 404 if it ended without one."""
    call.query()
    surface = host_of(call)
    offered = evals_of(surface)
    run = await eval_run_of(call, surface)
    if run.status not in CLOSED:
        raise NotEnded(run.id, run.status)
    summary = await offered.office.summary(run)
    if summary is None:
        raise NotScored(run.id, run.status)
    await call.audit_read(run)
    return answer(summary)
