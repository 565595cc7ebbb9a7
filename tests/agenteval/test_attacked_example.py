"""examples/attacked: the weak agent falls for attacks with the right kinds, the careful one for none; neither knows the suite."""

import json
import shutil

import pytest

from assay.agenteval.attacks import ATTACKS
from assay.agenteval.attacks.generate import HOSTS, OTHER_TOOLS, PEOPLE
from assay.agenteval.suites.suite import read_suite_file
from assay.checks.safety import DETECTORS
from assay.ports import Limits
from support.documents import ROOT

FOLDER = ROOT / "examples" / "attacked"
COMMAND = ("suite", "attack", "suite.yaml", "--agent", "local.examples.careful")
BY_NAME = {attack.name: attack for attack in ATTACKS}
MEASURED = {type.replace("_", "-") for type in DETECTORS}


@pytest.fixture(scope="module")
def folder(command, tmp_path_factory):
    folder = shutil.copytree(FOLDER, tmp_path_factory.mktemp("example") / "attacked")
    for seed in ("11",):
        made = command(*COMMAND, "--seed", seed, "--limit", "18", "-o", f"seed-{seed}.yaml", folder=folder)
        assert made.code == 0, made.err
    return folder


def attack_of(task_id):
    return next(attack for name, attack in BY_NAME.items() if f"{attack.owasp}-{name}-" in task_id)


def findings(command, folder, suite, agent, *options):
    """The exit code, and the kinds of findings by task."""
    ended = command("run", suite, "--agent", f"local.examples.{agent}", "--json", *options, folder=folder)
    assert ended.code in (0, 3), ended.err
    tasks = json.loads(ended.out)["summary"]["tasks"]
    return ended.code, {task["taskId"]: {one["kind"] for one in task["safetyFindings"]} for task in tasks}


def test_the_shipped_suite_is_what_the_command_of_its_readme_writes(command, folder):
    line = (
        "assay suite attack suite.yaml --agent local.examples.careful --limit 54 -o adversarial.yaml --force"
    )
    assert line in (FOLDER / "README.md").read_text("utf-8")
    again = command(*COMMAND, "--limit", "54", folder=folder)
    assert again.out == (FOLDER / "adversarial.yaml").read_text("utf-8")


def test_neither_agent_knows_the_suite():
    suite = read_suite_file(str(FOLDER / "adversarial.yaml"), Limits())
    hidden = [task.task_id for task in suite.tasks]
    hidden += [*OTHER_TOOLS, *HOSTS, *PEOPLE, "canary", "AKIA", *(attack.name for attack in ATTACKS)]
    hidden += [text for attack in ATTACKS for text in attack.texts.values()]
    for name in ("weak.py", "careful.py"):
        source = (FOLDER / name).read_text("utf-8")
        assert not [text for text in hidden if text in source]


@pytest.mark.parametrize("suite", ["adversarial.yaml", "seed-11.yaml"])
def test_the_weak_agent_fails_with_the_right_kinds_and_the_careful_one_passes(command, folder, suite):
    code, careful = findings(command, folder, suite, "careful")
    assert (code, set().union(*careful.values())) == (0, set())
    code, weak = findings(command, folder, suite, "weak")
    assert code == 3
    kinds = {attack.kind for attack in ATTACKS}
    assert set().union(*weak.values()) == MEASURED & kinds
    for task_id, found in weak.items():
        attack = attack_of(task_id)
        also = {"prompt-injection"} if "canary" in attack.slots else set()
        assert found <= {attack.kind} | also, task_id


def test_a_judge_finds_the_jailbreaks_of_the_weak_agent_alone(command, folder):
    judged = ("--judge", "script:judge")
    made = command(
        *COMMAND, "--judge", "--kinds", "jailbreak", "--limit", "10", "-o", "j.yaml", folder=folder
    )
    assert made.code == 0, made.err
    assert "next: assay run j.yaml --agent local.examples.careful --judge PROVIDER:MODEL" in made.out
    code, careful = findings(command, folder, "j.yaml", "careful", *judged)
    assert (code, set().union(*careful.values())) == (0, set())
    code, weak = findings(command, folder, "j.yaml", "weak", *judged)
    assert code == 3
    assert {attack_of(id).name for id, kinds in weak.items() if kinds} == {
        "forbidden-guide",
        "unlimited-persona",
    }
    assert set().union(*weak.values()) == {"jailbreak"}
