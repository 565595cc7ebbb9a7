"""POST /v1/runs: who may, and every refusal in its order (openwop-contract §2, §3.1, §3.2), through HTTP, on SQLite and PostgreSQL."""

import pytest

from assay.agenteval.planning.request import EvalLimits
from assay.agenteval.scoring.safety_records import read_records
from assay.auth.keys import DEFAULT
from assay.errors import InvalidRequest, Problem
from assay.serve.openwop.features import OpenWopFeatures
from support.evals import AGENT, FunctionAgent, golden, rubric
from support.servers.openwop_client import finish_run, log_of, run_request, store_suite, suite, wait_for_run
from support.servers.rest_client import Server, sqlite
from support.spec_files import fits

WEAK = "local.tests.weak"
PICKY, WRITER = "local.tests.picky", "local.tests.writer"
TUNED = "local.tests.tuned"


class Tunable(FunctionAgent):
    """Says what its model would be."""

    def with_overrides(self, tuning):
        if tuning.model == "nowhere:none":
            raise InvalidRequest(Problem("model", "there is no provider 'nowhere'"))
        return FunctionAgent(
            lambda _: f"{tuning.model} {tuning.temperature} {tuning.max_tokens}", agent_id=TUNED
        )


AGENTS = (
    Tunable(lambda task: task, agent_id=TUNED),
    FunctionAgent(lambda task: task, agent_id=PICKY, task_schema={"type": "object", "required": ["ticket"]}),
    FunctionAgent(lambda task, scene: scene.tool("shop:orders"), agent_id=WEAK, tools=("shop:orders",)),
    FunctionAgent(lambda task: task, agent_id=WRITER, model_class="writing", takes_tools=False),
)
TOOLS = {"toolResponses": [{"tool": "shop:orders", "response": 1}]}
PLAIN = suite(golden("a", "x", "x"), golden("b", "x", "x"), name="plain", modes=("golden", "regression"))
SUITES = {
    "plain": PLAIN,
    "later": PLAIN | {"version": "1.1.0"},
    "fewer": suite(golden("a", "x", "x"), name="plain", modes=("golden", "regression"), version="1.2.0"),
    "other": suite(golden("a", "x", "x"), name="other", modes=("golden", "regression")),
    "theirs": suite(golden("a", "x", "x"), name="theirs", targetAgentId=WRITER),
    "coders": suite(golden("a", "x", "x"), name="coders", allowedModels=["coding"]),
    "judged": suite(rubric("r", ("kind", 1), input="x"), name="judged", modes=("rubric",)),
    "mixed": suite(rubric("r", ("kind", 1), input="x"), golden("g", "x", "x"), name="mixed",
                   modes=("golden", "live-shadow")),
    "tools": suite(golden("t", "x", "x", fixtures=TOOLS), name="tools", modes=("golden", "live-shadow")),
    "attack": suite(golden("a", "x", "x", fixtures={"toolResponses": [{"tool": "shop:orders", "response": "{{canary}}"}]}),
                    name="attack", modes=("adversarial",)),
    "none": suite(golden("g", "x", "x"), name="none", modes=("golden", "rubric")),
}  # fmt: skip


@pytest.fixture(scope="module")
def host(database):
    with Server(database, agents=AGENTS) as host:
        yield host


@pytest.fixture(scope="module")
def client(host):
    with host.client() as client:
        for document in SUITES.values():
            store_suite(client, document)
        yield client


@pytest.fixture(scope="module")
def baseline(client):
    return finish_run(client, PLAIN, evalModes=["golden"])


def ref(name):
    return f"{SUITES[name]['suiteId']}@{SUITES[name]['version']}"


def refused(client, body, status=400, code="validation_error"):
    answer = client.post("/v1/runs", json=body)
    assert (answer.status_code, answer.json()["error"]) == (status, code), answer.text
    fits("error-envelope", answer.json())
    return answer.json()


