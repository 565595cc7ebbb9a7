"""Deployments over HTTP on SQLite and PostgreSQL: every rule of openwop-contract §9.3, as a client meets it."""

import asyncio
import itertools
import time
from datetime import UTC, datetime, timedelta

import jsonschema_rs
import msgspec
import pytest
from msgspec import UNSET

from assay.auth.audit import verify
from assay.auth.keys import DEFAULT, DEPLOY
from assay.comparison.policy import ApprovalRules, PromotionPolicy, PromotionRules
from assay.ports import Principal, PutDocument, Transaction
from assay.promotion.audit_lines import DeploymentVerifier
from assay.promotion.management import decide
from assay.promotion.records import KIND, AgentRecords, VersionRecord, decode, encode
from assay.protocol.deployments import TransitionRequest
from assay.seams.routes import SEAMS
from assay.seams.sample_agents import SAMPLES, ChannelAgent
from assay.serve.application import ROUTES
from assay.serve.openwop.features import OpenWopFeatures
from support.evals import golden
from support.servers.openwop_client import finish_run, log_of, start_run, suite, types_of
from support.servers.rest_client import Server, answer_task, sqlite
from support.spec_files import SHARED

SCHEMAS = SHARED / "openwop" / "schemas"
RELEASE = DEFAULT | DEPLOY
FORBIDDEN = {
    "manifestBody",
    "manifest",
    "prompt",
    "systemPrompt",
    "body",
    "secret",
    "credentials",
    "token",
    "apiKey",
}
APPROVAL = ApprovalRules(gate="prod", states=("active", "rolled-back"), overriders=("*",))
POLICY = PromotionPolicy(
    agents={
        "test.approved.*": PromotionRules(eval_states=(), approval=APPROVAL),
        "test.quorum.*": PromotionRules(
            eval_states=(), approval=ApprovalRules(quorum=2, overriders=("nobody",))
        ),
        "test.evaluated.*": PromotionRules(
            eval_states=("active",), approval=ApprovalRules(author_may_approve=True)
        ),
        "test.effective.*": PromotionRules(
            eval_states=("active",), effective_scores=True, approval=ApprovalRules(author_may_approve=True)
        ),
        "test.fresh.*": PromotionRules(max_age_seconds=3600, min_score=0.9, suite="local.tests.evals.good"),
        "test.verdict.*": PromotionRules(eval_states=("active",), max_regression=0.35),
        "test.free.*": PromotionRules(eval_states=()),
        "test.safe.*": PromotionRules(eval_states=("active",), allowed_findings={"low": 1}),
        "test.compared.*": PromotionRules(max_regression=0),
        "test.stepwise.*": PromotionRules(eval_states=(), approval=ApprovalRules(states=("test", "staged"))),
    }
)
GOOD = suite(golden("a", "Paris", "Paris"), name="good")
BAD = suite(golden("a", "Paris", "Rome"), name="bad")


class MovingClock:
    """The system's clock, ahead or behind by some time."""

    def __init__(self):
        self.ahead = timedelta()

    def now(self):
        return datetime.now(UTC) + self.ahead


class ManyVersions(ChannelAgent):
    """An agent that has every version, under any id."""

    def __init__(self, agent_id, version="1.0.0"):
        super().__init__(version)
        self.card = msgspec.structs.replace(self.card, agent_id=agent_id)

    def at(self, version):
        return ManyVersions(self.card.agent_id, version) if super().at(version) else None

    async def invoke(self, task, context):
        versions = task if isinstance(task, dict) else {}
        answer = await answer_task(versions.get(self.card.version, task))
        return msgspec.structs.replace(await super().invoke(task, context), result=answer)


def agents():
    """Each test has agents of its own, so that all share one server."""
    groups = (
        "default",
        "approved",
        "quorum",
        "evaluated",
        "effective",
        "fresh",
        "free",
        "stepwise",
        "compared",
        "verdict",
        "safe",
    )
    return [ManyVersions(f"test.{group}.{at}") for group in groups for at in range(12)]


@pytest.fixture(scope="module")
def server(database):
    with _serve(database) as running:
        yield running


def _serve(address):
    return Server(
        address,
        agents=[*agents(), *SAMPLES],
        policy=POLICY,
        clock=MovingClock(),
        seeded=True,
        routes=[*ROUTES, *SEAMS],
    )


@pytest.fixture
def client(server):
    with server.client(scopes=RELEASE) as client:
        yield client


@pytest.fixture
def clock(server):
    yield server.clock
    server.clock.ahead = timedelta()


numbers = itertools.count()


def agent(group, client):
    """A fresh agent: a new tenant would need a new key, so each test takes the next one of its group."""
    for at in range(12):
        id = f"test.{group}.{at}"
        if [one["state"] for one in client.get(f"/v1/agents/{id}/deployments").json()] == ["draft"]:
            return id
    raise AssertionError(f"no fresh agent is left in {group}")


def post(client, agent_id, version="1.0.0", transition="promote", **members):
    return client.post(
        f"/v1/agents/{agent_id}/deployments", json={"version": version, "transition": transition, **members}
    )


def records(client, agent_id):
    return {one["version"]: one for one in client.get(f"/v1/agents/{agent_id}/deployments").json()}


