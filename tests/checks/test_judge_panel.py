"""A panel of judges: votes, means, their spread, and answers that fail or contradict themselves."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from assay.agenteval.scoring.scoring import judge_arguments, no_judge
from assay.checks import STANDARD
from assay.checks.arguments import bind
from assay.checks.standard.judge_panel import JudgePanel, combine, shuffled
from assay.errors import ForeignFault, InvalidRequest, Problem
from assay.ports import Services
from assay.protocol.evaluation import Check
from assay.results.reasons import _panel_note, reason_of
from support.evals import Judges
from support.models.judges import judge
from test_judge import ask

SCORE = {
    "type": "object",
    "required": ["score"],
    "properties": {"passed": {"type": "boolean"}, "score": {"type": "number"}, "reason": {"type": "string"}},
}


def voted(*votes):
    return [{"reasoning": f"{vote} {at}", "passed": vote} for at, vote in enumerate(votes)]


@pytest.mark.parametrize(
    ("votes", "passed", "agreement", "straddles"),
    [
        ((True, True, True), True, 1.0, False),
        ((True, False, True), True, 1 / 3, True),
        ((False, True, False, False, False), False, 0.6, True),
    ],
)
def test_the_majority_decides_and_says_if_it_is_split(votes, passed, agreement, straddles):
    result, requests = ask(voted(*votes), panel={"times": len(votes)})
    assert result.results["response"] == {"passed": passed}
    about = result.results["metadata"]
    assert about["panel"]["votes"] == {"passed": list(votes)}
    assert about["panel"]["agreement"] == pytest.approx(agreement)
    assert about["panel"]["straddles"] is straddles
    assert about["reasoning"] == f"{passed} {votes.index(passed)}"  # of a member that agrees with the verdict
    assert "repaired" not in about
    assert sorted(one.repeat for one in requests) == list(
        range(len(votes))
    )  # a cache has one answer for each


def test_a_reason_says_that_the_panel_is_split():
    for votes, expected in (
        ((True, False, True), "True 0 (the panel is split, 2 of 3 passed)"),
        ((True,), "True 0"),
    ):
        result, _ = ask(
            voted(*votes),
            schema={
                "type": "object",
                "properties": {"reasoning": {"type": "string"}, "passed": {"type": "boolean"}},
            },
            panel={"times": len(votes)},
        )
        assert reason_of(to_builtins(result)) == expected


def test_every_model_of_a_panel_gets_the_request():
    result, requests = ask(
        voted(True, True, False), panel={"models": ["a:x", "b:y", "a:x"]}, model="c", parameters={"seed": 1}
    )
    assert [one.parameters for one in requests] == [
        {"model": name, "seed": 1} for name in ("a:x", "b:y", "a:x")
    ]
    assert [one.repeat for one in requests] == [0, 0, 1]
    assert result.results["response"] == {"passed": True}


def test_a_mean_with_its_spread_decides_by_the_bar():
    answers = [{"score": 0.9, "reason": "good"}, {"score": 0.5, "reason": "so so"}]
    result, _ = ask(answers, schema=SCORE, panel={"times": 2, "mean": "score", "bar": 0.6})
    response, about = result.results["response"], result.results["metadata"]["panel"]
    assert (response["passed"], response["score"]) == (True, pytest.approx(0.7))
    assert about["numbers"]["score"] == pytest.approx(
        {"mean": 0.7, "deviation": 0.2828, "least": 0.5, "largest": 0.9}, abs=1e-4
    )
    assert about["straddles"] is True


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (
            [{"score": 0.75, "passed": False}] * 2,
            "contradicts itself: passed is false, and score 0.75 is at least the bar 0.6",
        ),
        (
            [{"score": 0.1, "passed": True}] * 2,
            "contradicts itself: passed is true, and score 0.1 is below the bar 0.6",
        ),
    ],
)
def test_an_answer_that_contradicts_itself_is_an_error(answers, message):
    result, requests = ask(answers, schema=SCORE, panel={"mean": "score", "bar": 0.6})
    assert result.status == "error"
    assert message in result.error.message
    assert len(requests) == 2  # it may correct itself once


def test_failed_answers_are_not_votes():
    """Four of five agree: the fifth cannot turn them. Two of three do not exist without the third."""
    fault = ForeignFault("the judge is away")
    result, _ = ask([*voted(True, True, True, True), fault], panel={"times": 5})
    assert result.results["response"] == {"passed": True}
    assert (
        result.results["metadata"]["panel"]["failed"],
        result.results["metadata"]["panel"]["answers"],
    ) == (1, 5)
    result, _ = ask([*voted(True, False), fault], panel={"times": 3})
    assert result.status == "error"
    assert "1 of 3 answers of the panel failed, and they could change the verdict" in result.error.message
    result, _ = ask([fault, fault, fault], panel={"times": 3})
    assert result.status == "error"


CHOICE = {
    "type": "object",
    "properties": {"grade": {"enum": ["A", "B", "C", "D", "E", "F"]}, "n": {"type": "integer"}},
}


def test_the_order_of_choices_is_random_with_a_seed():
    panel = JudgePanel(times=5)
    orders = [shuffled(CHOICE, panel, "prompt", at)["properties"]["grade"]["enum"] for at in range(5)]
    assert orders == [shuffled(CHOICE, panel, "prompt", at)["properties"]["grade"]["enum"] for at in range(5)]
    assert all(sorted(order) == ["A", "B", "C", "D", "E", "F"] for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    assert shuffled(CHOICE, JudgePanel(times=5, seed=1), "prompt", 0) != shuffled(CHOICE, panel, "prompt", 0)
    plain = {"type": "object", "properties": {"passed": {"type": "boolean"}}}
    assert shuffled(plain, panel, "prompt", 0) is plain
    answers = [{"grade": "B", "n": 2}, {"grade": "A", "n": 9}, {"grade": "B", "n": 3}]
    result, requests = ask(answers, schema=CHOICE, panel={"times": 3})
    assert result.results["response"] == {"grade": "B", "n": 3}  # most votes; the median of integers
    assert len({str(one.schema) for one in requests}) > 1


def test_criteria_are_decided_one_by_one():
    answers = [
        {"criterion_1": {"reason": "yes", "met": True}, "criterion_2": {"reason": "a", "met": False}},
        {"criterion_1": {"reason": "sure", "met": True}, "criterion_2": {"reason": "b", "met": True}},
        {"criterion_1": {"reason": "no", "met": False}, "criterion_2": {"reason": "c", "met": True}},
    ]
    response, about = combine(JudgePanel(times=3), answers, [], {})
    assert response == {
        "criterion_1": {"reason": "yes", "met": True},
        "criterion_2": {"reason": "b", "met": True},
    }
    assert about["votes"] == {"criterion_1.met": [True, True, False], "criterion_2.met": [False, True, True]}


@pytest.mark.parametrize(
    ("panel", "message"),
    [
        ({"times": 2}, "expected an odd number of answers for a majority"),
        ({"models": ["a", "b"], "times": 13}, "expected at most 25 answers"),
        ({"times": 0}, ">= 1"),
        ({"mean": "score"}, "expected both mean and bar, or neither"),
        ({"judges": 3}, "judges"),
    ],
)
def test_a_panel_that_cannot_decide_is_refused(panel, message):
    with pytest.raises(InvalidRequest, match=message):
        ask([], panel=panel)


def test_every_model_of_a_panel_is_looked_up_before_the_run():
    class Known(Judges):
        def model(self, provider_config, model_config):
            if (model_config or {}).get("model") != "a:x":
                raise InvalidRequest(Problem("model_config", f"unknown: {model_config}"))
            return super().model(provider_config, model_config)

    services = Services(providers=Known([]))
    bind(Check(**judge(panel={"models": ["a:x"]})), STANDARD, "checks[0]", services)  # no default is needed
    with pytest.raises(InvalidRequest, match="b:y"):
        bind(Check(**judge(panel={"models": ["a:x", "a:x", "b:y"]})), STANDARD, "checks[0]", services)


@pytest.mark.parametrize(
    ("name", "arguments", "refusal"),
    [
        (None, {}, None),
        ("home:llama3.1:8b", {"model_config": {"model": "home:llama3.1:8b"}}, None),
        ("a:x*3", {"panel": {"models": ["a:x"] * 3}}, None),
        ("a:x*2, b:y", {"panel": {"models": ["a:x", "a:x", "b:y"]}}, None),
        ("a:x,b:y", {"panel": {"models": ["a:x", "b:y"]}}, "expected an odd number of answers"),
        ("a:x*99", {"panel": {"models": ["a:x"] * 26}}, "expected at most 25 answers"),
        ("a:x*0", {"model_config": {"model": "a:x*0"}}, None),  # not a number of answers: a name
        ("b:y*", {"model_config": {"model": "b:y*"}}, None),
    ],
)
def test_the_judge_of_rubrics_can_be_a_panel(name, arguments, refusal):
    assert judge_arguments(name) == arguments
    assert (refusal or "") in (no_judge(Judges([]), name) or "")
    assert (refusal is None) == (no_judge(Judges([]), name) is None)


TONE = {"properties": {"tone": {"enum": ["kind", "rude"]}, "note": {"type": "string"}}}


@pytest.mark.parametrize(
    ("answers", "decided"),
    [
        ([{"tone": "kind"}, {"tone": "kind"}], True),
        ([{"tone": "kind"}, {"tone": "rude"}], False),
        ([{"tone": "kind"}], False),
        ([{"score": 0.2}, {"score": 0.2}], False),
        ([{"passed": True, "tone": "kind"}, {"passed": True, "tone": "rude"}], True),
        ([], False),
    ],
)
def test_failed_answers_that_could_change_a_choice_are_an_error(answers, decided):
    panel, failures = JudgePanel(times=3), ["down"] * (3 - len(answers))
    if decided:
        assert combine(panel, answers, failures, TONE)[1]["failed"] == len(failures)
        return
    with pytest.raises(ForeignFault, match="could change the verdict"):
        combine(panel, answers, failures, TONE)


LEVELS = [0.0, 0.25, 0.5, 0.75, 1.0]
BOUNDED = {"properties": {"score": {"type": "number", "minimum": 0, "maximum": 1}}}
FREE = {"properties": {"score": {"type": "number", "minimum": 0}}}
PASSED = {"properties": {"passed": {"type": "boolean"}, "polite": {"type": "boolean"}}}
THREE = {"properties": {"tone": {"enum": ["kind", "rude", "cold"]}}}
ANSWERS = {
    "bounded": (BOUNDED, [{"score": one} for one in LEVELS], lambda one: one["passed"]),
    "levels": ({"properties": {"score": {"enum": LEVELS}}}, [{"score": one} for one in LEVELS], lambda one: one["passed"]),
    "passed": (PASSED, [{"passed": one, "polite": two} for one in (True, False) for two in (True, False)], lambda one: one["passed"]),
    "choice": (THREE, [{"tone": one} for one in ("kind", "rude", "cold")], lambda one: one["tone"]),
}  # fmt: skip


def verdict(panel, answers, schema, read):
    try:
        return read(combine(panel, answers, [], schema)[0])
    except ForeignFault:
        return "a tie"


@given(st.data(), st.sampled_from(sorted(ANSWERS)), st.sampled_from([3, 5]), st.integers(1, 3))
def test_law_a_panel_has_an_answer_just_if_no_failed_answer_could_change_the_verdict(
    data, kind, size, failed
):
    schema, possible, read = ANSWERS[kind]
    failed = min(failed, size)
    answers = data.draw(st.lists(st.sampled_from(possible), min_size=size - failed, max_size=size - failed))
    more = (
        {"mean": "score", "bar": data.draw(st.sampled_from([0.3, 0.5, 0.7]))}
        if "score" in possible[0]
        else {}
    )
    panel = JudgePanel(times=size, **more)
    verdicts = {
        verdict(panel, answers + list(rest), schema, read) for rest in product(possible, repeat=failed)
    }
    decided = len(verdicts) == 1 and "a tie" not in verdicts and bool(answers)
    if decided:
        assert {read(combine(panel, answers, ["down"] * failed, schema)[0])} == verdicts
        return
    with pytest.raises(ForeignFault, match="could change the verdict"):
        combine(panel, answers, ["down"] * failed, schema)


def test_a_mean_without_a_largest_number_is_decided_only_by_its_least():
    panel = JudgePanel(times=3, mean="score", bar=0.5)
    assert combine(panel, [{"score": 0.9}, {"score": 0.8}], ["down"], FREE)[0]["passed"] is True
    with pytest.raises(ForeignFault, match="could change the verdict"):
        combine(panel, [{"score": 0.1}, {"score": 0.1}], ["down"], FREE)


def test_a_panel_of_choices_has_an_agreement():
    answers = [{"tone": tone} for tone in ("kind", "kind", "rude")]
    assert combine(JudgePanel(times=3), answers, [], TONE)[1]["agreement"] == pytest.approx(1 / 3)
    assert combine(JudgePanel(times=3), answers[:2], ["down"], TONE)[1]["agreement"] == 1
    both = [one | {"passed": True} for one in answers]
    assert combine(JudgePanel(times=3), both, [], TONE)[1]["agreement"] == 1  # of what decides


@pytest.mark.parametrize("panel", [{}, {"panel": {"times": 2, "mean": "score", "bar": 0.6}}])
def test_a_number_beyond_all_doubles_is_an_error_of_the_judge(panel):
    result, requests = ask([{"score": 10**400}] * 4, schema=SCORE, **panel)
    assert result.status == "error"
    assert "has as 'score' a number beyond 1.8e+308, the range of a score" in result.error.message
    assert len(requests) == (4 if panel else 2)  # it may correct itself once


@pytest.mark.parametrize(
    ("tones", "passed", "ties", "straddles"),
    [
        (["kind", "rude", "cold"], None, None, None),
        (["kind", "kind", "rude"], None, [], True),
        (["kind", "kind", "kind"], None, [], False),
        (["kind", "rude", "cold"], True, ["tone"], False),  # `passed` decides, and the tie is reported
        (["kind", "rude", "kind"], True, [], False),
    ],
)
def test_a_tie_of_choices_is_reported_or_is_an_error(tones, passed, ties, straddles):
    schema = {"properties": {"tone": {"enum": ["kind", "rude", "cold"]}, "passed": {"type": "boolean"}}}
    answers = [{"tone": tone} | ({} if passed is None else {"passed": passed}) for tone in tones]
    if ties is None:
        with pytest.raises(ForeignFault, match="the panel has no majority for tone: kind 1, rude 1, cold 1"):
            combine(JudgePanel(times=3), answers, [], schema)
        return
    _, about = combine(JudgePanel(times=3), answers, [], schema)
    assert (about["ties"], about["straddles"]) == (ties, straddles)
    assert about["choices"] == {"tone": {tone: tones.count(tone) for tone in tones}}
    note = " (the panel is tied on tone)" if ties else ""
    assert _panel_note({"metadata": {"panel": about}}).endswith(note)
    one_failed = _panel_note({"metadata": {"panel": about | {"failed": 1}}})
    assert one_failed.endswith(" (1 of 3 answers of the panel failed)")
