"""What a key does not seal is what docs/security.md says is not promised: names, and no other word of a run."""

import re
from pathlib import Path

import pytest

from assay.backends.keyring import KeyRing
from assay.protocol.agents import InvocationResult
from support.evals import FunctionAgent
from support.servers.openwop_client import log_of, run_request, store_suite, suite, wait_for_run
from support.servers.rest_client import Server
from support.stores.database_dump import dump_of
from support.workflows import ScriptedAgent, loop

CIPHER = KeyRing({"a": bytes(range(32))})
DOCS = Path(__file__).parents[3] / "docs" / "security.md"

# every word that is planted, and whether it lies in clear: under the name that the page has for it
CLEAR = {
    "tag": "tags",
    "suite": "suites",
    "task": "tasks",
    "agent": "agents",
    "workflow": "workflows",
    "provider": "providers",
    "model": "models",
    "criterion": "criteria",
}
SEALED = (
    "evalinput", "evalexpected", "evaloutput", "evalmetadata", "evalconfigurable", "reasoned",
    "flowinput", "flowoutput", "flowmetadata", "flowconfigurable", "criticsays",
    "notewords", "label", "cancelreason",
)  # fmt: skip


def word(name):
    return f"zz{name}zz"


async def act(task, scene):
    scene.usage(provider=word("provider"), model=word("model"), input_tokens=1, output_tokens=1)
    scene.reason(word("reasoned"))
    return InvocationResult(outcome="completed", result=word("evaloutput"))


def critic(about, scene):
    return {"verdict": "pass", "notes": word("criticsays"), "criteria": []}


def fill(client, agent):
    """A run of every kind, with a word of its own in every place."""
    task = {
        "taskId": word("task"),
        "input": word("evalinput"),
        "expected": {"kind": "golden", "match": {"strategy": "exact", "value": word("evalexpected")}},
    }
    ref = store_suite(client, suite(task, name=word("suite")))
    body = run_request(ref, agent) | {"tags": [word("tag")], "metadata": {"m": word("evalmetadata")}}
    body["configurable"] = {"own": word("evalconfigurable")}
    made = client.post("/v1/runs", json=body)
    assert made.status_code == 201, made.text
    run = made.json()["runId"]
    assert wait_for_run(client, run)["status"] == "completed"
    note = {"signal": {"kind": "label", "label": word("label")}, "note": word("notewords")}
    assert client.post(f"/v1/runs/{run}/annotations", json=note).status_code == 201
    flow = {
        "workflowId": word("workflow"),
        "inputs": {"task": word("flowinput")},
        "tags": [word("tag")],
        "metadata": {"m": word("flowmetadata")},
        "configurable": {"own": word("flowconfigurable")},
    }
    made = client.post("/v1/runs", json=flow)
    assert made.status_code == 201, made.text
    events = log_of(client, made.json()["runId"])
    assert events[-1]["type"] == "run.completed", events[-1]
    waiting = client.post("/v1/runs", json={"workflowId": "conformance-approval"}).json()["runId"]
    client.post(f"/v1/runs/{waiting}/cancel", json={"reason": word("cancelreason")})


def hosted(disk, cipher):
    agent = f"local.{word('agent')}"
    actor = ScriptedAgent("local.actor", [word("flowoutput")])
    checks = {
        word("criterion"): {
            "type": "contains",
            "arguments": {"text": "$.output.value", "phrases": [word("flowoutput")]},
        }
    }
    loops = {word("workflow"): loop("local.actor", ["local.critic"], criteria=checks)}
    agents = (FunctionAgent(act, agent_id=agent), actor, ScriptedAgent("local.critic", critic))
    return Server(disk, cipher=cipher, agents=agents, loops=loops, seeded=True), agent


@pytest.mark.parametrize("cipher", [CIPHER, None], ids=["sealed", "clear"])
def test_with_a_key_only_names_are_in_clear(disk, cipher):
    server, agent = hosted(disk, cipher)
    with server, server.client() as client:
        fill(client, agent)
    thief = dump_of(disk)
    found = {name for name in (*CLEAR, *SEALED) if word(name).encode() in thief}
    assert found == ({*CLEAR} if cipher else {*CLEAR, *SEALED})


def test_the_page_lists_every_name_that_is_in_clear():
    (documented,) = re.findall(
        r"\*\*Not promised\.\*\*\n\n- Ids, .*?(?=\n\n|\Z)", DOCS.read_text(), re.DOTALL
    )
    assert [name for name in CLEAR.values() if not re.search(rf"\b{name}\b", documented)] == []