def run_of(answer):
    return answer.headers["location"].rpartition("/")[2]


def active(client, agent_id, version="1.0.0", **members):
    """A version on its way to active; the last answer."""
    for state in ("test", "staged"):
        assert post(client, agent_id, version, toState=state).status_code == 200
    return post(client, agent_id, version, toState="active", **members)


def respond(client, run, action="accept", **more):
    return client.post(
        f"/v1/runs/{run}/interrupts/approval", json={"resumeValue": {"action": action, **more}}
    )


def valid(name, document):
    if not SCHEMAS.exists():
        pytest.skip(f"{SCHEMAS} is not here")
    jsonschema_rs.validator_for(msgspec.json.decode((SCHEMAS / name).read_bytes())).validate(document)


def evaluated(client, agent_id, document=GOOD, version="1.0.0"):
    return finish_run(client, document, agent_id, agentVersion=version)


def conditions(answer):
    assert answer.status_code == 403, answer.text
    assert answer.json()["error"] == "eval_gate_unmet"
    return [one["code"] for one in answer.json()["details"]["conditions"]]


def test_a_version_advances_one_state_at_a_time_with_its_evidence(client):
    id = agent("default", client)
    run = evaluated(client, id)
    answers = [
        post(client, id, toState="test"),
        post(client, id, toState="staged", evalRunId=run),
        post(client, id, toState="active", evalRunId=run, channel="stable", canaryPercent=10),
    ]
    assert [one.json()["state"] for one in answers] == ["test", "staged", "active"]
    record = answers[-1].json()
    assert record == records(client, id)["1.0.0"] | {}
    assert (record["channels"], record["canaryPercent"], record["evalRunId"]) == (["stable"], 10, run)
    events = log_of(client, run_of(answers[-1]))
    assert types_of(events) == [
        "run.started",
        "authorization.decided",
        "deployment.promoted",
        "run.completed",
    ]
    promoted = events[2]["payload"]
    assert promoted == {
        "agentId": id, "toVersion": "1.0.0", "toState": "active", "channel": "stable", "canaryPercent": 10, "evalRunId": run,
    }  # fmt: skip
    assert not FORBIDDEN & promoted.keys()
    valid("agent-deployment.schema.json", record)


REFUSED = [
    ({"toState": "staged"}, "toState"),
    ({"toState": "active"}, "toState"),
    ({"transition": "pause"}, "transition"),
    ({"transition": "deprecate"}, "transition"),
    ({"transition": "rollback"}, "transition"),
    ({"transition": "adjust-canary", "canaryPercent": 5}, "transition"),
    ({"channel": "stable"}, "channel"),
    ({"canaryPercent": 5}, "canaryPercent"),
    ({"version": "9.9"}, "version"),
    ({"version": ""}, "version"),
    ({"transition": "erase"}, "transition"),
    ({"canaryPercent": 101}, "canaryPercent"),
    ({"evalRunId": ""}, "evalRunId"),
    ({"other": 1}, "other"),
]


def test_an_invalid_transition_is_400_and_changes_nothing(client):
    """A table over one draft: skipped states, unknown versions, members without an effect."""
    id = agent("free", client)
    before = records(client, id)
    for members, place in REFUSED:
        answer = post(client, id, **members)
        assert (answer.status_code, answer.json()["error"]) == (400, "validation_error"), (
            members,
            answer.text,
        )
        assert place in answer.json()["message"], (members, answer.text)
    assert records(client, id) == before
    assert active(client, id).json()["state"] == "active"
    late = [({"toState": "test"}, "transition"), ({"transition": "rollback"}, "version"),
            ({"transition": "adjust-canary"}, "canaryPercent"), ({"transition": "pause", "toState": "test"}, "toState"),
            ({"transition": "pause", "evalRunId": "run-1"}, "evalRunId")]  # fmt: skip
    for members, place in late:
        answer = post(client, id, **members)
        assert answer.status_code == 400, (members, answer.text)
        assert place in answer.json()["message"], (members, answer.text)
    assert post(client, id, "1.0.1").status_code == 200
    assert post(client, id, "1.0.1").status_code == 200
    latest = post(client, id, "1.0.1", toState="active", channel="latest")
    assert latest.status_code == 400
    assert "stable, canary" in latest.json()["message"]
    assert post(client, "test.nowhere.1").status_code == 404
    assert client.get("/v1/agents/test.nowhere.1/deployments").status_code == 404