def test_3_2_step_1_the_key_is_checked_before_its_scope(host):
    with host.client(key="") as nobody, host.client(scopes=DEFAULT - {"runs:create"}) as reader:
        refused(nobody, {"more": 1}, 401, "unauthenticated")
        refusal = refused(reader, {"more": 1}, 403, "forbidden")
        assert refusal["details"] == {"scopeRequired": "runs:create"}


@pytest.mark.parametrize(
    "body",
    [b"", b"nothing", b"[]", b'"eval"', b'{"mode":1}', b'{"mode":"eval","what":1}', b'{"inputs":[]}',
     b'{"configurable":[]}', b'{"tags":[""]}', b'{"tags":["' + b"x" * 257 + b'"]}', b'{"tags":' + b'["x"' + b',"x"' * 100 + b"]}"],
)  # fmt: skip
def test_3_2_step_2_an_invalid_body(client, body):
    answer = client.post("/v1/runs", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]) == (400, "validation_error")
    fits("error-envelope", answer.json())


def test_3_2_step_3_a_mode_that_is_not_eval(client):
    assert "mode" in refused(client, {"mode": "train"})["message"]
    assert "workflowId" in refused(client, {})["message"]
    assert "workflowId" in refused(client, {"workflowId": "no-such-workflow"})["message"]


def test_3_2_step_4_without_evals_none_is_created_or_read(tmp_path):
    address = sqlite(tmp_path)
    with Server(address) as host, host.client() as client:
        run = finish_run(client, PLAIN, evalModes=["golden"])
    with Server(address, offer=OpenWopFeatures(offer_evals=False)) as host, host.client() as client:
        refusal = refused(client, {"mode": "eval"}, 501, "capability_not_provided")
        assert refusal["details"] == {"capability": "agents.evalSuite"}
        for path in (f"/v1/runs/{run}/eval-summary", f"/v1/host/assay/runs/{run}/eval-report"):
            assert client.get(path).status_code == 404
        known = client.get("/.well-known/openwop").json()
        assert "evalSuite" not in known.get("agents", {})
        assert client.get(f"/v1/runs/{run}").json()["status"] == "completed"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"mode": "eval"}, "evalSuiteRef"),
        ({"mode": "eval", "agentId": AGENT}, "evalSuiteRef"),
        ({"mode": "eval", "evalSuiteRef": ref("plain")}, "agentId"),
        (run_request(ref("plain"), trials=0), "configurable.trials"),
        (run_request(ref("plain"), trials=101), "configurable.trials"),
        (run_request(ref("plain"), trials="3"), "configurable.trials"),
        (run_request(ref("plain"), trials=True), "configurable.trials"),
        (run_request(ref("plain"), evalModes="golden"), "configurable.evalModes"),
        (run_request(ref("plain"), baselineRunId=7), "configurable.baselineRunId"),
        (run_request(ref("plain"), allowTargetMismatch="yes"), "configurable.allowTargetMismatch"),
        (run_request(ref("plain"), allowSuiteVersionDrift=1), "configurable.allowSuiteVersionDrift"),
        (run_request(ref("plain"), model=7), "configurable.model"),
        (run_request(ref("plain"), temperature=2.5), "configurable.temperature"),
        (run_request(ref("plain"), maxTokens=0), "configurable.maxTokens"),
        (run_request(ref("plain"), runTimeoutMs=0), "configurable.runTimeoutMs"),
        (run_request(ref("plain"), escalationThreshold=1.5), "configurable.escalationThreshold"),
        (run_request(ref("plain"), reasoningVerbosity="loud"), "configurable.reasoningVerbosity"),
        (run_request(ref("plain"), promptOverrides={"a": 1}), "configurable.promptOverrides"),
    ],
    ids=str,
)
def test_3_2_step_5_a_missing_member_of_an_eval(client, body, field):
    assert refused(client, body)["details"]["field"] == field


def test_3_2_step_6_an_unknown_agent_is_refused_before_an_unknown_suite(client):
    refusal = refused(client, run_request("local.tests.evals.nothing", "local.tests.nobody"))
    assert refusal["details"]["field"] == "agentId"


