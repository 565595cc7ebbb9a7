"""`assay suite attack`: which source it takes, where it writes, and what it refuses."""

import json

import pytest

from assay.agenteval.attacks import KINDS
from assay.agenteval.suites.suite import read_suite_file
from assay.cli.agent_evals.suite_attack import attack
from assay.errors import InvalidRequest, UsageError
from assay.ports import Limits

SUITE = """
suiteId: local.shop.evals.orders
version: 1.0.0
modes: [golden]
tasks:
  - taskId: order
    input: Where is it?
    expected: {kind: golden, match: {strategy: contains, value: sent}}
"""
MANIFEST = {"agentId": "local.shop.bot", "persona": "Bot", "modelClass": "writing", "systemPrompt": "Help."}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "manifest.json").write_text(json.dumps(MANIFEST))
    (tmp_path / "attacked_shop.py").write_text(
        "print('loud')\ndef answer(task, ctx):\n    return 'x'\ndef plain(task):\n    return 'x'\n"
    )
    (tmp_path / "there.yaml").write_text("mine")
    (tmp_path / "folder.yaml").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def write(source, **options):
    defaults = {
        "agent": None,
        "output": None,
        "force": False,
        "kinds": [],
        "seed": 0,
        "limit": 6,
        "judge": False,
    }
    attack(source=source, **(defaults | options))


@pytest.mark.parametrize(
    ("source", "agent", "target", "note"),
    [
        ("suite.yaml", None, None, "no ordinary task has a memorySeed"),
        ("suite.yaml", "attacked_shop:answer", None, "no ordinary task has a tool response"),
        ("suite.yaml", "attacked_shop:plain", None, "takes no tools"),
        ("attacked_shop:answer", None, None, "built-in tasks are used"),
        ("manifest.json", None, "local.shop.bot", "agent local.shop.bot takes no tools"),  # and it needs no model
        ("http://127.0.0.1:9/agent", None, None, "built-in tasks are used"),
    ],
)  # fmt: skip
def test_a_suite_or_an_agent_gives_a_valid_suite(folder, capsys, source, agent, target, note):
    write(source, agent=agent, output="new.yaml")
    suite = read_suite_file("new.yaml", Limits())
    assert (suite.target_agent_id or None) == target
    assert len(suite.tasks) == 6
    captured = capsys.readouterr()
    assert note in captured.err
    assert "wrote new.yaml: 6 tasks; next: assay run new.yaml --agent" in captured.out
    assert not (folder / ".assay").exists()  # nothing but the file is written


def test_without_a_file_the_suite_alone_goes_to_standard_output(folder, capsys):
    write("attacked_shop:answer", kinds=["secret-leak,unsafe-output", "excessive-agency"])
    first = capsys.readouterr().out
    (folder / "out.yaml").write_text(first)
    assert len(read_suite_file("out.yaml", Limits()).tasks) == 6
    assert "\x1b" not in first
    write("attacked_shop:answer", kinds=["secret-leak,unsafe-output", "excessive-agency"], output="out.json")
    assert read_suite_file("out.json", Limits()) == read_suite_file("out.yaml", Limits())


def test_a_judge_adds_the_jailbreak_attacks_and_the_next_command_names_it(folder, capsys):
    write("attacked_shop:answer", kinds=["jailbreak"], judge=True, output="new.yaml")
    tasks = read_suite_file("new.yaml", Limits()).tasks
    assert {task.task_id.split("-input-")[0] for task in tasks} == {
        "llm01-forbidden-guide",
        "llm01-unlimited-persona",
    }
    captured = capsys.readouterr()
    assert captured.out.rstrip().endswith("--agent attacked_shop:answer --judge PROVIDER:MODEL")
    write("attacked_shop:answer", output="less.yaml")
    assert "forbidden-guide, unlimited-persona" in capsys.readouterr().err


def test_the_next_command_names_the_agent_of_the_suite(folder, capsys):
    (folder / "for.yaml").write_text(SUITE + "targetAgentId: local.shop.bot\n")
    write("for.yaml", output="new.yaml")
    assert "next: assay run new.yaml --agent local.shop.bot\n" in capsys.readouterr().out


def test_a_file_is_overwritten_with_force_alone(folder):
    with pytest.raises(UsageError, match=r"there\.yaml: expected a new file, got one that exists; --force"):
        write("suite.yaml", output="there.yaml")
    assert (folder / "there.yaml").read_text() == "mine"
    write("suite.yaml", output="there.yaml", force=True)
    assert "taskId" in (folder / "there.yaml").read_text()


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("suite.yaml", {"kinds": ["vibes"]}, f"--kinds 'vibes': expected one of {', '.join(KINDS)}"),
        ("suite.yaml", {"kinds": [""]}, "--kinds ''"),
        ("suite.yaml", {"kinds": ["secret-leak,jailbreak"]}, "--kinds jailbreak: expected --judge with it"),
        ("suite.yaml", {"output": "new.txt"}, "expected a file that ends in .yaml or .json"),
        ("suite.yaml", {"output": "none/new.yaml"}, "there is no folder none"),
        ("suite.yaml", {"output": "folder.yaml"}, "expected a file, got a folder"),
        ("suite.yaml", {"force": True}, "--force: expected -o F with it"),
        ("none.yaml", {}, "none.yaml: there is no such file"),
        ("none.json", {}, "none.json: there is no such file"),
        ("there.yaml", {}, "there.yaml"),
        ("what", {}, "'what': expected a suite (.yaml, .json"),
        ("attacked_shop:answer", {"agent": "attacked_shop:plain"}, "--agent: expected a SUITE with it"),
        ("attacked_shop:none", {}, "none"),
        ("suite.yaml", {"kinds": ["pii-leak"]}, "no attack fits: no attacks in tool-result"),
    ],
)  # fmt: skip
def test_a_wrong_attack_suite_is_refused_with_its_reason(folder, source, options, message):
    with pytest.raises((UsageError, InvalidRequest)) as refused:
        write(source, **options)
    assert message in str(refused.value)
