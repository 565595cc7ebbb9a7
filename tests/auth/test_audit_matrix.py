"""What every route leaves in the audit log (FEP 6.4): a route without a row here fails."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from math import inf
from typing import Any

import msgspec
import pytest

from assay import Check, Services
from assay.agenteval.suites.suite_store import SuiteStore
from assay.auth import keys
from assay.auth.audit import lines, verify
from assay.auth.keys import SCOPES
from assay.backends.stores.memory import MemoryStore
from assay.checks import STANDARD
from assay.errors import EnvironmentFailure
from assay.fep.planning.request import contexts_of
from assay.fep.records.service import EvaluationService
from assay.fep.records.service import PlannedEvaluation as AskedFor
from assay.packs.store import PackStore
from assay.ports import RunQuery
from assay.ports.audit import AuditPayload
from assay.protocol.annotations import AnnotationCreate
from assay.runs.annotations import annotate, annotations
from assay.runs.copy import everything, replay
from assay.serve.application import ROUTES
from support.evals import AGENT, golden, suite_of
from support.packs import body_arguments, build_pack, files_of, reader
from support.servers.rest_client import Server, request_of, slow, sqlite
from support.workflows import ME, WorkflowHost

SUITE = suite_of(golden("t", "x", "x"))
EVAL = {"mode": "eval", "evalSuiteRef": SUITE["suiteId"], "agentId": AGENT}
WAITS = {"workflowId": "conformance-approval"}
SUITE_REF = f"{SUITE['suiteId']}@{SUITE['version']}"
REGISTERED = "local.shop.registered"
NEW = ""  # a run that the answer names
LOCATION, DIGEST, KEY = "location", "digest", "key"  # a run that a header names; the records of a deployment

PACK, NEWER = build_pack(), build_pack(files_of(version="2.0.0"))

# By operation: a body, and the lines it leaves, as action and what.
ROWS = {
    "runEvaluation": (request_of(1), [("run.start", NEW)]),
    "runBatch": ({"evaluations": [request_of(1)]}, [("run.start", NEW)]),
    "startEvaluation": (request_of(1), [("run.start", NEW)]),
    "listEvaluations": (None, []),
    "getEvaluation": (None, [("run.read", "evaluation")]),
    "followEvaluation": (None, [("run.read", "evaluation")]),
    "cancelEvaluation": ({}, [("run.cancel", "slow")]),
    "getOperation": (None, []),  # how far it is, and nothing of what is in it
    "listChecks": (None, []),
    "eraseEvaluation": (None, [("run.erase", "done")]),
    "eraseRun": (None, [("run.erase", "ended")]),
    "healthCheck": (None, []),
    "readinessProbe": (None, []),
    "livenessProbe": (None, []),
    "compareEvaluation": (None, [("run.read", "evaluation"), ("run.read", "evaluation")]),
    "getComparison": (None, [("run.read", "evaluation"), ("run.read", "evaluation")]),
    "listComparedCases": (None, [("run.read", "evaluation"), ("run.read", "evaluation")]),
    "getComparisonDiff": (None, [("run.read", "evaluation"), ("run.read", "evaluation")]),
    "getComparisonGrid": (None, [("run.read", "evaluation"), ("run.read", "evaluation")]),
    "getMetrics": (None, []),
    "getOpenAPI": (None, []),
    "getDocs": (None, []),
    "getCapabilities": (None, []),
    "getAsyncAPI": (None, []),
    "createRun": (EVAL, [("run.start", NEW)]),
    "getRun": (None, [("run.read", "run")]),
    "getEvalSummary": (None, [("run.read", "run")]),
    "getEvalReport": (None, [("run.read", "run")]),
    "streamRunEvents": (None, [("run.read", "run")]),
    "pollRunEvents": (None, [("run.read", "run")]),
    "cancelRun": ({}, [("run.cancel", "flow")]),
    "cancelRunByVerb": ({}, [("run.cancel", "flow")]),
    "bulkCancelRuns": ({"runIds": ["flow", "none"]}, [("refused", "none"), ("run.cancel", "flow")]),
    "forkRun": ({"mode": "replay"}, [("run.read", "run"), ("run.start", NEW)]),
    "resolveInterrupt": ({"resumeValue": {"action": "accept"}}, [("run.respond", "flow")]),
    "getRunAncestry": (None, []),
    "getWorkflow": (None, []),
    "getVerification": (None, [("run.read", "flow")]),
    "listTurns": (None, [("run.read", "flow")]),
    "diffRuns": (None, [("run.read", "run"), ("run.read", "run")]),
    "annotateRun": ({"signal": {"kind": "flag"}}, [("run.annotate", "run")]),
    "listAnnotations": (None, [("run.read", "run")]),
    "annotateEvaluation": ({"signal": {"kind": "flag"}}, [("run.annotate", "evaluation")]),
    "listEvaluationAnnotations": (None, [("run.read", "evaluation")]),
    "listAgents": (None, []),
    "getAgent": (None, []),
    "listDeployments": (None, []),
    "transitionDeployment": (
        {"version": "0.0.0", "transition": "promote"},
        [("deployment.promote", DIGEST), ("run.start", LOCATION)],
    ),
    "putSuite": (SUITE | {"version": "9.9.9"}, [("suite.put", f"{SUITE['suiteId']}@9.9.9")]),
    "listSuites": (None, []),
    "suiteHistory": (None, []),
    "getSuite": (None, []),
    "listRuns": (None, []),
    "listTraceWindows": (None, []),
    "queryRuns": ({}, []),
    "queryRunHistory": ({"name": "x", "kind": "agent-eval"}, []),
    "watchRuns": ({"waitSeconds": 0}, []),
    "getCase": (None, [("run.read", "run")]),
    "searchCases": ({"text": "x"}, [("run.read", "run")]),
    "getRunOverview": (None, [("run.read", "run")]),
    "getRunSlices": (None, [("run.read", "run")]),
    "getRunDistributions": (None, [("run.read", "run")]),
    "getReview": (None, [("run.read", "run")]),
    "drawReview": ({}, [("run.read", "run")]),
    "queryCases": ({}, [("run.read", "run")]),
    "gateRun": ({}, [("run.read", "run")]),
    "registerAgent": ({"url": "http://127.0.0.1:9/agent"}, [("agent.register", REGISTERED)]),
    "listRegisteredAgents": (None, []),
    "getRegisteredAgent": (None, []),
    "removeAgent": (None, [("agent.remove", REGISTERED)]),
    "createKey": ({"scopes": []}, [("key.create", NEW)]),
    "listKeys": (None, []),
    "revokeKey": (None, [("key.revoke", "old key")]),
    "publishPack": (NEWER.tarball, [("pack.install", NEWER.manifest.key)]),
    "verifyPack": (PACK.tarball, []),
    "listPacks": (None, []),
    "getPack": (None, []),
    "removePack": (None, [("pack.remove", PACK.manifest.key)]),
    "getSession": (None, []),
    "getSignIn": (None, []),
    "createSession": ({}, [("session.open", KEY)]),
    "endSession": (None, []),  # the key of the request is not a session
    "createSessionCode": ({}, []),
    "exportTraces": ({"resourceSpans": []}, []),
    "exportLogs": ({"resourceLogs": []}, []),
}
ENDS = {"cancelRun", "cancelRunByVerb", "bulkCancelRuns", "resolveInterrupt"}  # each a run of its own


class AuditedHost:
    """A host, a tenant of it with some runs, and another without."""

    def __init__(self, host):
        self.host, self.key, self.other = host, host.key("ours", SCOPES), host.key(tenant="theirs")
        with host.client(self.key) as client:
            assert client.post("/v1/host/assay/suites", json=SUITE).status_code == 201
            assert client.post("/v1/host/assay/packs", **body_arguments(PACK.tarball)).status_code == 201
            agent = client.put(
                f"/v1/host/assay/agents/{REGISTERED}", json={"url": "http://127.0.0.1:9/agent"}
            )
            assert agent.status_code == 201
            self.old_key = client.post("/v1/host/assay/keys", json={}).json()["id"]
            self.evaluation = client.post("/v1/evaluate", json=request_of(1)).json()["evaluation_id"]
            self.slow = client.post("/v1/evaluations", json=request_of(1, [slow(60)])).json()["operation_id"]
            self.done = client.post("/v1/evaluate", json=request_of(1)).json()["evaluation_id"]
            self.run, self.ended = (client.post("/v1/runs", json=EVAL).json()["runId"] for _ in range(2))
            for run in (self.run, self.ended):
                while not client.get(f"/v1/runs/{run}/events/poll?lastSequence=99").json()["isComplete"]:
                    pass
            self.flow = self.waiting(client)

    def waiting(self, client):
        run = client.post("/v1/runs", json=WAITS).json()["runId"]
        while client.get(f"/v1/runs/{run}").json()["status"] != "waiting-approval":
            pass
        return run

    def path(self, route, flow):
        path = route.path
        naming = {"{evaluation_id}": self.evaluation, "{operation_id}": self.evaluation}
        if route.id == "cancelEvaluation":
            naming = {"{evaluation_id}": self.slow}
        if route.id == "eraseEvaluation":
            naming = {"{evaluation_id}": self.done}
        ours = (
            flow if route.id in ENDS or route.id in ("getVerification", "listTurns", "eraseRun") else self.run
        )
        naming |= {"{run_id}": ours, "{node_id}": "gate", "{agent_id}": AGENT}
        naming |= {"{agent_id}": REGISTERED} if path.startswith("/v1/host/assay/agents/") else {}
        naming |= {
            "{workflow_id}": "conformance-noop",
            "{suite_ref}": SUITE_REF,
            "{suite_id}": SUITE["suiteId"],
            "{project}": "support",
            "{position}": "0",
            "{pack_ref}": PACK.manifest.key,
            "{key_id}": self.old_key,
        }
        for name, value in naming.items():
            path = path.replace(name, value)
        if "/host/assay/comparison" in path:
            return f"{path}?runs={self.evaluation},{self.evaluation}"
        if path.endswith("/comparison"):
            return f"{path}?baseline={self.evaluation}"
        return f"{path}?against={self.run}" if path.endswith(":diff") else path

    def audit_lines(self, tenant, request):
        async def all_of_it():
            found = [
                msgspec.json.decode(one.data, type=AuditPayload)
                async for one in lines(self.host.store, tenant)
            ]
            return [one for one in found if one.request == request]

        return self.host.do(all_of_it())


@pytest.fixture(scope="module")
def audited_host(tmp_path_factory):
    traces = {"support": {"checks": [{"contains": "x"}]}}
    with Server(sqlite(tmp_path_factory.mktemp("lines")), seeded=True, traces=traces) as host:
        yield AuditedHost(host)
        assert host.do(verify(host.store)).problems == []


def test_a_replayed_batch_is_audited_as_reads_of_its_runs(audited_host):
    batch = {"evaluations": [request_of(1), {}, request_of(1)]}
    with audited_host.host.client(audited_host.key) as client:
        for number in ("once", "again"):
            headers = {"idempotency-key": "b", "x-request-id": f"batch-{number}"}
            runs = [
                one["evaluation_id"]
                for one in client.post("/v1/evaluate:batch", json=batch, headers=headers).json()["results"]
            ]
    audited = [(one.action, one.what) for one in audited_host.audit_lines("ours", "batch-again")]
    assert sorted(audited) == sorted(("run.read", run) for run in runs)


def test_every_route_has_a_row_and_every_row_a_route():
    assert {route.id for route in ROUTES} == ROWS.keys()


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.id)
def test_every_route_writes_its_audit_lines(audited_host, route):
    body, wanted = ROWS[route.id]
    with audited_host.host.client(audited_host.key) as client:
        flow = audited_host.waiting(client) if route.id in ENDS else audited_host.flow
        flow = audited_host.ended if route.id == "eraseRun" else flow
        known = {
            "evaluation": audited_host.evaluation,
            "slow": audited_host.slow,
            "done": audited_host.done,
            "ended": audited_host.ended,
            "run": audited_host.run,
            "flow": flow,
            "none": "run-none",
            "old key": audited_host.old_key,
        }
        if route.id == "bulkCancelRuns":
            body = {"runIds": [known["flow"], known["none"]]}
        if route.id == "createSession":
            body = {"code": client.post("/v1/host/assay/session:code").json()["code"]}
        client.headers["X-Request-Id"] = route.id
        answer = client.request(route.method, audited_host.path(route, flow), **body_arguments(body))
        assert answer.status_code in (200, 201, 202), answer.text
    found = audited_host.audit_lines("ours", route.id)
    who = audited_host.key.split("_")[1]
    assert all(
        (one.who, one.outcome) == (who, "not_found" if one.action == "refused" else "ok") for one in found
    )
    assert len(found) == len(wanted)
    for one, (action, what) in zip(sorted(found, key=lambda one: one.action), wanted, strict=True):
        assert one.action == action
        if what == LOCATION:
            assert answer.headers["location"] == f"/v1/runs/{one.what}"
        elif what == KEY:
            assert one.what == who
        elif what == DIGEST:
            assert one.what.startswith(f"{AGENT}@0.0.0 revision 1 sha256:")
        else:
            assert one.what in answer.text if what == NEW else one.what == known.get(what, what)


@pytest.mark.parametrize(
    "route", [one for one in ROUTES if "{run_id}" in one.path], ids=lambda route: route.id
)
def test_a_read_of_another_tenants_run_is_audited_for_the_caller(audited_host, route):
    body = ROWS[route.id][0]
    request = f"not-{route.id}"
    with audited_host.host.client(audited_host.other) as client:
        client.headers["X-Request-Id"] = request
        assert (
            client.request(
                route.method, audited_host.path(route, audited_host.run), **body_arguments(body)
            ).status_code
            == 404
        )
    (line,) = audited_host.audit_lines("theirs", request)
    assert (line.action, line.what, line.outcome) == ("refused", audited_host.run, "not_found")
    assert audited_host.audit_lines("ours", request) == []


def test_a_comparison_with_another_tenants_run_is_audited(audited_host):
    with audited_host.host.client(audited_host.key) as client:
        path = f"/v1/runs/{audited_host.run}:diff?against=run-none"
        assert client.get(path, headers={"X-Request-Id": "two"}).status_code == 404
    assert [(one.action, one.what) for one in audited_host.audit_lines("ours", "two")] == [
        ("refused", "run-none")
    ]


# Together or not at all


class Failing(MemoryStore):
    """Of what its task writes, so much is written and no more."""

    left: float = inf
    task: Any = None

    async def commit(self, batch):
        if asyncio.current_task() is self.task:
            if not self.left:
                raise EnvironmentFailure("the database is away")
            self.left -= 1
        return await super().commit(batch)


NOW = datetime.now(UTC)


async def makes_a_key(store):
    await keys.create(store, tenant="t", now=NOW)


async def has_a_key(store):
    return bool(await keys.list_keys(store))


async def ends_a_key(store):
    (key,) = await keys.list_keys(store)
    await keys.revoke(store, key.id, now=NOW)


async def has_ended_a_key(store):
    return (await keys.list_keys(store))[0].revoked is not None


def evaluation(many):
    async def start(store):
        service = EvaluationService(store, STANDARD, Services())
        checks = [Check(type="contains", arguments={"text": "$.output.value", "phrases": ["x" * 100]})]
        cases = [{"id": str(at), "input": "x" * 500_000} for at in range(many)]
        contexts = contexts_of(cases, [{"value": at} for at in range(many)], service.services.limits)
        audited_host = AskedFor(service.plan(checks), checks, None, many)
        if many == 1:
            await service.save(await service.run_inline(audited_host, contexts, "t"))
        else:
            await service.submit(audited_host, contexts, "t", "holder")

    return start


async def flows(store):
    async with WorkflowHost(store=store) as house:
        request = house.workflows.request(ME, "conformance-noop", None, None)
        await house.workflows.open(request, "t", "run-1")


async def waits(store):
    async with WorkflowHost(store=store) as house:
        assert (await house.run("conformance-approval")).status == "waiting-approval"


async def ends(store):
    async with WorkflowHost(store=store) as house:
        assert (await house.run("conformance-noop")).status == "completed"


async def answers(store):
    async with WorkflowHost(store=store) as house:
        (run,) = await store.runs(RunQuery(tenant="t"))
        await house.workflows.respond(ME, run.id, "gate", {"action": "accept"})
        store.task = None  # what follows from it is the run's own
        await house.executor.wait(run.id)


async def has_been_answered(store):
    (run,) = await store.runs(RunQuery(tenant="t"))
    return run.status != "waiting-approval"


async def copies(store):
    (run,) = await store.runs(RunQuery(tenant="t"))
    await replay(store, run, everything(()), run="copy")


async def has_a_copy(store):
    return await store.run("copy") is not None


async def has_a_run(store):
    return bool(await store.runs(RunQuery(tenant="t")))


async def annotates(store):
    (run,) = await store.runs(RunQuery(tenant="t"))
    annotation = msgspec.convert({"signal": {"kind": "flag"}}, AnnotationCreate)
    await annotate(store, run, annotation, "me", NOW, str)


async def has_an_annotation(store):
    (run,) = await store.runs(RunQuery(tenant="t"))
    return bool(await annotations(store, run))


async def shelves(store):
    await SuiteStore(store).put("t", SUITE)


async def installs(store):
    await PackStore(store).install("t", reader().read_archive(PACK.tarball), NOW)


async def removes(store):
    await PackStore(store).remove("t", PACK.manifest.key, NOW)


async def has_a_pack(store):
    return bool(await PackStore(store).list("t"))


async def has_no_pack(store):
    return not await has_a_pack(store)


async def has_a_suite(store):
    return bool(await SuiteStore(store).list("t"))


TOGETHER = {  # by what is done: what must be there before, the action, and whether it was done
    makes_a_key: (None, "key.create", has_a_key),
    ends_a_key: (makes_a_key, "key.revoke", has_ended_a_key),
    evaluation(1): (None, "run.start", has_a_run),
    evaluation(4): (None, "run.start", has_a_run),
    flows: (None, "run.start", has_a_run),
    copies: (ends, "run.start", has_a_copy),
    answers: (waits, "run.respond", has_been_answered),
    annotates: (evaluation(1), "run.annotate", has_an_annotation),
    shelves: (None, "suite.put", has_a_suite),
    installs: (None, "pack.install", has_a_pack),
    removes: (installs, "pack.remove", has_no_pack),
}


@pytest.mark.anyio
@pytest.mark.parametrize("written", range(4))
@pytest.mark.parametrize("do", TOGETHER, ids=lambda do: do.__name__)
async def test_a_change_and_its_audit_line_are_one_transaction(do, written):
    """However many of its commits arrive before the database goes away."""
    before, action, done = TOGETHER[do]
    store = Failing()
    if before is not None:
        await before(store)
    many = await how_many(store, action)
    store.task, store.left = asyncio.current_task(), written
    with suppress(EnvironmentFailure):
        await do(store)
    store.task = None
    assert await how_many(store, action) - many == await done(store)
    assert written == 0 or await done(store)


async def how_many(store, action):
    found = [msgspec.json.decode(one.data, type=AuditPayload) async for one in lines(store, "t")]
    return sum(one.action == action for one in found)