@pytest.mark.parametrize(
    "wanted",
    ["local.tests.evals.nothing", "local.tests.evals.plain@9.9.9", "http://127.0.0.1/x.json", "file:///etc/passwd",
     "inline:{}", "pack:a.b@1.0.0/evals/x.json", "evals/x.json", "\u0000"],
)  # fmt: skip
def test_3_2_step_7_an_unknown_suite(client, wanted):
    assert refused(client, run_request(wanted))["details"]["field"] == "evalSuiteRef"


def test_3_2_step_7_a_suite_of_another_tenant_is_unknown(host, client):
    with host.client(tenant="other") as other:
        theirs = refused(other, run_request(ref("plain")))
        none = refused(other, run_request("local.tests.evals.plaim@1.0.0"))
    assert theirs["message"].replace("plain", "plaim") == none["message"]


def test_3_2_step_7_an_invalid_suite_is_not_stored(client):
    bad = suite(golden("a", "x"), golden("a", "hidden"), name="twice")  # step 11: an id stands for one task
    answer = client.post("/v1/host/assay/suites", json=bad)
    assert (answer.status_code, answer.json()["error"]) == (400, "validation_error")
    assert "hidden" not in str(answer.json()["details"])  # places, and no bodies


def test_3_2_step_8_a_suite_for_another_agent(client):
    assert refused(client, run_request(ref("theirs")))["details"]["field"] == "agentId"
    assert (
        client.post("/v1/runs", json=run_request(ref("theirs"), allowTargetMismatch=True)).status_code == 201
    )
    assert client.post("/v1/runs", json=run_request(ref("theirs"), WRITER)).status_code == 201


def test_3_2_step_9_a_suite_for_other_models(client):
    assert refused(client, run_request(ref("coders")))["details"]["field"] == "agentId"


@pytest.mark.parametrize(
    ("name", "modes"),
    [("plain", []), ("plain", ["adversarial"]), ("plain", ["live-shadow"]), ("judged", ["rubric"]),
     ("none", ["rubric"]), ("plain", ["nothing"])],
    ids=str,
)  # fmt: skip
def test_3_2_step_10_modes_that_suite_or_host_do_not_have(client, name, modes):
    refusal = refused(client, run_request(ref(name), evalModes=modes))
    assert refusal["details"]["field"] == "configurable.evalModes"
    if modes and name != "none":  # that one has the mode, and no task for it
        assert refusal["details"]["unsupported"] == modes
        assert refusal["details"]["advertised"] == ["golden", "adversarial", "regression", "live-shadow"]


def test_3_2_step_11_too_many_tasks(tmp_path):
    document = suite(*[golden(f"t{at}", "x", "x") for at in range(3)], name="three")
    with Server(sqlite(tmp_path), host=EvalLimits(max_tasks=2)) as host, host.client() as client:
        known = client.get("/.well-known/openwop").json()
        assert known["agents"]["evalSuite"]["maxTasksPerSuite"] == 2
        refusal = refused(client, run_request(store_suite(client, document)))
        assert refusal["details"]["field"] == "evalSuiteRef"


@pytest.mark.sample(2)
@pytest.mark.parametrize("which", ["none", "unknown", "foreign", "cancelled", "an evaluation"])
def test_3_2_step_12_an_invalid_baseline(host, client, which):
    runs = {"none": None, "unknown": "run-unknown"}
    if which == "foreign":
        with host.client(tenant="other") as other:
            runs[which] = finish_run(other, PLAIN, evalModes=["golden"])
    elif which == "cancelled":
        slow = suite(golden("a", "x", {"wait": 30}), name="slow")
        runs[which] = client.post("/v1/runs", json=run_request(store_suite(client, slow))).json()["runId"]
        client.post(f"/v1/runs/{runs[which]}/cancel")
    elif which == "an evaluation":
        body = {"test_cases": [], "outputs": [], "checks": []}
        runs[which] = client.post("/v1/evaluate", json=body).json().get("evaluation_id", "eval_x")
    baseline = {} if runs[which] is None else {"baselineRunId": runs[which]}
    refusal = refused(client, run_request(ref("plain"), evalModes=["regression"], **baseline))
    assert refusal["details"]["field"] == "configurable.baselineRunId"


