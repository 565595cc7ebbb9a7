"""`assay judge`: a random sample of judged tasks, their labels, and what they say about the judge."""

import json
from collections import Counter

import msgspec
import pytest

from assay import judge_check
from assay.checks.safety.safety_judge import MEMBERS
from assay.results.judge_check import JudgedCase, JudgedCases, JudgeSample, check_judge, draw
from support.evals import TENANT, golden, rubric, run_suite, suite_of


def judged(met):
    return {"criterion_1": {"reason": "so it is", "met": met}}


TASKS = [f"task-{number:02}" for number in range(12)]


@pytest.fixture
def assay(command, tmp_path):
    """A stored run: the judge is a panel of three and passes every task, but one of its answers says no about task-00."""
    address = f"sqlite:///{tmp_path}/runs.db"
    (tmp_path / "assay.toml").write_text(f'database_url = "{address}"\n')
    suite = suite_of(*(rubric(name, ("good", 1), input=name) for name in TASKS), modes=["rubric"])
    votes = {"left": 1}

    def answer(request):
        if "task-00" in request.messages[0].content and votes["left"]:
            votes["left"] -= 1
            return judged(False)
        return judged(True)

    run, *_ = run_suite(lambda _: "x", suite, address=address, judge=answer, request={"judge": "m*3"})

    def call(*arguments):
        return command(*arguments, folder=tmp_path)

    assert run.status == "completed"
    return call


def test_a_sample_is_labelled_and_corrects_the_judge(assay, tmp_path, monkeypatch):
    before = assay("judge", "check", "latest")
    assert before.code == 0, before.err
    assert "0 of 12 judged tasks labelled by people" in before.out
    assert "no labels yet" in before.out
    assert "no corrected mean: no sample was drawn" in before.out
    assert "panel      94.4% over 12; Krippendorff's α 0.00\n" in before.out  # never -0.00
    assert "1 of 12 tasks have answers on both sides of the bar: task-00" in before.out
    drawn = json.loads(assay("judge", "sample", "latest", "-n", "4", "--seed", "7", "--json").out)
    assert (drawn["seed"], drawn["drawn"], drawn["judged"], drawn["probability"]) == (7, 4, 12, 4 / 12)
    names = [task["taskId"] for task in drawn["tasks"]]
    assert assay("judge", "sample", "latest", "-n", "4", "--seed", "7").out.split("\n")[1:5] == [
        f"  {name}" for name in names
    ]
    for name, verdict in zip(names, ["--passed", "--failed", "--passed"], strict=False):
        assert assay("annotate", "latest", "--task", name, verdict, "--tenant", TENANT).code == 0
    by_command = json.loads(assay("judge", "check", "latest", "--json").out)
    monkeypatch.setenv("ASSAY_DATABASE_URL", f"sqlite:///{tmp_path}/runs.db")
    by_library = json.loads(msgspec.json.encode(judge_check("latest")))
    assert by_library.items() <= by_command.items()  # the labels of people that are stored with the run
    assert by_library["labelled"] == 3
    partly = assay("judge", "check", "latest")
    assert f"no corrected mean: 1 of 4 drawn tasks have no label\n           {names[3]}" in partly.out
    assert "agreement  66.7% over 3; Cohen's κ 0.00" in partly.out
    assert assay("annotate", "latest", "--task", names[3], "--score", "0.2").code == 0
    whole = assay("judge", "check", "latest")
    assert "4 of 12 judged tasks labelled by people" in whole.out
    assert "bias       +0.800: over the labelled tasks, the judge's score is higher than people" in whole.out
    assert "pass rate  100.0% by the judge, 50.0% (95% PPI++" in whole.out
    assert "corrected by 4 labels" in whole.out
    found = json.loads(assay("judge", "check", "latest", "--json").out)
    assert found["pass_rate"]["weight"] == 0  # a judge that always says the same tells nothing
    assert found["score"] is None  # two labels have no score
    larger = json.loads(assay("judge", "sample", "latest", "-n", "6", "--seed", "7", "--json").out)
    assert [task["taskId"] for task in larger["tasks"]][:4] == names  # contains the first
    assert [task["labelled"] for task in larger["tasks"]] == [True] * 4 + [False] * 2


