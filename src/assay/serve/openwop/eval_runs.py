"""Agent evals over HTTP: start one, and read its snapshot, scorecard and report (openwop-contract §3.2–§3.4)."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec
from msgspec import UNSET

from assay.agenteval.planning.request import EvalRequest
from assay.agenteval.planning.run_header import KIND, read_request
from assay.agenteval.results.detail import detail_of
from assay.agenteval.results.report import read_results
from assay.agenteval.service import EVIDENCE, AgentEvalService, branch_point, read_scored_units, same_agent
from assay.agenteval.suites.suite_store import ResolvedSuite, SuiteResolver, digest_of
from assay.concurrency.threads import json_size, off_loop
from assay.errors import EvalRefused, InvalidRequest, NotFound, Problem
from assay.ports import CLOSED, Run
from assay.protocol.json_types import JSON, is_list
from assay.protocol.redaction import redact
from assay.protocol.runs import ForkRequest, RunRequest
from assay.runs.annotations import annotations, effective
from assay.runs.copy import CopySpec, branch, everything, replay
from assay.runs.run_options import configurable_problems
from assay.serve.openwop.errors import NotEnded, NotScored
from assay.serve.openwop.host import NewRun, OpenWopHost, host_of, run_of
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import LINES, Response, answer

LONGEST_ID = 256  # of a task or a run
TYPES: dict[str, tuple[type, str]] = {
    "trials": (int, "a whole number"),
    "baselineRunId": (str, "the id of a run"),
    "judge": (str, "the name of a model"),
    "allowTargetMismatch": (bool, "true or false"),
    "allowSuiteVersionDrift": (bool, "true or false"),
}


class EvalRuns:
    """The run kind `agent-eval` over OpenWOP."""

    def __init__(self, service: AgentEvalService, suites: SuiteResolver) -> None:
        self.service, self._suites = service, suites

    async def open(self, request: RunRequest, new: NewRun) -> Run:
        options = eval_request(request, new.principal.id)
        suite = await self._suite(options, new.principal.tenant)
        if isinstance(suite, ResolvedSuite):
            document = suite.document
            digest = await off_loop(json_size(document), lambda: digest_of(document))
            options = msgspec.structs.replace(
                options, suite_digest=digest, suite_source=suite.source, suite_file_digest=suite.file_digest
            )
            suite = suite.suite
        plan = await self.service.plan(options, new.principal.tenant, suite)
        return await self.service.submit(plan, new.principal.tenant, new.holder, new.documents, run=new.id)

    async def _suite(self, options: EvalRequest, tenant: str) -> ResolvedSuite | InvalidRequest | None:
        """The suite; or the refusal, which the plan reports in its order of checks."""
        if not options.suite_ref:
            return None
        try:
            return await self._suites.resolve(tenant, options.suite_ref, options.agent_id or "")
        except InvalidRequest as refusal:
            return refusal

    async def fork(self, source: Run, request: ForkRequest, new: NewRun) -> Run:
        """A replay copies everything. A branch copies scored tasks and runs the rest (openwop-contract §3.7)."""
        store = self.service.store
        if request.mode == "replay":
            return await replay(store, source, everything(EVIDENCE), run=new.id, documents=new.documents)
        if request.run_options_overlay:
            message = (
                "a branch of an eval cannot change options: the copied scores were measured with the "
                "options of the source run"
            )
            raise EvalRefused(Problem("runOptionsOverlay", message), field="runOptionsOverlay")
        assert request.from_seq is not UNSET
        branch_point(source, request.from_seq)
        scored = await read_scored_units(store, source)
        same_agent(scored.request, self.service.dependencies.agents)
        spec = CopySpec(scored.evidence, scored.keep)
        copy = await branch(
            store, source, spec, run=new.id, metadata=scored.metadata, documents=new.documents
        )
        return await store.claim(copy.id, new.holder, seconds=self.service.lease) or copy

    async def snapshot(self, run: Run) -> JSON:
        request = await read_request(self.service.store, run)
        manifest = None if request.definition is None else request.definition.manifest
        source = {} if manifest is None else {"sourceManifestId": manifest.agent_id}
        document: JSON = {
            "mode": "eval",
            "evalSuiteRef": f"{request.suite_id}@{request.suite_version}",
            "agentId": request.agent_id,
            "agent": {"agentId": request.agent_id, "version": request.agent_version} | source,
            "owner": {"tenant": run.tenant} | ({"principal": request.principal} if request.principal else {}),
            "engineVersion": "1",
            "eventLogSchemaVersion": 2,
        }
        if request.configurable:
            document["configurable"] = request.configurable
        if request.tags:
            document["tags"] = list(request.tags)
        if request.metadata:
            document["metadata"] = request.metadata
        if "traceparent" in run.metadata:
            document["traceparent"] = run.metadata["traceparent"]
        if run.status == "failed":
            document["error"] = await self._error(run)
        if (summary := await self.service.summary(run)) is not None:
            document["outputs"] = msgspec.to_builtins(summary)
            if summary.total_cost_usd is not UNSET:
                document["metrics"] = {"openwopCost": {"usd": summary.total_cost_usd}}
        return document

    async def _error(self, run: Run) -> JSON:
        """The error in the last event."""
        (last,) = await self.service.store.events(run.id, after=run.events - 2)
        return msgspec.json.decode(last.data)["payload"]["error"]


def eval_request(request: RunRequest, principal: str) -> EvalRequest:
    """The request of an eval. Members of `configurable` that an eval does not read are stored and returned."""
    configurable: JSON = {} if request.configurable is UNSET else request.configurable
    problems = [
        Problem(f"configurable.{name}", f"expected {description}")
        for name, (type, description) in TYPES.items()
        if name in configurable
        and (
            not isinstance(configurable[name], type) or (type is int and isinstance(configurable[name], bool))
        )
    ]
    problems += configurable_problems(configurable)
    modes: Any = configurable.get("evalModes")
    if modes is not None and not (is_list(modes) and all(isinstance(mode, str) for mode in modes)):
        problems.append(Problem("configurable.evalModes", "expected a list of modes"))
    chosen = [_ids(configurable, name, problems) for name in ("tasks", "failingIn")]
    if problems:
        raise EvalRefused(problems, field=problems[0].place)
    tasks, failing_in = chosen
    return EvalRequest(
        suite_ref=None if request.eval_suite_ref is UNSET else request.eval_suite_ref,
        agent_id=None if request.agent_id is UNSET else request.agent_id,
        modes=None if modes is None else tuple(modes),
        baseline_run_id=configurable.get("baselineRunId"),
        tasks=tasks,
        rule="failing" if failing_in else None,
        failing_in=failing_in or (),
        trials=configurable.get("trials", 1),
        judge=configurable.get("judge"),
        allow_target_mismatch=configurable.get("allowTargetMismatch", False),
        allow_suite_version_drift=configurable.get("allowSuiteVersionDrift", False),
        principal=principal,
        configurable=redact(configurable),
        tags=() if request.tags is UNSET else tuple(request.tags),
        metadata={} if request.metadata is UNSET else request.metadata,
    )


def _ids(configurable: JSON, name: str, problems: list[Problem]) -> tuple[str, ...] | None:
    """A list of ids of the options; None: it is not there."""
    ids: Any = configurable.get(name)
    if ids is None:
        return None
    if not (is_list(ids) and all(isinstance(id, str) and len(id) <= LONGEST_ID for id in ids)):
        wanted = f"expected a list of ids, each of at most {LONGEST_ID} characters"
        problems.append(Problem(f"configurable.{name}", wanted))
        return None
    return tuple(ids)


def evals_of(host: OpenWopHost) -> EvalRuns:
    """The eval runs of this host. If they are off, a read gets 404, a create 501 (openwop-contract §3.4)."""
    runs = host.kinds.get(KIND) if host.evals is not None else None
    if not isinstance(runs, EvalRuns):
        raise NotFound("this host does not offer eval runs")
    return runs


async def eval_run_of(call: HttpRequest, host: OpenWopHost) -> Run:
    run = await run_of(call, host)
    if run.kind != KIND:
        raise NotFound(f"run {run.id} is not an eval run")
    return run


async def eval_report(call: HttpRequest) -> Response:
    """The report of an eval run, ended or not, with evidence in pages; as NDJSON, all evidence alone."""
    params = call.query("first", "limit")
    first, limit = (
        _integer(params, name, default, least, limit)
        for name, default, least, limit in (("first", 0, 0, 999_999_999), ("limit", 100, 0, 1_000))
    )
    host = host_of(call)
    evals = evals_of(host)
    run = await eval_run_of(call, host)
    await call.audit_read(run)
    store = evals.service.store
    if call.accepts_ndjson:
        trials: int = run.metadata.get("trials", 1)
        stop = (first + limit) * trials if "limit" in params else None
        return Response(_lines(read_results(store, run, first * trials, stop)), 200, LINES)
    notes = await annotations(store, run) if host.feedback else []
    return answer(await detail_of(store, run, effective(notes), first=first, limit=limit))


async def _lines(results: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    async for line in results:
        yield line + b"\n"


def _integer(params: dict[str, str], name: str, default: int, minimum: int, maximum: int) -> int:
    text = params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and minimum <= int(text) <= maximum):
        raise InvalidRequest(
            Problem(name, f"expected a whole number from {minimum} to {maximum}, got {text[:40]!r}")
        )
    return int(text)


async def eval_summary(call: HttpRequest) -> Response:
    """The scorecard; 409 while the run is in flight, 404 if it ended without one."""
    call.query()
    host = host_of(call)
    evals = evals_of(host)
    run = await eval_run_of(call, host)
    if run.status not in CLOSED:
        raise NotEnded(run.id, run.status)
    summary = await evals.service.summary(run)
    if summary is None:
        raise NotScored(run.id, run.status)
    await call.audit_read(run, content=False)
    return answer(summary)