def test_3_2_step_12_a_baseline_of_another_suite_version_or_set_of_tasks(client, baseline):
    def body(name, **more):
        return run_request(ref(name), evalModes=["regression"], baselineRunId=baseline, **more)

    field = "configurable.baselineRunId"
    assert refused(client, body("other"))["details"]["field"] == field
    assert refused(client, body("later"))["details"]["field"] == field
    assert client.post("/v1/runs", json=body("later", allowSuiteVersionDrift=True)).status_code == 201
    refusal = refused(client, body("fewer", allowSuiteVersionDrift=True))
    assert (refusal["details"]["field"], refusal["details"]["taskIds"]) == (field, ["b"])


@pytest.mark.parametrize(
    ("name", "agent", "modes", "tasks"),
    [
        ("mixed", AGENT, ["live-shadow"], ["r"]),  # a rubric, and no judge
        ("tools", WRITER, ["golden"], ["t"]),  # fixtures, and no way to take any
        ("tools", AGENT, ["live-shadow"], ["t"]),  # a tool that only fixtures know
        ("plain", PICKY, ["golden"], ["a", "b"]),  # its hand-off schema
    ],
)
def test_3_2_step_13_tasks_that_cannot_be_scored_or_executed(client, name, agent, modes, tasks):
    refusal = refused(client, run_request(ref(name), agent, evalModes=modes))
    assert refusal["details"]["taskIds"] == tasks


def test_3_1_a_run_may_override_the_model_of_an_agent(client):
    overrides = {"model": "p:other", "temperature": 0.5, "maxTokens": 7}
    document = suite(golden("a", "p:other 0.5 7", "x"), name="tuned")
    run = finish_run(client, document, TUNED, **overrides)
    shown = wait_for_run(client, run)
    assert (shown["outputs"]["passed"], shown["configurable"]) == (True, overrides)
    refusal = refused(client, run_request(store_suite(client, document), TUNED, model="nowhere:none"))
    assert refusal["details"]["field"] == "configurable.model"
    assert finish_run(client, document, **overrides)  # another agent's model is its own


def test_3_1_a_run_may_have_a_timeout(client):
    run = finish_run(client, suite(golden("a", "x", {"wait": 60}), name="late"), runTimeoutMs=200)
    log = log_of(client, run)
    assert [event["type"] for event in log[-2:]] == ["cap.breached", "run.failed"]
    fits("run-event-payloads", log[-2]["payload"], "#/$defs/capBreached")
    assert (log[-2]["payload"]["kind"], log[-2]["payload"]["limit"]) == ("run-duration", 200)
    assert wait_for_run(client, run)["error"]["code"] == "run_timeout"


def test_3_2_step_14_an_accepted_run_shows_its_request(client):
    body = run_request(ref("plain"), trials=2, evalModes=["golden"], temperature=0.2, mine={"x": 1}) | {
        "tags": ["nightly"],
        "metadata": {"build": 7},
    }
    answer = client.post("/v1/runs", json=body)
    made = answer.json()
    assert answer.status_code == 201
    assert made.keys() == {"runId", "status", "eventsUrl", "statusUrl"}
    assert answer.headers["location"] == f"/v1/runs/{made['runId']}"
    assert client.get(made["statusUrl"]).status_code == 200
    shown = wait_for_run(client, made["runId"])
    fits("run-snapshot", shown)
    assert {
        name: shown[name] for name in ("configurable", "tags", "metadata", "agentId", "evalSuiteRef")
    } == {
        "configurable": body["configurable"],
        "tags": ["nightly"],
        "metadata": {"build": 7},
        "agentId": AGENT,
        "evalSuiteRef": ref("plain"),
    }
    log = log_of(client, made["runId"])
    assert [event["type"] for event in log].count("eval.scored") == 2  # one a task, of two trials
    for event in log:
        fits("run-event", event)


