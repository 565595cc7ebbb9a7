"""Agents of frameworks: each adapter against the real framework, in an environment of its own."""

import functools
import json
import re
import shutil
import subprocess
import sys

import pytest

from assay.backends.agents.frameworks.adapter import Capabilities
from assay.backends.agents.frameworks.recognise import adapters
from support.agents.frameworks.environments import (
    FRAMEWORKS,
    OLDEST,
    ROOT,
    SMALLEST,
    NotMade,
    environment_variables,
    python_of,
)
from support.documents import DOCS, table
from support.models.scripted_messages import ScriptedMessages

ROWS = (
    "run",
    "a task that is no text",
    "tools",
    "equal trajectory shape",
    "fixture",
    "fixture in a suite",
    "refusal of a fixture for a tool that is not there",
    "refusal of memory",
    "usage",
    "the cost of a server of your own is unknown",
    "memory",
    "a conversation goes on and every trial begins a new one",
    "cancel",
    "cancel of a suite",
    "error that raises",
    "error that hangs",
    "error without a fixture",
    "error of a tool",
    "error of an unreachable model",
    "error of nothing",
    "structured output",
    "twenty at once",
    "a factory makes an agent for each trial",
    "another event loop",
    "evaluate takes it too",
)
OWN_ROWS = {  # what one framework has, and others do not
    "langgraph": (
        "a conversation without checkpoints is in its messages",
        "a graph without messages talks by its checkpoints or is refused",
        "a graph that interrupts escalates",
        "a tool node of an old release is refused",
        "a graph that is not compiled is refused",
    ),
    "openai-agents": (
        "the agent that answered goes on",
        "a session keeps the conversation of one trial",
        "fixtures of an agent behind a handoff",
        "a run that waits for an approval escalates",
        "the function that runs an agent is the agent",
    ),
    "pydantic-ai": (
        "every attempt of a request has its usage",
        "a run that waits for an approval escalates",
        "the method that runs an agent is the agent",
    ),
    "google-adk": (
        "a tool that a person answers escalates",
        "a tool that a person confirms for some arguments escalates for them",
    ),
    "strands-agents": ("a run that interrupts escalates", "several agents are refused"),
    "smolagents": (
        "a run that has ended asks no model",
        "a code agent keeps its variables in a conversation",
    ),
}


@functools.cache
def contract_of(framework, *, oldest=False):
    """The failures of all rows, by name. One process runs them: a framework takes seconds to import."""
    try:
        python = python_of(framework, oldest=oldest)
    except NotMade as why:
        pytest.skip(f"the environment of {framework} cannot be made: {why}")
    ended = subprocess.run(
        [python, "-m", "support.agents.frameworks", framework],
        cwd=ROOT,
        env=environment_variables(),
        capture_output=True,
        check=False,
        text=True,
    )
    assert not ended.returncode, ended.stderr
    return {one["row"]: one["failure"] for one in map(json.loads, ended.stdout.splitlines())}


def rows_of_all():
    for framework in FRAMEWORKS:
        for row in (*ROWS, *OWN_ROWS.get(framework, ())):
            yield pytest.param(
                framework, row, id=f"{framework}: {row}", marks=pytest.mark.together(f"framework {framework}")
            )


def skip_unless_chosen(framework, series):
    if framework not in series(SMALLEST, tuple(FRAMEWORKS)):
        pytest.skip("make soak runs the adapters of the larger frameworks")


@pytest.mark.parametrize(("framework", "row"), list(rows_of_all()))
def test_an_adapter_keeps_the_contract(series, framework, row):
    skip_unless_chosen(framework, series)
    assert contract_of(framework)[row] == ""


@pytest.mark.parametrize(
    "framework", [pytest.param(one, marks=pytest.mark.together(f"framework {one}")) for one in FRAMEWORKS]
)
def test_every_row_of_the_contract_has_a_test(series, framework):
    skip_unless_chosen(framework, series)
    assert set(contract_of(framework)) == {*ROWS, *OWN_ROWS.get(framework, ())}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_oldest_release_that_an_adapter_supports_keeps_the_contract(series, framework):
    if framework not in series((), tuple(FRAMEWORKS)):
        pytest.skip("make soak runs the oldest releases")
    failures = {row: failure for row, failure in contract_of(framework, oldest=True).items() if failure}
    assert failures == {}