def test_an_active_version_is_paused_resumed_deprecated_and_rolled_back(client):
    id = agent("free", client)
    active(client, id, channel="stable")
    moved = active(client, id, "1.1.0", channel="stable")
    promoted = log_of(client, run_of(moved))[2]["payload"]
    assert promoted["fromVersion"] == "1.0.0"
    assert "channels" not in records(client, id)["1.0.0"]
    adjusted = post(client, id, "1.1.0", "adjust-canary", canaryPercent=30)
    assert log_of(client, run_of(adjusted))[2]["payload"] == {
        "agentId": id, "version": "1.1.0", "fromPercent": 100, "toPercent": 30,
    }  # fmt: skip
    assert records(client, id)["1.0.0"]["channels"] == ["stable"]
    paused = post(client, id, "1.1.0", "pause")
    changed = log_of(client, run_of(paused))[2]
    assert changed["type"] == "deployment.state.changed"
    assert (changed["payload"]["fromState"], changed["payload"]["toState"]) == ("active", "paused")
    assert post(client, id, "1.1.0", toState="active").json()["state"] == "active"
    back = post(client, id, "1.1.0", "rollback", reason="slow, key sk-abcdefghijklmnopqrstuvwxyz123456")
    assert back.json() | {} == {
        "agentId": id, "version": "1.1.0", "state": "rolled-back", "canaryPercent": 30, "rollbackPointer": "1.0.0",
    }  # fmt: skip
    event = log_of(client, run_of(back))[2]
    assert event["type"] == "deployment.rolled-back"
    assert (event["payload"]["fromVersion"], event["payload"]["toVersion"]) == ("1.1.0", "1.0.0")
    assert "sk-abc" not in back.text + str(event)
    assert records(client, id)["1.0.0"]["channels"] == ["stable"]
    assert post(client, id, "1.0.0", "deprecate").json()["state"] == "deprecated"
    for transition in ("promote", "pause", "rollback", "deprecate"):
        assert post(client, id, "1.0.0", transition).status_code == 400
    for one in records(client, id).values():
        valid("agent-deployment.schema.json", one)


SCOPES = [
    ("promote", {}, "deploy:promote"),
    ("adjust-canary", {"canaryPercent": 1}, "deploy:promote"),
    ("pause", {}, "deploy:pause"),
    ("deprecate", {}, "deploy:pause"),
    ("rollback", {}, "deploy:rollback"),
]


def test_a_key_without_the_scope_is_refused_first_and_the_refusal_is_recorded(server, client):
    id = agent("free", client)
    with server.client(scopes=RELEASE - {"deploy:promote"}) as keyed, server.client(scopes=DEFAULT) as none:
        for transition, members, scope in SCOPES:
            own = keyed if scope == "deploy:promote" else none
            answer = post(own, id, transition=transition, **members)
            assert (answer.status_code, answer.json()["error"]) == (403, "forbidden"), answer.text
            assert answer.json()["details"]["scopeRequired"] == scope
            named = client.get(f"/v1/runs/{answer.json()['details']['runId']}").json()
            assert (named["status"], named["error"]["code"]) == ("failed", "forbidden")
        assert post(none, "test.nowhere.1").status_code == 403
        assert none.post(f"/v1/agents/{id}/deployments", content=b"{").status_code == 403
        assert keyed.post(f"/v1/agents/{id}/deployments", json={}).status_code == 400
    with server.client("no such key") as unknown:
        assert post(unknown, id).status_code == 401
    failed = client.get("/v1/host/assay/runs?mode=deployment&status=failed").json()["runs"]
    assert {one["transition"] for one in failed if one["agentId"] == id} >= {"promote", "pause", "rollback"}
    events = log_of(client, next(one for one in failed if one["agentId"] == id)["runId"])
    assert types_of(events) == ["run.started", "authorization.decided", "run.failed"]
    assert events[1]["payload"]["allowed"] is False
    assert list(records(client, id).values()) == [{"agentId": id, "version": "1.0.0", "state": "draft"}]


def test_every_unmet_condition_of_the_evidence_is_listed(server, client, clock):
    """Foreign, failed, unfinished, copied, erased, stale and other runs; each leaves the record as it is."""
    id, other = agent("fresh", client), "test.fresh.11"
    assert post(client, id, toState="test").status_code == 200
    good = evaluated(client, id)
    with server.client(tenant="other", scopes=RELEASE) as foreign:
        theirs = evaluated(foreign, id)
    replayed = client.post(f"/v1/runs/{good}:fork", json={"mode": "replay"}).json()["runId"]
    slow = start_run(client, suite(golden("a", 1, {"wait": 30, "say": 1}), name="slow"), id)
    cases = [
        ({}, ["eval_run_required"]),
        ({"evalRunId": "run-unknown"}, ["eval_run_unknown"]),
        ({"evalRunId": "run-\u00e9"}, ["eval_run_unknown"]),
        ({"evalRunId": theirs}, ["eval_run_unknown"]),
        ({"evalRunId": evaluated(client, other)}, ["eval_run_other_agent"]),
        ({"evalRunId": evaluated(client, id, version="1.0.1")}, ["eval_run_other_version"]),
        ({"evalRunId": replayed}, ["eval_run_copied"]),
        ({"evalRunId": slow}, ["eval_run_not_ended"]),
        ({"evalRunId": evaluated(client, id, BAD)}, ["eval_suite", "eval_not_passed", "eval_score"]),
    ]
    for members, expected in cases:
        answer = post(client, id, toState="staged", **members)
        assert conditions(answer) == expected, members
        events = log_of(client, answer.json()["details"]["runId"])
        assert types_of(events) == ["run.started", "authorization.decided", "run.failed"]
        assert all(one["command"].startswith("assay ") for one in answer.json()["details"]["conditions"])
    client.post(f"/v1/runs/{slow}/cancel", json={})
    assert conditions(post(client, id, toState="staged", evalRunId=slow)) == ["eval_run_not_completed"]
    clock.ahead = timedelta(hours=2)
    assert conditions(post(client, id, toState="staged", evalRunId=good)) == ["eval_run_stale"]
    clock.ahead = -timedelta(hours=2)
    assert conditions(post(client, id, toState="staged", evalRunId=good)) == ["eval_run_in_future"]
    clock.ahead = timedelta()
    erased = evaluated(client, id)
    assert client.delete(f"/v1/host/assay/runs/{erased}").status_code == 200
    assert conditions(post(client, id, toState="staged", evalRunId=erased)) == ["eval_run_erased"]
    assert records(client, id)["1.0.0"]["state"] == "test"
    assert post(client, id, toState="staged", evalRunId=good).json()["evalRunId"] == good


