"""Runs with names: `--name`, and the name wherever a run is expected, here and with `--server`."""

import json

import pytest
import yaml

from assay.cli.console.client import HostClient
from assay.errors import UsageError
from support.evals import FunctionAgent, golden
from support.servers.openwop_client import suite
from support.servers.rest_client import Server, sqlite

SUITE = suite(golden("right", "x", "x"), golden("wrong", "y", "z"), name="named")
SUITE_ID = SUITE["suiteId"]
AGENTS = "def same(task):\n    return task\n\n\ndef right(task):\n    return {'x': 'x', 'z': 'y'}[task]\n"
CHECKS = [{"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "yes"}}]


@pytest.fixture
def assay(command, tmp_path):
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(SUITE))
    (tmp_path / "who.py").write_text(AGENTS)
    (tmp_path / "checks.json").write_text(json.dumps(CHECKS))
    for name, values in (("a", ("yes", "no")), ("b", ("yes", "yes"))):
        rows = [
            {"test_case": {"id": str(at), "input": at}, "output": {"value": value}}
            for at, value in enumerate(values)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return lambda *arguments: command(*arguments, folder=tmp_path)


@pytest.fixture
def evaluated(assay):
    for name in ("a", "b"):
        ended = assay(
            "evaluate", "--contexts", f"{name}.jsonl", "--checks", "checks.json", "--name", f"model-{name}"
        )
        assert ended.code == 0, ended.err
        assert f"stored; details: assay show model-{name}" in ended.out
    return assay


EVALUATION_VERBS = [
    (["show", "model-a"], 0, "model-a  completed"),
    (["show", "previous"], 0, "model-a  completed"),
    (["compare", "model-a", "model-b"], 0, "0 worse, 1 better, 1 unchanged"),
    (["compare", "previous", "latest"], 0, "0 worse, 1 better, 1 unchanged"),
    (["gate", "model-b", "--min-mean", "0.1"], 0, "passed"),
    (["gate", "model-b", "--baseline", "model-a"], 0, "passed"),
    (["diff", "model-a", "model-b"], 0, "1"),
    (["report", "model-a", "model-b", "-o", "r.md"], 0, "r.md"),
    (["export", "model-a", "-o", "out.jsonl"], 0, "out.jsonl"),
    (["annotate", "model-a", "--case", "1", "--passed"], 0, "1"),
    (["judge", "sample", "model-a", "--check", "exact_match", "-n", "2"], None, ""),
    (["admin", "delete", "model-a", "--yes"], 0, "erased the content"),
]


def test_texts_for_people_call_runs_by_their_names(evaluated, tmp_path):
    gate = evaluated("gate", "model-b", "--baseline", "model-a", "--junit", "gate.xml")
    assert "against model-a: " in gate.out
    assert '<testsuite name="model-b"' in (tmp_path / "gate.xml").read_text("utf-8")
    evaluated("report", "model-a", "model-b", "-o", "named.md")
    assert "model-b beside the baseline model-a" in (tmp_path / "named.md").read_text("utf-8")
    evaluated("report", "model-a", "model-b", "-o", "plain.md", "--redact")
    assert "model-" not in (tmp_path / "plain.md").read_text("utf-8")  # a name is a tag
    several = evaluated("compare", "model-a", "model-b", "model-b").out
    assert several.startswith("model-a → model-b\n")
    for document in (
        json.loads(evaluated("gate", "model-b", "--baseline", "model-a", "--json").out),
        json.loads(evaluated("compare", "model-a", "model-b", "--json").out)["comparisons"][0],
    ):
        assert document["run"].startswith("eval_")
        assert document["run_name"] == "model-b"


def test_every_verb_finds_an_evaluation_by_its_name(evaluated):
    for arguments, code, words in EVALUATION_VERBS:
        ended = evaluated(*arguments)
        assert "there is no run" not in ended.err, arguments
        if code is not None:
            assert ended.code == code, (arguments, ended.out, ended.err)
            assert words in ended.out, (arguments, ended.out)


def test_list_has_the_names(evaluated):
    lines = evaluated("list").out.splitlines()
    assert lines[2::2] == ["  model-b", "  model-a"]
    rows = json.loads(evaluated("list", "--json").out)
    assert [(row["runName"], "tags" in row) for row in rows] == [("model-b", False), ("model-a", False)]


def test_a_name_moves_to_the_newest_run(evaluated):
    again = evaluated("evaluate", "--contexts", "b.jsonl", "--checks", "checks.json", "--name", "model-a")
    assert again.code == 0
    assert "0 worse, 0 better, 2 unchanged" in evaluated("compare", "model-a", "model-b").out


def test_a_run_of_an_agent_has_a_name_too(assay):
    for agent in ("same", "right"):
        ended = assay("run", "suite.yaml", "--agent", f"who:{agent}", "--name", agent, "--any-agent")
        assert ended.code in (0, 3), ended.err
    assert assay("show", "right").out.splitlines()[0].split()[1] == "right"
    assert "0 worse, 1 better" in assay("compare", "same", "right").out
    assert "0 worse, 1 better" in assay("compare", f"previous:{SUITE_ID}", f"latest:{SUITE_ID}").out
    compared = assay("run", "suite.yaml", "--agent", "who:right", "--any-agent", "--baseline", "same")
    assert compared.code == 0, compared.err
    cased = assay(
        "evaluate",
        "--cases",
        "cases.jsonl",
        "--agent",
        "who:same",
        "--checks",
        "checks.json",
        "--name",
        "asked",
    )
    assert cased.code == 2  # there is no such file, and nothing is stored under the name
    assert "there is no run 'asked'" in assay("show", "asked").err


def test_an_evaluation_of_an_agent_has_a_name(assay, tmp_path):
    (tmp_path / "cases.jsonl").write_text('{"id": "1", "input": "yes"}\n')
    ended = assay(
        "evaluate",
        "--cases",
        "cases.jsonl",
        "--agent",
        "who:same",
        "--checks",
        "checks.json",
        "--name",
        "asked",
    )
    assert ended.code == 0, ended.err
    assert assay("show", "asked").out.splitlines()[0].split()[1] == "asked"


@pytest.mark.parametrize("name", ["latest", "a/b"])
@pytest.mark.parametrize(
    "verb",
    [
        ["evaluate", "--contexts", "a.jsonl", "--checks", "checks.json"],
        ["run", "suite.yaml", "--agent", "who:same", "--any-agent"],
    ],
    ids=lambda verb: verb[0],
)
def test_a_name_that_is_none_is_refused_before_anything_runs(assay, verb, name):
    ended = assay(*verb, "--name", name)
    assert ended.code == 2
    assert "--name: expected" in ended.err
    assert "no runs are stored here" in assay("list").out


def test_a_resumed_run_keeps_its_name_and_takes_no_other(assay):
    refused = assay("run", "--resume", "latest", "--name", "x")
    assert refused.code == 2
    assert "leave these options out" in refused.err.replace("\n", " ")


def test_names_and_short_ids_work_on_a_server(command, tmp_path):
    agent = FunctionAgent(lambda task: task, agent_id="local.who.same")
    with Server(sqlite(tmp_path), agents=[agent]) as host:
        (tmp_path / "suite.yaml").write_text(yaml.safe_dump(SUITE))
        (tmp_path / "key").write_text(host.key() + "\n")

        def there(*arguments):
            return command(*arguments, "--server", host.url, "--key-file", "key", folder=tmp_path)

        for name in ("first", "second"):
            ended = there("run", "suite.yaml", "--agent", "local.who.same", "--any-agent", "--name", name)
            assert ended.code in (0, 3), ended.err
        with host.client() as client:
            rows = client.post("/v1/host/assay/runs:query", json={}).json()["runs"]
        assert [row["tags"] for row in rows] == [["name=second"], ["name=first"]]
        newest, oldest = (row["runId"] for row in rows)
        found = HostClient(host.url, str(tmp_path / "key")).find_run
        references = {
            "first": oldest,
            "second": newest,
            "latest": newest,
            "previous": oldest,
            f"latest:{SUITE_ID}": newest,
            f"previous:{SUITE_ID}": oldest,
            newest[:-2]: newest,
            oldest: oldest,
            "third": "third",  # the server refuses it
        }
        assert {reference: found(reference) for reference in references} == references
        for reference, words in (
            ("latest:other", "there is no eval run yet"),
            ("previous:other", "there is no eval run yet"),
            ("run-", "'run-': expected the beginning of one run id, got that of 2; give more characters"),
        ):
            with pytest.raises(UsageError, match=words):
                found(reference, "eval run")
        with pytest.raises(UsageError, match=f"no run of '{SUITE_ID}' is before {newest}"):
            found("previous", tag="name=second")
        shown = there("annotate", "previous", "--task", "wrong", "--rating", "4")
        assert shown.code == 0, shown.err
        assert oldest in shown.out
        missing = there("annotate", "third", "--task", "wrong", "--rating", "4")
        assert missing.code in (1, 2)
        assert "third" in missing.err


def test_the_error_of_an_agent_is_the_reason_in_a_comparison_and_a_gate(assay, tmp_path):
    (tmp_path / "who.py").write_text(AGENTS + "\n\ndef broken(task):\n    raise ValueError('oops')\n")
    for agent in ("right", "broken"):
        assay("run", "suite.yaml", "--agent", f"who:{agent}", "--name", agent, "--any-agent")
    for verb in (
        ["compare", "right", "broken"],
        ["gate", "broken", "--baseline", "right", "--markdown", "g.md"],
    ):
        ended = assay(*verb)
        text = ended.out + ((tmp_path / "g.md").read_text() if "gate" in verb else "")
        assert "the agent failed: ValueError: oops" in text, text
        assert "expected 'completed'" not in text


def test_only_failing_has_nothing_to_run_once_everything_passes(assay):
    assay("run", "suite.yaml", "--agent", "who:right", "--any-agent")
    again = assay("run", "suite.yaml", "--agent", "who:right", "--any-agent", "--only", "failing")
    assert (again.code, again.out.startswith("nothing to run: no task of the suite failed in run-")) == (
        0,
        True,
    )