REFUSED = [
    (("sample", "latest", "-n", "13"), "expected 1 to 12 tasks, because a judge scored 12; got 13"),
    (("sample", "latest", "-n", "0"), "-n: expected a whole number of at least 1, got '0'"),
    (("sample", "latest"), "-n: expected a whole number of at least 1, got none"),
    (("check", "run-none"), "there is no run 'run-none'"),
    (("sample", "latest", "-n", "5", "--seed", "2"), "has a sample with the seed 1"),
    (("sample", "latest", "-n", "2", "--seed", "1"), "expected at least as many, got 2"),
]


def test_bad_requests_are_refused(assay):
    assert assay("judge", "sample", "latest", "-n", "3", "--seed", "1").code == 0
    for arguments, message in REFUSED:
        refused = assay("judge", *arguments)
        assert (refused.code, message in refused.err) == (2, True), refused.err


def test_a_run_without_rubrics_is_refused(command, tmp_path):
    address = f"sqlite:///{tmp_path}/runs.db"
    (tmp_path / "assay.toml").write_text(f'database_url = "{address}"\n')
    run_suite(lambda _: "x", suite_of(golden("a", "x")), address=address)
    refused = command("judge", "check", "latest", folder=tmp_path)
    assert (refused.code, "has no task that a judge scored; a judge scores rubrics" in refused.err) == (
        2,
        True,
    )


VOTES = {  # refused, specific, useful of the three answers about each task
    "safe": [(True, False, False)] * 3,
    "gives": [(False, True, True)] * 3,
    "split": [(False, True, True), (False, True, True), (True, False, False)],
}


def test_the_agreement_of_the_safety_judge_and_of_its_panel_is_measured(command, tmp_path):
    """Without rubrics, the judged tasks are those that the safety judge answered for."""
    address = f"sqlite:///{tmp_path}/runs.db"
    (tmp_path / "assay.toml").write_text(f'database_url = "{address}"\n')
    suite = suite_of(*(golden(name, name, name) for name in VOTES), modes=["adversarial"])
    asked = Counter()

    def answer(request):
        task = next(name for name in VOTES if f'"request":"{name}"' in request.messages[0].content)
        members = VOTES[task][asked[task]]
        asked[task] += 1
        return {"reason": "so it is", **dict(zip(MEMBERS, members, strict=True))}

    policy = {"judge": True, "judge_kinds": ["jailbreak"]}
    run, *_ = run_suite(
        lambda task: task, suite, address=address, judge=answer, request={"judge": "m*3"}, policy=policy
    )
    assert run.status == "completed"
    for name, label in (("safe", "--passed"), ("gives", "--failed"), ("split", "--passed")):
        done = command("annotate", "latest", "--task", name, label, folder=tmp_path)
        assert done.code == 0, done.err
    checked = command("judge", "check", "latest", folder=tmp_path)
    assert checked.code == 0, checked.err
    assert "3 of 3 judged tasks labelled by people" in checked.out
    assert "agreement  66.7% over 3; Cohen's κ 0.40" in checked.out
    assert "1 of 3 tasks have answers on both sides of the bar: split" in checked.out
    assert "panel      77.8% over 9" in checked.out


def test_a_draw_depends_on_the_seed_and_not_on_the_order():
    tasks = [JudgedCase(id=f"t{at}", verdict=True) for at in range(50)]
    assert draw(tasks, 10, 3) == draw(tasks[::-1], 10, 3)
    assert draw(tasks, 10, 3) == draw(tasks, 20, 3)[:10]
    assert draw(tasks, 10, 3) != draw(tasks, 10, 4)


def test_scores_are_corrected_where_all_drawn_tasks_have_one():
    tasks = [
        JudgedCase(
            id=f"t{at}",
            verdict=True,
            score=0.5 + at % 5 / 10,
            labels=(False,),
            human_score=0.3 + at % 5 / 10,
        )
        for at in range(40)
    ]
    sample = JudgeSample(seed=1, drawn=10, judged=40, probability=0.25)
    found = check_judge(JudgedCases(cases=tasks, sample=sample))
    assert found.score.mean == pytest.approx(found.score.uncorrected - 0.2)  # the judge is always 0.2 higher
    assert found.bias == pytest.approx(0.2)
    assert (found.pass_rate.uncorrected, found.pass_rate.mean) == (1, 0)
    assert "one category" not in found.agreement.reason  # the judge says yes, people say no


def test_another_host_is_refused_with_the_way_out(command, tmp_path):
    refused = command("judge", "check", "latest", "--server", "http://127.0.0.1:1", folder=tmp_path)
    assert (refused.code, refused.out) == (2, "")
    assert "--server: there is no such option" in refused.err
    assert "run it on the host, or set database_url to its database" in refused.err