def test_a_regression_that_the_verdict_of_a_comparison_shows_is_refused(client):
    """A loss of 0.3 is within the policy; its interval is not."""
    id = agent("verdict", client)
    tasks = [golden(f"t{at}", "yes", {"say": "yes", "1.1.0": "no" if at < 6 else "yes"}) for at in range(20)]
    document = suite(*tasks, name="verdict", modes=("golden", "regression"), thresholds={"passScore": 0.5})
    first = finish_run(client, document, id, agentVersion="1.0.0", evalModes=["golden"])
    assert active(client, id, evalRunId=first).json()["state"] == "active"
    second = finish_run(client, document, id, baselineRunId=first, agentVersion="1.1.0")
    refused = active(client, id, "1.1.0", evalRunId=second)
    assert conditions(refused) == ["eval_regression"], refused.text
    assert "got 1.000 → 0.700 (−0.300, 95% −0.5" in refused.text
    assert "20 cases) regressed" in refused.json()["message"]
    assert client.delete(f"/v1/host/assay/runs/{first}").status_code == 200
    unknown = post(client, id, "1.1.0", toState="active", evalRunId=second)
    assert conditions(unknown) == ["eval_regression_unknown"]


def test_findings_that_the_policy_does_not_allow_are_refused(client):
    """A passed run with a finding, a run that did not look for findings, and a run without one."""
    id = agent("safe", client)
    loud = suite(golden("a", "\x1b[31mParis", "\x1b[31mParis"), name="loud", modes=("adversarial",))
    answer = active(client, id, evalRunId=evaluated(client, id, loud))
    assert conditions(answer) == ["eval_findings"]
    assert "expected at most 0 findings of severity medium, got 1" in answer.text
    assert conditions(post(client, id, toState="active", evalRunId=evaluated(client, id))) == [
        "eval_findings"
    ]
    assert records(client, id)["1.0.0"]["state"] == "staged"
    quiet = suite(golden("a", "Paris", "Paris"), name="quiet", modes=("adversarial",))
    assert post(client, id, toState="active", evalRunId=evaluated(client, id, quiet)).status_code == 200


def test_a_transition_waits_for_its_approval_and_the_record_is_unchanged(server, client):
    id = agent("approved", client)
    waits = active(client, id, channel="stable")
    assert waits.status_code == 202
    body = waits.json()
    assert (body["status"], body["nodeId"], body["record"]["state"]) == (
        "waiting-approval",
        "approval",
        "staged",
    )
    run = body["runId"]
    assert client.get(f"/v1/runs/{run}").json()["status"] == "waiting-approval"
    events = client.get(f"/v1/runs/{run}/events/poll").json()["events"]
    assert types_of(events) == [
        "run.started",
        "authorization.decided",
        "interrupt.requested",
        "node.suspended",
    ]
    assert events[2]["payload"]["kind"] == "approval"
    valid("suspend-request.schema.json", events[2]["payload"])
    own = respond(client, run)
    assert (own.status_code, own.json()["details"]) == (403, {"reason": "not_an_approver"})
    assert respond(client, run, "maybe").status_code == 400
    assert client.post(f"/v1/runs/{run}/interrupts/other", json={"resumeValue": {}}).status_code == 404
    assert records(client, id)["1.0.0"]["state"] == "staged"
    with server.client(scopes=DEFAULT) as approver:
        assert respond(approver, run).json()["status"] == "completed"
        assert respond(approver, run).status_code == 409
    events = log_of(client, run)
    assert types_of(events)[4:] == [
        "approval.granted", "interrupt.resolved", "node.resumed", "deployment.promoted", "run.completed",
    ]  # fmt: skip
    assert events[-2]["payload"]["approvalGateId"] == "prod"
    record = records(client, id)["1.0.0"]
    assert (record["state"], record["approvalGateId"], record["channels"]) == ("active", "prod", ["stable"])
    for event in events:
        valid("run-event.schema.json", event)


