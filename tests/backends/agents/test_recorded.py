"""Agents whose answers are in a file: the n-th record of a task is its n-th trial, and their number is that of the run."""

import asyncio
import json

import pytest

from assay.agents.invocation import Invocation, invoke
from assay.backends.agents.recorded import RecordedAgent
from assay.errors import ForeignFault, UsageError
from support.agents.fake_agents import card
from support.evals import golden, suite_of

TWO = suite_of(golden("capital", "yes", "Paris?"), golden("river", "yes", "Seine?"))


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def record(task, result):
    return {"taskId": task, "result": result}


@pytest.fixture
def run(command, tmp_path):
    (tmp_path / "suite.json").write_text(json.dumps(TWO))

    def run(text, *arguments, name="answers.jsonl"):
        (tmp_path / name).write_text(text)
        how = ("--agent", f"recorded:{name}", "--mode", "golden", "--json", *arguments)
        return command("run", "suite.json", *how, folder=tmp_path)

    return run


def test_records_of_a_task_are_its_trials_in_order(run):
    records = [record("capital", "no")] * 3 + [record("capital", "yes")] + [record("river", "yes")] * 4
    ended = run(lines(*records), "--trials", "4")
    report = json.loads(ended.out)["report"]
    assert report["tasks"][0]["trialsPassed"] == 1
    assert report["passK"] == {"1": 0.625, "2": 0.5, "3": 0.5, "4": 0.5}


@pytest.mark.parametrize(
    ("records", "trials", "message"),
    [
        ([record("capital", "no"), record("capital", "yes"), record("river", "yes")], 1,
         "answers.jsonl:2: task 'capital': expected a record for each of 1 trial, got 2 records"),
        ([record("capital", "yes"), record("river", "yes"), record("river", "no")], 2,
         "answers.jsonl:1: task 'capital': expected a record for each of 2 trials, got 1 record"),
        ([record("capital", "yes")], 1, "answers.jsonl: task 'river': expected a record for each of 1 trial, got 0 records"),
        ([record("capital", "yes"), record("river", "yes"), record("lake", "yes")], 1,
         "answers.jsonl:3: expected a record of a task of the suite, got 'lake'"),
        ([{"input": "Paris?", "result": "yes"}, {"input": "Seine?", "result": "yes"}, {"input": "Rhine?", "result": 1}],
         1, "answers.jsonl:3: expected a record of a task of the suite, got another input"),
        ([{"input": "Paris?", "result": "yes"}, {"input": "Paris?", "result": "yes"}, record("river", "yes")], 1,
         "answers.jsonl:2: task 'capital': expected a record for each of 1 trial, got 2 records"),
    ],
)  # fmt: skip
def test_more_or_fewer_records_than_trials_refuse_the_run(run, records, trials, message):
    ended = run(lines(*records), "--trials", str(trials))
    assert ended.code not in (0, 3)
    assert message in ended.err
    assert ended.out == ""


def test_an_object_has_one_result_a_task(run):
    ended = run('{"capital": "no", "river": "yes", "capital": "yes"}', name="a.json")
    assert "a.json: capital: this member is there twice" in ended.err


def test_a_trial_that_is_done_again_gets_its_own_record(tmp_path):
    (tmp_path / "a.jsonl").write_text(lines(*[record("t", at) for at in range(3)]))
    agent = RecordedAgent(card("recorded"), str(tmp_path / "a.jsonl"))

    async def trial(number):
        return (await invoke(agent, "x", Invocation(agent.card, task_id="t", trial=number))).result

    async def main():
        assert [await trial(number) for number in (2, 0, 1, 2)] == [2, 0, 1, 2]
        with pytest.raises(ForeignFault, match=r"a\.jsonl has no answer for trial 4 of t"):
            await trial(3)

    asyncio.run(main())


def test_a_line_that_is_not_json_is_refused_with_its_number(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"taskId": "t", "result": "one line"}\n\n{"taskId"\n')
    with pytest.raises(UsageError, match=r"a\.jsonl:3: expected JSON"):
        RecordedAgent(card("recorded"), str(tmp_path / "a.jsonl"))


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ({"output": "yes"}, "unknown field `output`"),
        ({}, "expected exactly one of result, error, refused and escalated, got none"),
        ({"result": "yes", "error": "no"}, "expected exactly one of"),
        ({"result": "yes", "confidence": 7}, "confidence"),
    ],
)
def test_a_record_that_is_not_an_answer_refuses_the_run(run, end, reason):
    ended = run(lines(record("capital", "yes"), {"taskId": "river", **end}))
    assert ended.code == 2, ended.err
    assert "answers.jsonl:2: a record of task 'river'" in ended.err
    assert reason in ended.err
    assert ended.out == ""
