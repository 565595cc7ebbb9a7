"""Promotion: legal steps, evidence that does not count, and the transitions of the test-only route."""

import secrets
from typing import Any

from assay.conform.check import ABSENT, Host, NotTried, document_of, expect, expect_status, refused_as
from assay.conform.fep_checks import simple_request
from assay.conform.json_values import Document, is_list, object_in, shown
from assay.conform.openwop.discovery_checks import STATES
from assay.conform.openwop.event_laws import CONTENT_KEYS
from assay.conform.openwop.runs import (
    log,
    payloads,
    ran,
    request,
    start,
    started_run,
    suite_ref,
    wait_for_end,
    workflow,
)
from assay.conform.openwop.scorecard_checks import GOLDEN
from assay.conform.openwop.surface import NO_RUN, capability, discovery, fixture, play, row

RECORD = {
    "agentId",
    "version",
    "state",
    "canaryPercent",
    "rollbackPointer",
    "channels",
    "evalRunId",
    "approvalGateId",
}
CHANNEL_AGENT = "core.conformance.channel-agent"


def deployments_path(host: Host) -> str:
    return f"/v1/agents/{host.agent}/deployments"


def _records(host: Host) -> list[Any]:
    answer = host.send("GET", deployments_path(host))
    expect_status(answer, 200, f"GET {deployments_path(host)}")
    found = answer.document()
    expect(is_list(found), f"GET {deployments_path(host)}: expected a list")
    return found


def state_of(host: Host, version: str) -> str:
    return next((one["state"] for one in _records(host) if one.get("version") == version), "draft")


def promote(host: Host, version: str, state: str, **more: Any) -> Any:
    body = {"version": version, "transition": "promote", "toState": state} | more
    return host.send("POST", deployments_path(host), body)


def tested(host: Host) -> str:
    """
    A version of the agent in the state `test`.

    NotTried: the host is not set up for conformance tests, so that no deployment of it may change.
    """

    def make() -> str:
        capability(host, "agents.deployment")
        if not object_in(discovery(host), "conformance"):
            raise NotTried("it would change deployments, and discovery does not say that this is a test host")
        version = f"0.{secrets.randbelow(10**6)}.0"
        answer = promote(host, version, "test")
        if answer.status in (401, 403):
            raise NotTried(
                f"POST {deployments_path(host)}: the key is refused with {answer.status}: deploy:promote"
            )
        if answer.status in (400, 404):
            raise NotTried(f"the agent has no version {version}")
        expect_status(answer, 200, f"POST {deployments_path(host)}: draft to test")
        return version

    return host.once("tested version", make)


def _evidence(host: Host, version: str) -> dict[str, Any]:
    """Runs that show nothing about this version."""
    at = {"evalModes": ["golden"], "agentVersion": version}
    missed = ran(host, "score-missed", **at).id
    erased = start(host, request(host, suite_ref(host, "other"), **at))
    wait_for_end(host, erased)
    host.send("DELETE", f"/v1/host/assay/runs/{erased}")
    cancelled = start(host, request(host, suite_ref(host, "slow"), **at))
    host.send("POST", f"/v1/runs/{cancelled}/cancel", {})
    wait_for_end(host, cancelled)
    evaluation = host.send("POST", "/v1/evaluate", simple_request())
    found: dict[str, Any] = {
        "none": None,
        "unknown": NO_RUN,
        "malformed": "../../etc/passwd",
        "empty": "",
        "of another version": ran(host, "other", **GOLDEN).id,
        "of another agent": play(host, "/agents/eval-run", {"modes": ["golden"]}).get("runId"),
        "missed": missed,
        "cancelled": cancelled,
        "in flight": started_run(host, "slow", **at),
        "erased": erased,
    }
    if evaluation.status == 200:
        found["an evaluation"] = document_of(evaluation, "POST /v1/evaluate").get("evaluation_id")
    if "conformance-noop" in discovery(host).get("fixtures", []):
        run = workflow(host, fixture(host, "noop"))
        wait_for_end(host, run)
        found["a workflow"] = run
    return found


def _bad_evidence(host: Host) -> None:
    version = tested(host)
    evidence = _evidence(host, version)
    for name, run in evidence.items():
        what = f"a promotion with evidence that is {name}"
        answer = promote(host, version, "staged", **({} if run is None else {"evalRunId": run}))
        found = refused_as(answer, (400, 403) if name in ("malformed", "empty") else 403, what)
        expect(answer.status == 400 or found["error"] == "eval_gate_unmet", f"{what}: got {found['error']}")
        if answer.status == 403:
            conditions = object_in(found, "details").get("conditions")
            expect(is_list(conditions) and conditions, f"{what}: expected details.conditions")
    expect(state_of(host, version) == "test", f"the state: expected test, got {state_of(host, version)}")
    host.send("POST", f"/v1/runs/{evidence['in flight']}/cancel", {})


def _foreign_evidence(host: Host) -> None:
    version, other = tested(host), host.other_key
    answer = host.send("POST", "/v1/host/sample/agents/eval-run", {"modes": ["golden"]}, key=other)
    if answer.status != 200:
        raise NotTried(f"a run of another tenant could not be made: {answer.status}")
    run = str(document_of(answer, "POST …/agents/eval-run").get("runId"))
    foreign, unknown = (promote(host, version, "staged", evalRunId=one) for one in (run, NO_RUN))
    seen = [
        refused_as(found, 403, "a promotion with evidence of another tenant") for found in (foreign, unknown)
    ]
    shows = [shown([one["error"], object_in(one, "details").get("conditions")], None) for one in seen]
    alike = shows[0].replace(run, "") == shows[1].replace(NO_RUN, "")
    expect(alike, "a promotion with evidence of another tenant: expected the answer to an unknown run")