def test_an_approval_is_rejected_overridden_expired_or_cancelled(server, client, clock):
    id = agent("approved", client)
    rejected = active(client, id).json()["runId"]
    with server.client(scopes=DEFAULT) as approver:
        assert respond(approver, rejected, "reject", reason="not now").json()["status"] == "failed"
        assert log_of(client, rejected)[-1]["payload"]["error"]["code"] == "decision_rejected"
        assert records(client, id)["1.0.0"]["state"] == "staged"
        cancelled = post(client, id).json()["runId"]
        assert client.post(f"/v1/runs/{cancelled}/cancel", json={}).json()["status"] == "cancelled"
        assert respond(approver, cancelled).status_code == 409
        late, later = post(client, id).json()["runId"], post(client, id).json()["runId"]
        clock.ahead = timedelta(days=8)
        assert respond(approver, late).status_code == 409
        assert server.do(server.promotions.expire_waits()) >= 1
        clock.ahead = timedelta()
        for run in (late, later):
            events = log_of(client, run)
            assert events[4]["payload"] == {"gateId": "prod", "principal": "host", "reason": "timeout"}
            assert events[-1]["payload"]["error"]["code"] == "decision_rejected"
        assert records(client, id)["1.0.0"]["state"] == "staged"
        run = post(client, id).json()["runId"]
        assert respond(approver, run, "override").status_code == 400
        assert respond(approver, run, "override", reason="an emergency").json()["status"] == "completed"
        assert "approval.overridden" in types_of(log_of(client, run))
        assert records(client, id)["1.0.0"]["state"] == "active"


def test_a_quorum_needs_different_principals(server, client):
    id = agent("quorum", client)
    run = active(client, id).json()["runId"]
    with server.client(scopes=DEFAULT) as one, server.client(scopes=DEFAULT) as two:
        assert respond(one, run).json()["status"] == "waiting-approval"
        assert respond(one, run).status_code == 409
        assert respond(two, run, "override", reason="now").status_code == 403
        assert records(client, id)["1.0.0"]["state"] == "staged"
        assert respond(two, run).json()["status"] == "completed"
    granted = [
        event["payload"]["quorumProgress"]
        for event in log_of(client, run)
        if event["type"] == "approval.granted"
    ]
    assert granted == [{"granted": 1, "required": 2}, {"granted": 2, "required": 2}]


def test_two_approvers_at_once_both_count(server, client):
    run = active(client, agent("quorum", client)).json()["runId"]
    approvers = [Principal(tenant="acme", id=id, scopes=frozenset({"approvals:respond"})) for id in "ab"]

    async def race():
        answers = (server.promotions.respond(one, run, "approval", {"action": "accept"}) for one in approvers)
        return await asyncio.gather(*answers)

    assert "completed" in {one.status for one in server.do(race())}


def test_a_grant_counts_only_if_the_policy_still_has_its_principal():
    """The policy may change while a transition waits."""
    rules = ApprovalRules(approvers=("new-*",), quorum=2)
    principal = Principal(tenant="acme", id="new-1", scopes=frozenset({"approvals:respond"}))
    decision = decide(rules, principal, "author", {"action": "accept"}, ("old-1", "author"))
    assert (decision.grants, decision.final) == (("new-1",), False)


@pytest.mark.parametrize("group", ["evaluated", "effective"])
def test_evidence_is_checked_again_when_it_is_approved(client, group):
    """An eval run that is erased, or corrected, while the approval waits."""
    id = agent(group, client)
    run = evaluated(client, id)
    waits = active(client, id, evalRunId=run).json()["runId"]
    if group == "evaluated":
        client.delete(f"/v1/host/assay/runs/{run}")
        expected = "eval_run_erased"
    else:
        scored = next(event for event in log_of(client, run) if event["type"] == "eval.scored")
        signal = {"kind": "correction", "correction": '{"score": 0, "passed": false}'}
        body = {"target": {"eventId": scored["eventId"]}, "signal": signal}
        assert client.post(f"/v1/runs/{run}/annotations", json=body).status_code == 201
        expected = "eval_not_passed"
    assert respond(client, waits).json()["status"] == "failed"
    error = log_of(client, waits)[-1]["payload"]["error"]
    assert (error["code"], [one["code"] for one in error["details"]["conditions"]]) == (
        "eval_gate_unmet",
        [expected],
    )
    assert records(client, id)["1.0.0"]["state"] == "staged"


@pytest.mark.parametrize("change", ["erase", "annotate", "fork"])
def test_evidence_that_changes_between_the_check_and_the_commit(server, client, change, monkeypatch):
    """The transaction itself compares: what changed is checked again before anything is written."""
    id = agent("effective", client)
    run, waits = evaluated(client, id), ""
    waits = active(client, id, evalRunId=run).json()["runId"]
    commit, changed = server.store.commit, []

    async def late(batch):
        if batch.requires and not changed:
            changed.append(True)
            await asyncio.to_thread(_change, client, run, change)
        return await commit(batch)

    monkeypatch.setattr(server.store, "commit", late)
    status = respond(client, waits).json()["status"]
    assert changed
    assert status == ("completed" if change == "fork" else "failed")
    assert records(client, id)["1.0.0"]["state"] == ("active" if change == "fork" else "staged")


def _change(client, run, change):
    if change == "erase":
        assert client.delete(f"/v1/host/assay/runs/{run}").status_code == 200
    elif change == "fork":
        assert client.post(f"/v1/runs/{run}:fork", json={"mode": "replay"}).status_code == 201
    else:
        scored = next(event for event in log_of(client, run) if event["type"] == "eval.scored")
        signal = {"kind": "correction", "correction": '{"score": 0, "passed": false}'}
        body = {"target": {"eventId": scored["eventId"]}, "signal": signal}
        assert client.post(f"/v1/runs/{run}/annotations", json=body).status_code == 201


