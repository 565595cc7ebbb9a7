"""What follows from a verdict, as a table (RFC 0090 §B, openwop-contract §8.2 and §8.5)."""

from itertools import permutations, product

import pytest

from assay.workflow.state.verdict_gating import VERDICTS, combine, goal_satisfied, is_below, next_step


@pytest.mark.parametrize(
    ("verdict", "turn", "max_turns", "gating", "step"),
    [
        ("pass", 1, 3, True, "commit"),
        ("pass", 3, 3, True, "commit"),  # the last turn may be the good one
        ("revise", 1, 3, True, "retry"),
        ("revise", 2, 3, True, "retry"),
        ("revise", 3, 3, True, "breach"),  # there is no turn after the last
        ("revise", 1, 1, True, "breach"),
        ("fail", 1, 3, True, "escalate"),
        ("fail", 3, 3, True, "escalate"),
        (None, 1, 3, True, "commit"),  # nobody looked: that is not a failure
        ("pass", 1, 3, False, "commit"),
        ("revise", 3, 3, False, "commit"),  # gating off: recorded, and nothing else
        ("fail", 1, 3, False, "commit"),
        (None, 1, 3, False, "commit"),
    ],
)
def test_the_step_after_a_verdict(verdict, turn, max_turns, gating, step):
    assert next_step(verdict, turn=turn, max_turns=max_turns, gating=gating) == step


def test_only_a_pass_or_no_verdict_commits_where_verdicts_gate():
    for verdict, turn, most in product([*VERDICTS, None], range(1, 5), range(1, 5)):
        step = next_step(verdict, turn=turn, max_turns=most, gating=True)
        assert (step == "commit") == (verdict in ("pass", None))


@pytest.mark.parametrize(
    ("verdicts", "whole"),
    [
        ([], None),
        (["pass"], "pass"),
        (["pass", "pass"], "pass"),
        (["pass", "revise"], "revise"),
        (["revise", "fail", "pass"], "fail"),
        (["fail", "fail"], "fail"),
    ],
)
def test_several_critics_combine_to_the_strictest_in_any_order(verdicts, whole):
    assert {combine(order) for order in permutations(verdicts)} == {whole}


@pytest.mark.parametrize(
    ("confidence", "floor", "unsure"),
    [
        (0.49, 0.5, True),
        (0.5, 0.5, False),  # strictly below
        (None, 0.5, False),  # no opinion
        (0.1, None, False),
    ],
)
def test_confidence_floors(confidence, floor, unsure):
    assert is_below(confidence, floor) is unsure


@pytest.mark.parametrize(
    ("status", "decision", "satisfied"),
    [
        ("completed", None, True),
        ("completed", {"kind": "terminate"}, True),
        ("completed", {"kind": "terminate", "successCriteria": [{"key": "a", "met": True}]}, True),
        (
            "completed",
            {"kind": "terminate", "successCriteria": [{"key": "a", "met": True}, {"key": "b", "met": False}]},
            False,  # a give-up, though the run completed
        ),
        ("failed", {"kind": "terminate", "successCriteria": [{"key": "a", "met": True}]}, False),
        ("cancelled", None, False),
        ("waiting-approval", None, False),
        ("running", {"kind": "next-worker", "nextWorkerIds": ["w"]}, False),
    ],
)
def test_a_give_up_is_no_success(status, decision, satisfied):
    assert goal_satisfied(status, decision) is satisfied
