"""How often Python looks for garbage while agents run."""

import asyncio
import gc

import pytest

import assay
from assay.concurrency.garbage import THRESHOLDS, gc_rare

CHECKS = [{"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["yes"]}}]
SUITE = {
    "suiteId": "local.evals.garbage",
    "version": "1.0.0",
    "modes": ["golden"],
    "tasks": [
        {
            "taskId": "t",
            "input": "x",
            "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "yes"}},
        }
    ],
}


@pytest.fixture(autouse=True)
def usual():
    """The thresholds of Python, and then those of before."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(
    ("own", "within"),
    [
        ((700, 10, 10), THRESHOLDS),
        ((200_000, 20, 50), THRESHOLDS),  # of a command: the contents of calls are in cycles
        ((0, 10, 10), (0, 10, 10)),  # off
    ],
)
def test_thresholds_of_a_program_come_back_after_the_last_run(own, within):
    gc.set_threshold(*own)
    with gc_rare():
        with gc_rare():
            assert gc.get_threshold() == within
        assert gc.get_threshold() == within
    assert gc.get_threshold() == own


def test_a_program_that_sets_thresholds_meanwhile_keeps_them():
    with gc_rare():
        gc.set_threshold(9, 9, 9)
    assert gc.get_threshold() == (9, 9, 9)


def test_garbage_is_collected_rarely_while_agents_run_and_as_before_afterwards():
    seen = []

    def agent(task):
        seen.append((gc.isenabled(), gc.get_threshold()))
        return "yes"

    assert asyncio.run(assay.run_suite(SUITE, agent)).passed
    case = {"id": "a", "input": "x"}
    assay.evaluate_sync([case], agent=agent, checks=CHECKS)
    assert seen == [(True, THRESHOLDS)] * 2
    assert gc.get_threshold() == (700, 10, 10)