@pytest.mark.parametrize("to_state", ["test", UNSET], ids=["to test", "to the next state"])
def test_of_concurrent_promotions_one_wins_and_the_others_see_the_new_state(
    server, client, monkeypatch, to_state
):
    id = agent("free", client)
    principal = Principal(tenant="acme", id="racer", scopes=RELEASE)
    commit, racers, arrived = server.store.commit, 5, []

    async def race():
        all_have_read = asyncio.Event()

        async def together(batch):
            arrived.append(batch)
            if len(arrived) >= racers:
                all_have_read.set()
            await all_have_read.wait()
            return await commit(batch)

        monkeypatch.setattr(server.store, "commit", together)
        request = TransitionRequest(version="1.0.0", transition="promote", to_state=to_state)
        tries = (server.promotions.transition(principal, id, request) for _ in range(racers))
        return await asyncio.gather(*tries, return_exceptions=True)

    outcomes = server.do(race())
    assert sum(not isinstance(one, Exception) for one in outcomes) == 1
    assert {getattr(one, "code", "won") for one in outcomes} == {"won", "validation_error"}
    assert records(client, id)["1.0.0"]["state"] == "test"


def test_one_idempotency_key_has_one_transition(client):
    id = agent("free", client)
    headers = {"Idempotency-Key": f"key-{next(numbers)}-{id}"}
    body = {"version": "1.0.0", "transition": "promote"}
    first, again = (client.post(f"/v1/agents/{id}/deployments", json=body, headers=headers) for _ in range(2))
    assert first.json() == again.json()
    assert first.headers["location"] == again.headers["location"]
    assert again.headers["openwop-idempotent-replay"] == "true"
    assert records(client, id)["1.0.0"]["state"] == "test"
    other = client.post(f"/v1/agents/{id}/deployments", json=body | {"version": "1.0.1"}, headers=headers)
    assert other.status_code == 409


def test_another_tenant_has_deployments_of_its_own(server, client):
    id = agent("free", client)
    active(client, id, channel="stable")
    with server.client(tenant="third", scopes=RELEASE) as other:
        assert records(other, id)["1.0.0"]["state"] == "draft"
        run = run_of(post(client, id, "1.0.1"))
        assert other.get(f"/v1/runs/{run}").status_code == 404
        assert respond(other, run).status_code == 404


def test_a_record_changed_in_the_database_is_detected(server, client):
    id = agent("free", client)
    active(client, id)

    async def problems():
        verifier = DeploymentVerifier()
        report = await verify(server.store, "acme", observers=[verifier])
        assert not report.problems
        return [one.message for one in await verifier.problems(server.store, {"acme"})]

    async def tamper(data, version):
        put = PutDocument(tenant="acme", kind=KIND, key=id, data=data, version=version)
        await server.store.commit(Transaction(documents=[put]))

    assert server.do(problems()) == []
    stored = server.do(server.store.document("acme", KIND, id))
    changed = decode(stored)
    record = msgspec.structs.replace(changed.of("1.0.0"), state="staged")
    server.do(tamper(encode(changed.replace("1.0.0", record)), stored.version))
    assert any(id in one and "without a transition" in one for one in server.do(problems()))
    actions = [line for line in _audit(server) if b"deployment.promote" in line and id.encode() in line]
    assert len(actions) == 3


def _audit(server):
    async def lines():
        return [record.data for record in await server.store.audit("acme", limit=10_000)]

    return server.do(lines())


def test_a_management_run_is_replayed_without_an_effect(client):
    id = agent("free", client)
    run = run_of(post(client, id))
    fork = client.post(f"/v1/runs/{run}:fork", json={"mode": "replay"})
    assert fork.status_code == 201, fork.text
    copy = fork.json()["runId"]
    assert [(one["type"], one["payload"]) for one in log_of(client, copy)] == [
        (one["type"], one["payload"]) for one in log_of(client, run)
    ]
    assert client.post(f"/v1/runs/{run}:fork", json={"mode": "branch", "fromSeq": 0}).status_code == 400
    assert records(client, id)["1.0.0"]["state"] == "test"


def seam(client, scenario, **members):
    answer = client.post(
        "/v1/host/sample/agents/deployment-transition", json={"scenario": scenario, **members}
    )
    assert answer.status_code == 200, answer.text
    log = client.get(f"/v1/host/sample/test/runs/{answer.json()['runId']}/events").json()["events"]
    return answer.json(), log


