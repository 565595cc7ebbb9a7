"""Agents of frameworks: each adapter against the real framework, in an environment of its own."""

import functools
import json
import subprocess

import pytest

from support.agents.frameworks.environments import (
    FRAMEWORKS,
    ROOT,
    SMALLEST,
    NotMade,
    environment_variables,
    python_of,
)

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
    "memory",
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
    "evaluate takes it too",
)
OWN_ROWS = {}  # what one framework has, and others do not


@functools.cache
def contract_of(framework):
    """The failures of all rows, by name. One process runs them: a framework takes seconds to import."""
    try:
        python = python_of(framework)
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