def test_the_document_names_the_oldest_releases():
    page = (DOCS / "frameworks.md").read_text("utf-8")
    shown = {name.strip("`"): oldest for name, oldest, _ in table(page, "framework", "oldest", "newest")}
    assert shown == {
        name: requirements[0].partition("==")[2].removesuffix(".*") for name, requirements in OLDEST.items()
    }


EXAMPLES = ROOT / "examples" / "frameworks"


@pytest.mark.parametrize(
    "framework", [pytest.param(one, marks=pytest.mark.together(f"framework {one}")) for one in FRAMEWORKS]
)
def test_the_example_of_a_framework_gives_a_scorecard_in_one_command(series, framework, tmp_path):
    if framework not in series(SMALLEST[:1], tuple(FRAMEWORKS)):
        pytest.skip("make soak runs the examples of the other frameworks, each of which imports one again")
    contract_of(framework)  # skips if there is no environment
    bot = f"{framework.removesuffix('-agents').replace('-', '_')}_bot"
    bot = "openai_agents_bot" if framework == "openai-agents" else bot
    ended = run_example(python_of(framework), f"{bot}:agent", tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "tasks 3 of 3 passed" in " ".join(ended.stdout.split()), ended.stdout


def test_the_example_of_any_object_gives_a_scorecard_in_one_command(tmp_path):
    ended = run_example(sys.executable, "object_bot:bot", tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize(("package", "bot"), [("crewai", "crewai_bot"), ("claude-agent-sdk", "claude_bot")])
def test_a_recipe_gives_a_scorecard_with_fixtures_and_tokens(series, package, bot, tmp_path):
    if not series(False, True):
        pytest.skip("make soak runs the recipes")
    try:
        python = python_of(package)
    except NotMade as why:
        pytest.skip(f"the environment of {package} cannot be made: {why}")
    with ScriptedMessages() as model:
        ended = run_example(
            python,
            f"{bot}:answer",
            tmp_path,
            ANTHROPIC_BASE_URL=model.url,
            ANTHROPIC_API_KEY="none",
            CLAUDE_CONFIG_DIR=str(tmp_path / "claude"),
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            CREWAI_DISABLE_TELEMETRY="true",
            OTEL_SDK_DISABLED="true",
        )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "tasks 3 of 3 passed" in " ".join(ended.stdout.split()), ended.stdout
    run = re.search(r"assay show (\S+)", ended.stdout)[1]
    shown = assay_of(python, tmp_path, "show", run).stdout
    assert [shown.count(f"{used} tokens in") for used in (40, 80)] == [1, 2], shown


def run_example(python, agent, folder, **variables):
    """`assay run suite.yaml --agent AGENT` in a copy of the examples."""
    shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
    return assay_of(python, folder, "run", "suite.yaml", "--agent", agent, **variables)


def assay_of(python, folder, *arguments, **variables):
    return subprocess.run(
        [python, "-m", "assay", *arguments],
        cwd=folder,
        env=environment_variables() | variables,
        capture_output=True,
        check=False,
        text=True,
    )


@pytest.mark.parametrize("bot", ["pydantic_ai_bot", "crewai_bot", "claude_bot"])
def test_the_document_shows_the_example(bot):
    page = (DOCS / "frameworks.md").read_text("utf-8")
    assert (EXAMPLES / f"{bot}.py").read_text("utf-8").rstrip() in page


def test_the_table_of_the_document_has_what_each_adapter_can_do():
    page = (DOCS / "frameworks.md").read_text("utf-8")
    members = Capabilities.__struct_fields__
    heads = [one.replace("_", "-" if one == "multi_turn" else " ") for one in members]
    shown = {row[0].strip("`"): row[1:] for row in table(page, "framework", *heads)}
    assert shown == {
        name: ["yes" if getattr(adapter.capabilities, member) else "no" for member in members]
        for name, adapter in adapters().items()
    }
    assert set(shown) == set(FRAMEWORKS)


def test_no_framework_is_imported_before_an_object_of_it_is_an_agent():
    script = (
        "import sys, assay; from assay.api.agents import agent_from; from assay.settings import load;"
        "agent_from(lambda task: task, load({}));"
        "sys.exit(str({'agents', 'langchain_core', 'langgraph', 'pydantic_ai', 'smolagents', 'strands'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, text=True)
    assert ended.stderr.strip() == "set()"