def test_the_seam_runs_all_four_scenarios(server):
    with server.client(tenant="conformance") as client:
        for version in ("1.0.0", "1.0.1"):
            answer, log = seam(client, "promote", agentId="core.conformance.channel-agent", channel="stable")
            valid("agent-deployment.schema.json", answer["record"])
            assert (answer["record"]["version"], answer["record"]["channels"]) == (version, ["stable"])
            (promoted,) = (event["payload"] for event in log if event["type"] == "deployment.promoted")
            assert promoted["toState"] == "active"
            assert not FORBIDDEN & promoted.keys()
        for scenario, code in (("unauthorized", "forbidden"), ("eval-gate-unmet", "eval_gate_unmet")):
            answer, log = seam(client, scenario)
            assert (answer["allowed"], answer["error"]) == (False, code)
            assert log
            assert "deployment.promoted" not in types_of(log)
        answer, log = seam(client, "channel-pin", channel="stable")
        (started,) = (event["payload"] for event in log if event["type"] == "agent.invocation.started")
        assert (started["resolvedAgentVersion"], started["resolvedChannel"]) == ("1.0.1", "stable")
        assert answer["resolvedAgentVersion"] == "1.0.1"
        run = answer["runId"]
        seam(client, "promote", agentId="core.conformance.channel-agent", channel="stable")
        fork = client.post(f"/v1/runs/{run}:fork", json={"mode": "replay"}).json()["runId"]
        replayed = [
            event["payload"] for event in log_of(client, fork) if event["type"] == "agent.invocation.started"
        ]
        assert replayed == [started]
        fresh = client.post("/v1/runs", json={"workflowId": "conformance-agent-channel-dispatch"}).json()[
            "runId"
        ]
        moved = next(e["payload"] for e in log_of(client, fresh) if e["type"] == "agent.invocation.started")
        assert moved["resolvedAgentVersion"] == "1.0.3"


def test_an_advertised_fixture_starts_in_a_fresh_tenant(server):
    """All of them; the one with a channel has an active version from the beginning, which a promotion replaces."""
    dispatch = "conformance-agent-channel-dispatch"
    with server.client(tenant="fresh") as client:
        fixtures = client.get("/.well-known/openwop").json()["fixtures"]
        assert dispatch in fixtures
        for fixture in fixtures:
            inputs = {"payload": {}} if fixture == "conformance-identity" else {}
            answer = client.post("/v1/runs", json={"workflowId": fixture, "inputs": inputs})
            assert answer.status_code == 201, (fixture, answer.text)
            assert client.post(f"/v1/runs/{answer.json()['runId']}/cancel").status_code == 200
        for version in ("0.9.0", "1.0.0"):
            run = client.post("/v1/runs", json={"workflowId": dispatch}).json()["runId"]
            log = log_of(client, run)
            (started,) = (one["payload"] for one in log if one["type"] == "agent.invocation.started")
            assert (started["resolvedAgentVersion"], started["resolvedChannel"]) == (version, "stable")
            seam(client, "promote", agentId="core.conformance.channel-agent", channel="stable")
        records = client.get("/v1/agents/core.conformance.channel-agent/deployments").json()
        assert {one["version"]: one["state"] for one in records}["1.0.1"] == "active"


def test_a_channel_without_an_active_version_is_refused_at_the_start(server):
    """A pause leaves the channel without one."""
    with server.client(tenant="empty", scopes=RELEASE) as client:
        assert post(client, "core.conformance.channel-agent", "0.9.0", "pause").status_code == 200
        answer = client.post("/v1/runs", json={"workflowId": "conformance-agent-channel-dispatch"})
        assert (answer.status_code, answer.json()["error"]) == (400, "no_active_deployment")


def test_discovery_advertises_deployments(client):
    document = client.get("/.well-known/openwop").json()
    assert document["agents"]["deployment"]["supported"] is True
    assert document["authorization"] == {"supported": True, "failClosed": True}
    assert "conformance-agent-channel-dispatch" in document["fixtures"]
    if SCHEMAS.exists():
        schema = msgspec.json.decode((SCHEMAS / "capabilities.schema.json").read_bytes())["properties"]
        families = schema["agents"]["properties"]["deployment"], schema["authorization"]
        for family, found in zip(
            families, (document["agents"]["deployment"], document["authorization"]), strict=True
        ):
            jsonschema_rs.validator_for(family).validate(found)


def test_a_host_that_does_not_offer_deployments(tmp_path):
    features = OpenWopFeatures(offer_deployments=False)
    with (
        Server(sqlite(tmp_path), offer=features, seeded=True) as server,
        server.client(scopes=RELEASE) as client,
    ):
        document = client.get("/.well-known/openwop").json()
        assert "deployment" not in document["agents"]
        assert "authorization" not in document
        assert "conformance-agent-channel-dispatch" not in document["fixtures"]
        assert client.get("/v1/agents/local.tests.answer/deployments").status_code == 404
        answer = post(client, "local.tests.answer")
        assert (answer.status_code, answer.json()["error"]) == (501, "capability_not_provided")
        bound = client.post("/v1/runs", json={"workflowId": "conformance-agent-channel-dispatch"})
        assert (bound.status_code, bound.json()["error"]) == (400, "validation_error")


def test_an_approval_is_for_one_step_alone(server, client):
    """Requests without a target state, and one that waits while the version is paused: an approval moves nothing further."""
    id = agent("stepwise", client)
    waiting = [post(client, id).json()["runId"] for _ in range(2)]
    with server.client(scopes=DEFAULT) as approver:
        assert [respond(approver, run).json()["status"] for run in waiting] == ["completed", "failed"]
        error = log_of(client, waiting[1])[-1]["payload"]["error"]
        assert "the approval is for draft to test, and it is test now" in error["message"]
        assert records(client, id)["1.0.0"]["state"] == "test"
        id = agent("approved", client)
        first, second = active(client, id).json()["runId"], post(client, id, toState="active").json()["runId"]
        assert respond(approver, first).json()["status"] == "completed"
        assert post(client, id, transition="pause").status_code == 200
        assert respond(approver, second).json()["status"] == "failed"
        assert records(client, id)["1.0.0"]["state"] == "paused"


