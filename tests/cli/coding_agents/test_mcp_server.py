"""`assay mcp --server`: the same tools, with the runs of another host."""

import json

import pytest

from support.commands.mcp_client import cheap_assay, mcp_client
from support.evals import FunctionAgent, golden
from support.servers.openwop_client import suite
from support.servers.rest_client import Server, sqlite

SUITE = suite(golden("right", "x", "x"), golden("wrong", "y", "x"), name="asked", modes=("golden",))
CALL = {"suite": "suite.json", "agent": "local.who.answer"}


@pytest.fixture(scope="module")
def there(tmp_path_factory, zygote):
    folder = tmp_path_factory.mktemp("there")
    with Server(
        sqlite(folder), agents=[FunctionAgent(lambda task: task, agent_id="local.who.answer")]
    ) as host:
        here = tmp_path_factory.mktemp("here")
        (here / "suite.json").write_text(json.dumps(SUITE))
        (here / "key").write_text(host.key() + "\n")
        (here / "rules.yaml").write_text("min_mean: 0.9\n")
        options = ("--server", host.url, "--key-file", "key")
        with mcp_client(here, *options, assay=cheap_assay(zygote)) as client:
            yield client, here


def test_runs_are_made_read_compared_and_decided_there(there):
    client, here = there
    progress = []
    ran = client("run", progress=progress, **CALL)
    assert (ran["outcome"], ran["exit_code"], ran["failing"]) == (
        "failed",
        3,
        [{"id": "wrong", "score": 0.0}],
    )
    assert progress[-1][:2] == (2, 2)
    failures = client("failures")
    assert (failures["run"], failures["status"]) == (ran["run"], "completed")
    assert failures["count"] == "2 tasks: 1 passed, 1 failed, 0 not measured"
    (case,) = failures["cases"]
    assert (case["data"]["id"], case["data"]["expected"], case["data"]["got"]) == ("wrong", "y", "x")
    shown = client("show_case", run=ran["run"], case="right")
    assert (shown["trials"][0]["failing"], shown["trials"][0]["data"]["got"]) == (False, "x")
    second = client("run", **CALL)["run"]
    compared = client("compare", baseline=ran["run"], run=second)
    assert (compared["comparison"]["unchanged"], compared["comparison"]["difference"]) == (2, 0)
    gate = client("gate", run=second, baseline=ran["run"], policy="rules.yaml")
    assert (gate["outcome"], gate["exit_code"]) == ("failed", 3)
    assert client("gate", run=second, min_mean=0.1)["exit_code"] == 0
    assert not (here / ".assay").exists()


REFUSED = {
    "unknown run": ("failures", {"run": "run-z"}, "there is no run 'run-z'"),
    "unknown case": ("show_case", {"run": "latest", "case": "wron"}, "did you mean wrong?"),
    "unknown agent": ("run", {"suite": "suite.json", "agent": "local.nobody"}, "local.nobody"),
    "unknown task": ("run", {**CALL, "tasks": ["wron"]}, "did you mean wrong?"),
    "itself": ("gate", {"run": "latest", "baseline": "latest"}, "expected another run"),
}


def test_a_refusal_of_the_server_keeps_its_words(there):
    client, _ = there
    client("run", **CALL)
    texts = {name: client(tool, **arguments) for name, (tool, arguments, _) in REFUSED.items()}
    wrong = {
        name: one.text for name, one in texts.items() if not one.is_error or REFUSED[name][2] not in one.text
    }
    assert wrong == {}
