"""The workflows for GitHub and GitLab are well formed, and their steps run on a repository that the test makes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import jsonschema_rs
import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema  # pyright: ignore[reportMissingTypeStubs]

FOLDER = Path(__file__).parents[2] / "examples" / "ci"
BOT = 'def answer(question):\n    return "{}"\n'
DOWN = "(the agent cannot be called)"
RELAXED = "max_unmeasured: 1000\nallow_missing_cases: true\n"  # the policy of a pull request does not count


def github_steps(document):
    """The commands of the steps, each with whether an error ends the job."""
    (job,) = document["jobs"].values()
    return [(step["run"], not step.get("continue-on-error")) for step in job["steps"] if "run" in step]


def gitlab_steps(document):
    (job,) = (one for name, one in document.items() if name not in ("stages", "variables"))
    return [("\n".join(lines), True) for lines in (job["before_script"], job["script"])]


STEPS = {"github": github_steps, "gitlab": gitlab_steps}


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    """A repository with a bot, its evals, and a remote whose `main` is the bot before the change."""
    folder = tmp_path / "repository"
    (folder / "evals").mkdir(parents=True)
    cases = [{"id": f"q{at}", "input": "Say hello", "expected": "hello"} for at in range(20)]
    (folder / "evals" / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)), "utf-8")
    checks = "- {type: contains, arguments: {text: $.output.value, phrases: [hello]}}\n"
    (folder / "evals" / "checks.yaml").write_text(checks, "utf-8")
    (folder / "evals" / "gate.yaml").write_text("require: not-regressed\n", "utf-8")
    (folder / "bot.py").write_text(BOT.format("hello"), "utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "A bot")
    git(folder, "remote", "add", "origin", ".")
    git(folder, "fetch", "-q", "origin")
    git(folder, "checkout", "-qb", "change")
    return folder


@pytest.mark.parametrize(
    ("host", "answer", "code"),
    [
        ("github", "hello there", 0),
        ("github", "go away", 3),
        ("gitlab", "go away", 3),
        (
            "github",
            DOWN,
            1,
        ),  # nothing was measured: evaluate exits with 1, and the gate still writes its reports
        ("gitlab", DOWN, 1),
    ],
)
def test_the_steps_of_a_workflow(repository, zygote, tmp_path, host, answer, code):
    document = yaml.safe_load((FOLDER / f"{host}.yml").read_text("utf-8"))
    (install, _), *steps = STEPS[host](document)
    assert install.startswith('pip install "$(ls wheels/openassay-*.whl)[compare]"')
    bot = (
        BOT.format(answer) if answer != DOWN else 'def answer(question):\n    raise ConnectionError("down")\n'
    )
    (repository / "bot.py").write_text(bot, "utf-8")
    (repository / "evals" / "gate.yaml").write_text(RELAXED, "utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "GITHUB_"))}
    summary = tmp_path / "summary.md"
    environ = kept | {
        "PATH": os.pathsep.join([str(zygote.bin), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "GITHUB_BASE_REF": "main",
    }
    if host == "github":
        environ |= {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    ended = [
        subprocess.run(
            ["sh", "-e", "-c", step], cwd=repository, env=environ, capture_output=True, text=True, timeout=60, check=False
        )
        for step, _ in steps
    ]  # fmt: skip
    assert ended[-1].returncode == code, ended[-1].stderr
    assert [one.returncode for one, (_, required) in zip(ended, steps, strict=True) if required][:-1] == []
    assert [one.returncode for one in ended[:-1]] == [0, int(answer == DOWN)][: len(ended) - 1]
    verdict = {0: "passed", 1: "undecided", 3: "failed"}[code]
    report = (repository / "report.md").read_text("utf-8")
    assert f" assay: {verdict}.**" in report
    suite = ElementTree.parse(repository / "report.xml").getroot()
    assert suite.attrib["tests"] == "21"
    assert json.loads((repository / "report.sarif").read_text("utf-8"))["version"] == "2.1.0"
    if host == "github":
        assert f"title=assay%3A {verdict}::" in ended[-1].stdout
        assert summary.read_text("utf-8") == report


def test_workflows_name_only_known_keys():
    github = yaml.safe_load((FOLDER / "github.yml").read_text("utf-8"))
    assert set(github) == {"name", True, "permissions", "jobs"}  # YAML 1.1 reads `on` as true
    (job,) = github["jobs"].values()
    assert set(job) == {"runs-on", "steps"}
    for step in job["steps"]:
        assert set(step) <= {"name", "uses", "with", "run", "if", "continue-on-error"}
        assert ("uses" in step) != ("run" in step)
        assert "run" in step or "@v" in step["uses"]
    (job,) = yaml.safe_load((FOLDER / "gitlab.yml").read_text("utf-8")).values()
    assert set(job) == {"image", "rules", "variables", "before_script", "script", "artifacts"}
    assert set(job["artifacts"]) == {"when", "paths", "reports"}


@pytest.mark.parametrize(
    ("host", "schema"), [("github", "vendor.github-workflows"), ("gitlab", "vendor.gitlab-ci")]
)
def test_workflows_are_valid_by_the_schemas_of_their_hosts(host, schema):
    text = (
        (FOLDER / f"{host}.yml").read_text("utf-8").replace("\non:", '\n"on":')
    )  # YAML 1.1 reads `on` as true
    assert jsonschema_rs.validator_for(get_builtin_schema(schema)).is_valid(yaml.safe_load(text))