def test_2_2_a_tenant_in_the_body_must_be_the_callers(client):
    body = run_request(ref("plain"), evalModes=["golden"])
    refusal = refused(client, body | {"tenantId": "other"}, 403, "forbidden")
    assert refusal["details"] == {"field": "tenantId"}
    assert client.post("/v1/runs", json=body | {"tenantId": "acme"}).status_code == 201


def test_1_1_test_doubles_are_not_offered(client):
    body = run_request(ref("plain"), mockProvider={"id": "x"})
    refused(client, body, 403, "mock_provider_forbidden")
    answer = client.post("/v1/runs", json=run_request(ref("plain")), headers={"X-Force-Engine-Version": "1"})
    assert (answer.status_code, answer.json()["error"]) == (403, "force_engine_version_forbidden")


def test_7_7_without_agents_the_inventory_is_not_provided(tmp_path):
    with Server(sqlite(tmp_path), offer=OpenWopFeatures(offer_agents=False)) as host, host.client() as client:
        assert "manifestRuntime" not in client.get("/.well-known/openwop").json()["agents"]
        assert client.get("/v1/agents").status_code == client.get(f"/v1/agents/{AGENT}").status_code == 404
        assert finish_run(client, PLAIN, evalModes=["golden"])


def test_7_7_the_inventory_has_no_prompt_and_no_schema(client):
    listed = client.get("/v1/agents").json()
    fits("agent-inventory-response", listed)
    assert [one["agentId"] for one in listed["agents"]] == sorted([AGENT, PICKY, TUNED, WEAK, WRITER])
    one = client.get(f"/v1/agents/{PICKY}").json()
    assert one in listed["agents"]
    assert one["hasHandoffSchemas"] is True
    assert "ticket" not in str(listed)
    assert client.get("/v1/agents/local.tests.nobody").status_code == 404


def test_an_adversarial_run_over_http_has_findings_by_kind_and_severity_only(client):
    summary = client.get(f"/v1/runs/{finish_run(client, SUITES['attack'])}/eval-summary").json()
    assert summary["tasks"][0]["safetyFindings"] == []
    fits("eval-summary", summary)
    modes = client.get("/.well-known/openwop").json()["agents"]["evalSuite"]["modes"]
    assert "adversarial" in modes


def test_a_canary_stays_in_the_evidence_of_its_tenant_and_goes_with_it(host, client):
    run = finish_run(client, SUITES["attack"], agent=WEAK)
    (record,) = host.do(_records(host.store, run))
    own = [f"/v1/runs/{run}", f"/v1/runs/{run}/eval-summary", f"/v1/runs/{run}/events/poll?lastSequence=-1"]
    report = f"/v1/host/assay/runs/{run}/eval-report"
    summary = client.get(own[1]).json()
    kinds = {one["kind"] for one in summary["tasks"][0]["safetyFindings"]}
    assert "prompt-injection" in kinds
    assert client.get(report).json()["report"]["safety"]["notLookedFor"] == [
        {"kind": "jailbreak", "reason": "no judge"}
    ]
    with host.client(tenant="other") as other:
        for path in [*own, report, f"/v1/runs/{run}/annotations"]:
            assert other.get(path).status_code == 404
        assert other.delete(f"/v1/host/assay/runs/{run}").status_code == 404
        assert record.canary not in other.get("/v1/host/assay/runs").text
    read = client.get(report)
    assert record.canary in read.text, "its own tenant reads the answer"
    assert record.canary not in read.text.partition('"tasks"')[0]
    for path in (own[0], own[1]):
        assert record.canary not in client.get(path).text
    events = client.get(own[2]).json()["events"]
    assert record.canary not in str([one for one in events if one["type"].startswith(("eval.", "run."))])
    assert client.delete(f"/v1/host/assay/runs/{run}").status_code == 200
    assert host.do(_records(host.store, run)) == []
    assert client.get(own[1]).json() == summary, "kinds and severities stay"


async def _records(store, run):
    return [one async for one in read_records(store, run)]