def _good_evidence(host: Host) -> None:
    version = tested(host)
    run = ran(host, "score-met", evalModes=["golden"], agentVersion=version).id
    answer = promote(host, version, "staged", evalRunId=run)
    expect_status(answer, (200, 202), "a promotion with good evidence")
    if answer.status == 200:
        found = document_of(answer, "a promotion").get("state")
        expect(found == "staged", f"a promotion: expected the state staged, got {shown(found)}")
        expect(state_of(host, version) == "staged", "a promotion is not in the list of deployments")
    host.once("promoted", lambda: answer)


def _steps(host: Host) -> None:
    version = f"{tested(host)[:-1]}9"
    for body in (
        {"version": version, "transition": "promote", "toState": "staged"},
        {"version": version, "transition": "promote", "toState": "active"},
        {"version": version, "transition": "promote", "toState": "vibes"},
        {"version": version, "transition": "rollback"},
        {"version": version, "transition": "pause"},
        {"version": version, "transition": "vibes"},
        {"version": version, "transition": "promote", "toState": "test", "what": 1},
        {"version": version, "transition": "promote", "toState": "test", "canaryPercent": 101},
        {"transition": "promote"},
    ):
        answer = host.send("POST", deployments_path(host), body)
        refused_as(
            answer,
            (400, 403) if body.get("transition") != "promote" else 400,
            f"the transition {shown(body)}",
        )
    expect(state_of(host, version) == "draft", "a refused transition changed the state")


def _list(host: Host) -> None:
    capability(host, "agents.deployment")
    tested(host)
    for one in _records(host):
        expect(
            {"agentId", "version", "state"} <= one.keys() <= RECORD,
            f"a deployment has the members {sorted(one)}",
        )
        expect(one["state"] in STATES, f"a deployment: state: got {shown(one['state'])}")
    answer = host.send("GET", "/v1/agents/local.conform.nobody/deployments")
    refused_as(answer, 404, "GET of the deployments of an unknown agent")


def _played(host: Host, scenario: str, **more: Any) -> tuple[Document, list[Document]]:
    """What the test-only route answers, and the log of its run."""
    capability(host, "agents.deployment")
    found = play(host, "/agents/deployment-transition", {"scenario": scenario} | more)
    run = found.get("runId")
    expect(isinstance(run, str), f"the scenario {scenario}: expected a runId")
    if host.send("GET", f"/v1/runs/{run}").status in ABSENT:
        return found, []
    return found, log(host, str(run))


def _recorded(host: Host) -> None:
    _, events = _played(host, "promote", agentId=CHANNEL_AGENT, channel="stable")
    promoted = payloads(events, "deployment.promoted")
    expect(promoted, "a promotion: expected deployment.promoted")
    for one in promoted:
        expect(
            one.get("toState") in STATES and one.get("toVersion"), "deployment.promoted: toState, toVersion"
        )
        found = [key for key in CONTENT_KEYS["deployment."] if key in one]
        expect(not found, f"deployment.promoted has the members {found}")


def _refused(host: Host) -> None:
    for scenario in ("unauthorized", "eval-gate-unmet"):
        found, events = _played(host, scenario)
        expect(found.get("allowed") is not True, f"the scenario {scenario}: expected a refusal")
        expect(not payloads(events, "deployment.promoted"), f"the scenario {scenario}: deployment.promoted")
    decided = payloads(_played(host, "unauthorized")[1], "authorization.decided")
    expect(
        all(one.get("allowed") is False for one in decided), "authorization.decided: allowed: expected false"
    )


def _pinned(host: Host) -> None:
    found, events = _played(host, "channel-pin", channel="stable")
    versions = {one.get("resolvedAgentVersion") for one in payloads(events, "agent.invocation.started")}
    expect(len(versions) == 1 and None not in versions, f"one run resolved a channel to {shown([*versions])}")
    expect(
        found.get("resolvedAgentVersion") in versions,
        "resolvedAgentVersion: another than in agent.invocation.started",
    )


PROMOTION_CHECKS = [
    row("promotion.list", "9.3", "Deployments are listed with known members and states.", "GET …/deployments of the agent and of an unknown one.", "A list of records; 404.", _list),
    row("promotion.steps", "9.3", "A promotion goes one step; other transitions are refused.", "Nine transitions that skip, repeat or name unknown states.", "400, and the state of before.", _steps),
    row("promotion.bad-evidence", "9.3", "Evidence is a passed eval run of this agent and this version.", "Promotions without evidence and with eleven bad kinds of it.", "403 eval_gate_unmet with conditions, and the state of before.", _bad_evidence),
    row("promotion.foreign-evidence", "2.2", "A run of another tenant is no evidence.", "A promotion with such a run.", "The answer to an unknown run.", _foreign_evidence),
    row("promotion.good-evidence", "9.3", "A passed eval run of this version promotes it, or asks for an approval.", "A promotion with such a run.", "200 and the new state, or 202.", _good_evidence),
    row("promotion.recorded", "9.3", "A transition has one event without content.", "The scenario promote of the test-only route.", "deployment.promoted with a state and a version.", _recorded),
    row("promotion.refused", "9.3", "Without the scope or the evidence there is no transition.", "The scenarios unauthorized and eval-gate-unmet.", "Refusals without deployment.promoted.", _refused),
    row("promotion.pinned", "9.3", "A channel gets one version for a whole run.", "The scenario channel-pin.", "One resolvedAgentVersion.", _pinned),
]  # fmt: skip