def test_a_request_that_was_rejected_is_not_200_when_it_comes_again(server, client):
    id = agent("approved", client)
    active(client, id)
    body = {"version": "1.0.0", "transition": "promote"}
    headers = {"Idempotency-Key": f"rejected-{id}"}
    run = client.post(f"/v1/agents/{id}/deployments", json=body, headers=headers).json()["runId"]
    with server.client(scopes=DEFAULT) as approver:
        respond(approver, run, "reject")
    again = client.post(f"/v1/agents/{id}/deployments", json=body, headers=headers)
    assert (again.status_code, again.json()["runId"], again.json()["status"]) == (202, run, "failed")


def test_a_run_that_a_request_names_is_checked_where_none_is_needed(client):
    """The record has it as its evidence."""
    id = agent("free", client)
    assert conditions(post(client, id, toState="test", evalRunId="run-none")) == ["eval_run_unknown"]
    failed = evaluated(client, id, BAD)
    assert conditions(post(client, id, toState="test", evalRunId=failed)) == ["eval_not_passed"]
    assert "evalRunId" not in post(client, id, toState="test").json()


def test_an_agent_with_as_many_versions_as_it_may_have(server, client):
    """They are listed in time; another version is found, and a rollback finds the version before it."""
    id = agent("free", client)
    many = {
        f"1.{at}.0": VersionRecord(state="active", channels={"stable": at + 1, "canary": at + 1})
        for at in range(999)
    }
    stored = encode(AgentRecords(agent_id=id, serial=999, versions=many))
    put = PutDocument(tenant="many", kind=KIND, key=id, data=stored, version=0)
    server.do(server.store.commit(Transaction(documents=[put])))
    with server.client(tenant="many", scopes=RELEASE) as many_client:
        begin = time.process_time()
        assert len(records(many_client, id)) == 999
        assert time.process_time() - begin < 2.0  # it was 4 seconds when each record computed the shares
        assert post(many_client, id, "2.0.0").json()["state"] == "test"
        assert post(many_client, id, "2.0.1").status_code == 400
        assert post(many_client, id, "1.998.0", "rollback").json()["rollbackPointer"] == "1.997.0"


def test_a_run_of_an_altered_agent_or_of_a_part_of_its_suite_is_not_evidence(client):
    id = agent("default", client)
    both = suite(golden("a", "Paris", "Paris"), name="both", modes=("golden", "live-shadow"))
    post(client, id)
    for document, options, expected in [
        (GOOD, {"temperature": 0.5, "model": "other:large"}, ["eval_run_overridden"]),
        (GOOD, {"promptOverrides": {"system": "Say Paris."}}, ["eval_run_overridden"]),
        (both, {"evalModes": ["golden"]}, ["eval_run_partial"]),
    ]:
        run = finish_run(client, document, id, agentVersion="1.0.0", **options)
        assert conditions(post(client, id, toState="staged", evalRunId=run)) == expected, options


def test_a_run_without_the_mode_regression_is_evidence_only_for_the_first_version(client):
    id = agent("default", client)
    pairs = suite(golden("a", "Paris", "Paris"), name="first-pairs", modes=("golden", "regression"))
    first = finish_run(client, pairs, id, agentVersion="1.0.0", evalModes=["golden"])
    for state in ("test", "staged", "active"):
        answer = post(client, id, toState=state, **({} if state == "test" else {"evalRunId": first}))
        assert answer.status_code == 200, answer.text
    assert post(client, id, "1.1.0").status_code == 200
    alone = finish_run(client, pairs, id, agentVersion="1.1.0", evalModes=["golden"])
    assert conditions(post(client, id, "1.1.0", toState="staged", evalRunId=alone)) == ["eval_run_partial"]
    whole = finish_run(client, pairs, id, agentVersion="1.1.0", baselineRunId=first)
    assert post(client, id, "1.1.0", toState="staged", evalRunId=whole).status_code == 200


def test_a_baseline_must_be_a_measurement_of_the_active_version(client):
    """Its score is the bar of the new version: a copy, and a run with another model, would lower it."""
    id = agent("compared", client)
    pairs = suite(golden("a", "Paris", "Paris"), name="pairs", modes=("golden", "regression"))
    first = finish_run(client, pairs, id, agentVersion="1.0.0", evalModes=["golden"])
    copy = client.post(f"/v1/runs/{first}:fork", json={"mode": "replay"}).json()["runId"]
    altered = finish_run(client, pairs, id, agentVersion="1.0.0", evalModes=["golden"], model="other:large")
    assert post(client, id).status_code == 200
    for state in ("staged", "active"):
        assert post(client, id, toState=state, evalRunId=first).status_code == 200
    assert post(client, id, "1.1.0").status_code == 200
    for baseline, words in [(copy, "a copy of another run"), (altered, "other settings: model"), (first, "")]:
        run = finish_run(client, pairs, id, agentVersion="1.1.0", baselineRunId=baseline)
        answer = post(client, id, "1.1.0", toState="staged", evalRunId=run)
        if words:
            assert conditions(answer) == ["eval_regression_unknown"]
            assert words in answer.text
    assert "its baseline" not in answer.text  # the verdict on one task is another matter
