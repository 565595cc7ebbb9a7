"""`assay.compare` and `assay.gate`: what the command does, on results in every form a caller may have."""

import asyncio
import json

import msgspec
import pandas  # pyright: ignore[reportMissingTypeStubs]
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pytest

import assay
from assay.errors import InvalidRequest, UsageError
from assay.fep.records.save import StoreSink
from assay.host import parts
from assay.ports import SystemClock
from assay.results.run_end import RunEnd, RunFooter
from assay.results.tally import Tally
from assay.settings import load
from support.commands.result_lines import complete, write_jsonl

CHECKS = [
    {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["yes"]}},
    {"type": "threshold", "arguments": {"value": "$.output.metadata.ms", "max_value": 10}},
]


def evaluated(passes, cases=12, *, late=()):
    return assay.evaluate_sync(
        [
            {"id": f"c{at}", "input": f"is it {at}?", "topic": "tax" if at % 2 else "law"}
            for at in range(cases)
        ],
        [
            {"value": "yes" if at < passes else "no", "metadata": {"ms": 99 if at in late else 1}}
            for at in range(cases)
        ],
        CHECKS,
    )


@pytest.fixture(scope="module")
def runs():
    return evaluated(12), evaluated(4, late=(0,))


def documents(result):
    return [json.loads(msgspec.json.encode(one)) for one in result.results]


def stored(result):
    """The id of the result in the store of the settings."""
    sink = StoreSink(parts.store(load(), light=True), None, None, Tally(), SystemClock())
    for one in result.results:
        sink.write(msgspec.json.encode(one))
    many = len(result.results)
    end = RunEnd(planned=many, results=many, complete=True)
    sink.close(RunFooter(result.evaluation_id, None, None, result.status, result.summary, end=end))
    return sink.run


FORMS = {
    "result": lambda result, file: result,
    "jsonl": lambda result, file: write_jsonl(file.with_suffix(".jsonl"), complete(documents(result))),
    "json": lambda result, file: _write(file.with_suffix(".json"), msgspec.json.encode(result)),
    "csv": lambda result, file: (
        result.to_pandas().to_csv(file.with_suffix(".csv"), index=False) or str(file.with_suffix(".csv"))
    ),
    "parquet": lambda result, file: (
        result.to_pandas().to_parquet(file.with_suffix(".parquet")) or file.with_suffix(".parquet")
    ),
    "pandas": lambda result, file: result.to_pandas(),
    "arrow": lambda result, file: pyarrow.Table.from_pandas(result.to_pandas()),
    "structs": lambda result, file: result.results,
    "documents": lambda result, file: documents(result),
    "stored": lambda result, file: stored(result),
}


def _write(file, data):
    file.write_bytes(data)
    return file


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_DATABASE_URL", f"sqlite:///{tmp_path}/assay.db")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def numbers(compared):
    """A comparison without the names of its runs."""
    document = msgspec.to_builtins(compared)
    for pair in document["comparisons"]:
        del pair["baseline"], pair["run"]
    return document


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_results_gives_the_same_comparison(runs, home, form):
    expected = assay.compare(*runs)
    a, b = (FORMS[form](run, home / name) for run, name in zip(runs, ("a", "b"), strict=True))
    found = assay.compare(a, b)
    assert numbers(found) == numbers(expected)
    assert found.verdict == "regressed"
    assert found.pair.worse == 9


@pytest.mark.parametrize("form", ["result", "jsonl", "pandas", "documents", "stored"])
def test_slices_are_by_a_column_in_every_form(runs, home, form):
    a, b = (FORMS[form](run, home / name) for run, name in zip(runs, ("a", "b"), strict=True))
    slices = assay.compare(a, b, by="topic").pair.slices
    assert [(one.slice, one.result.cases) for one in slices] == [("law", 6), ("tax", 6)]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_results_gives_the_same_gate(runs, home, form):
    whole = form in ("result", "jsonl", "stored")
    a, b = (FORMS[form](run, home / name) for run, name in zip(runs, ("a", "b"), strict=True))
    alone = assay.gate(b)
    if not whole:
        assert (alone.outcome, alone.exit_code) == ("undecided", 1)
        assert "is complete: it does not say how many cases were planned" in alone.reason
    decision = assay.gate(b, baseline=a, allow_partial=not whole)
    assert (decision.outcome, decision.exit_code, decision.passed) == ("failed", 3, False)
    assert decision.reason.startswith("not every case passed") or "it regressed against" in decision.reason
    assert {one.id for one in decision.failing} == {"c0", *(f"c{at}" for at in range(4, 12))}
    assert decision.reasons["c4"].startswith("contains: ")
    level = decision.level
    assert (level.low or 0) < (level.mean or 0) < (level.high or 0)


def test_the_words_are_those_of_the_command(runs, home, command):
    a, b = (FORMS["jsonl"](run, home / name) for run, name in zip(runs, ("a", "b"), strict=True))
    printed = command("compare", a, b, "--json", folder=home)
    assert json.loads(printed.out) == json.loads(msgspec.json.encode(assay.compare(a, b)))
    done = command("gate", b, "--baseline", a, folder=home)
    decision = assay.gate(b, baseline=a)
    assert (done.code, done.out.strip()) == (decision.exit_code, repr(decision))
    assert repr(assay.compare(a, b)).splitlines()[0].endswith("regressed")


def test_a_printed_comparison_has_its_slices_as_the_command_has(runs, home, command):
    a, b = (FORMS["jsonl"](run, home / name) for run, name in zip(runs, ("a", "b"), strict=True))
    text = repr(assay.compare(a, b, by="topic"))
    title = "by topic: the worst slice first; the intervals are adjusted for the number of slices"
    assert f"  {title}\n    law: 100.0% → 16.7%" in text
    printed = command("compare", a, b, "--by", "topic", folder=home).out
    assert title in printed.splitlines()
    assert printed.index("\nlaw ") < printed.index("\ntax ")


def test_several_runs_have_several_comparisons(runs):
    a, b = runs
    compared = assay.compare(a, b, evaluated(11))
    assert compared.comparisons[0].run == b.evaluation_id
    assert len(compared.comparisons) == 2
    with pytest.raises(InvalidRequest, match="expected one comparison, got 2: read `comparisons`"):
        _ = compared.verdict


def test_a_running_event_loop_is_no_obstacle(runs):
    async def in_a_notebook():
        return assay.compare(*runs).verdict, assay.gate(runs[0]).outcome

    assert asyncio.run(in_a_notebook()) == ("regressed", "passed")


def test_a_gate_writes_its_reports(runs, home):
    decision = assay.gate(
        runs[1], policy={"min_mean": 0.5}, markdown=home / "gate.md", junit="gate.xml", sarif="gate.sarif"
    )
    assert decision.outcome == "failed"
    assert "assay: failed" in (home / "gate.md").read_text("utf-8")
    assert (home / "gate.xml").read_text("utf-8").count("<testcase") == 13
    assert json.loads((home / "gate.sarif").read_text("utf-8"))["version"] == "2.1.0"


def test_an_option_wins_over_the_policy(runs):
    assert assay.gate(runs[1], policy={"min_mean": 0.9}).outcome == "failed"
    assert assay.gate(runs[1], policy={"min_mean": 0.9}, min_mean=0.1).outcome == "passed"


def shuffled(frame):
    return frame.sort_values("check", kind="stable")


def odd(frame):
    return frame.assign(extra=[object()] * len(frame))


REFUSALS = [
    (lambda a, b: assay.compare(a, 7), "b: expected a result of assay.evaluate"),
    (lambda a, b: assay.compare(a, "missing.jsonl"), "missing.jsonl: there is no such file"),
    (lambda a, b: assay.compare(a, "nothing"), "there is no run 'nothing'"),
    (lambda a, b: assay.compare(a, b, by="a=b"), "by: expected tag"),
    (lambda a, b: assay.compare(a, b, metric="vibes"), "metric: no check is called 'vibes'"),
    (lambda a, b: assay.compare(a, b, margin=-1), "margin: expected a number above 0"),
    (lambda a, b: assay.compare(a, [{"id": 1}]), "expected a result with execution_context"),
    (lambda a, b: assay.compare(a, pandas.DataFrame({"x": [1]})), "b: expected a table of results"),
    (lambda a, b: assay.compare(a, shuffled(b.to_pandas())), "the checks of case 'c0' are apart"),
    (lambda a, b: assay.compare(a, odd(b.to_pandas())), "b: row 0.extra: not JSON"),
    (lambda a, b: assay.gate(a, baseline=a), "expected another run, got "),
    (lambda a, b: assay.gate(a, preset="soft"), "preset: expected strict, balanced, lenient, got 'soft'"),
    (
        lambda a, b: assay.gate(a, policy={"minimum": 1}),
        "policy: minimum: no such member; there are preset, ",
    ),
    (lambda a, b: assay.gate(a, policy={"require": "improved"}), "the policy requires improved"),
    (lambda a, b: assay.gate(a, policy="missing.yaml"), "missing.yaml: there is no such file"),
]


@pytest.mark.parametrize(("call", "message"), REFUSALS, ids=[message[:30] for _, message in REFUSALS])
def test_a_refusal_has_the_words_of_the_command(runs, home, call, message):
    with pytest.raises((InvalidRequest, UsageError)) as refusal:
        call(*runs)
    assert message in str(refusal.value)


def test_an_agent_eval_is_compared_and_gated_without_a_store():
    suite = {
        "suiteId": "local.mine.evals.first", "version": "1.0.0", "modes": ["golden"],
        "tasks": [{"taskId": f"t{at}", "input": at, "expected": {"kind": "golden", "match": {"strategy": "exact", "value": at}}} for at in range(12)],
    }  # fmt: skip

    async def both():
        good = await assay.run_suite(suite, lambda task: task, free=True)
        return good, await assay.run_suite(suite, lambda task: 0, free=True)

    good, bad = asyncio.run(both())
    assert assay.gate(good).outcome == "passed"
    decision = assay.gate(bad, baseline=good)
    assert (decision.outcome, decision.result.run) == ("failed", bad.run_id)
    assert assay.compare(good, bad).verdict == "regressed"


INPUTS = [
    'a, "b"',
    " padded ",
    "=1+1",
    "'quoted",
    "two\nlines",
    "[1] not JSON",
    '{"q": 1}',
    {"q": [1, "ä"]},
    [1],
    7,
    0.5,
    True,
]


def of_inputs(inputs):
    cases = [{"id": f"c{at}", "input": one} for at, one in enumerate(inputs)]
    return assay.evaluate_sync(cases, [{"value": "yes"}] * len(cases), [{"contains": "yes"}])


def test_a_gate_is_undecided_if_paired_cases_have_other_inputs(tmp_path):
    full = pandas.DataFrame({"question": [f"q{at}" for at in range(60)], "answer": ["x"] * 60})
    before, after = (assay.evaluate_sync(part, checks=[{"contains": "x"}]) for part in (full[:30], full[30:]))
    decision = assay.gate(after, baseline=before, allow_partial=True, markdown=tmp_path / "gate.md")
    assert (decision.outcome, decision.exit_code) == ("undecided", 1)
    assert decision.reason.startswith("30 cases have another input in ")
    assert decision.reason.endswith(
        "cases are paired by their ids; give each case an id of its own, or compare runs of the same cases"
    )
    assert "30 cases have another input" in (tmp_path / "gate.md").read_text("utf-8")
    one = assay.gate(of_inputs(["a", "c"]), baseline=of_inputs(["a", "b"]))
    assert (one.outcome, "1 case has another input in " in one.reason) == ("undecided", True)


@pytest.mark.parametrize("form", FORMS)
def test_the_same_inputs_are_the_same_in_every_form(form, home):
    after = FORMS[form](of_inputs(INPUTS), home / "after")
    decision = assay.gate(after, baseline=of_inputs(INPUTS), allow_partial=True)
    assert decision.comparison is not None
    assert (decision.comparison.other_inputs.ids, decision.outcome) == ((), "passed")


@pytest.mark.parametrize("empty", [None, ""])
def test_a_case_without_an_input_is_not_a_case_with_another_input(empty):
    some, none = of_inputs(["a"] * 3), of_inputs([empty] * 3)
    without = documents(some)
    for one in without:
        del one["execution_context"]["test_case"]["input"]  # as another tool may write it
    for before, after in ((some, none), (none, some), (some, without), (without, some)):
        assert assay.gate(after, baseline=before, allow_partial=True).outcome == "passed"


WRONG = [
    (
        lambda a, b: assay.compare(a, b, by=3),
        "by: expected the name of a member, or a list of names, got a number",
    ),
    (
        lambda a, b: assay.compare(a, b, by=["topic", 3]),
        "by: expected the name of a member, or a list of names",
    ),
    (lambda a, b: assay.compare(a, b, metric=3), "metric: expected the name of a metric, got a number"),
    (lambda a, b: assay.compare(a, b, margin="x"), "margin: expected a number, got a string"),
    (lambda a, b: assay.compare(a, b, limit="3"), "limit: expected a whole number, got a string"),
    (lambda a, b: assay.compare(a, b, limit=None), "limit: expected a whole number, got null"),
    (
        lambda a, b: assay.compare(a, b, limit=True, tenant=1),
        "limit: expected a whole number, got true or false\ntenant: ",
    ),
    (lambda a, b: assay.gate(a, min_mean="0.9"), "min_mean: expected a number, got a string"),
    (
        lambda a, b: assay.gate(a, policy=["x"]),
        "policy: expected a file or a dictionary with rules, got a list",
    ),
    (
        lambda a, b: assay.gate(a, preset=1, junit=2),
        "preset: expected a text, got a number\njunit: expected the name",
    ),
    (lambda a, b: assay.report(a, limit="5"), "limit: expected a whole number, got a string"),
    (lambda a, b: assay.report(a, output=3), "output: expected the name of a file, got a number"),
    (lambda a, b: assay.history(3), "suite: expected the id of a suite or a file, got a number"),
    (lambda a, b: assay.judge_check(a, "topic", bar="x"), "bar: expected a number, got a string"),
    (
        lambda a, b: assay.judge_check(a, "topic", check=3),
        "check: expected the name of a check, got a number",
    ),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_an_argument_of_another_type_is_refused(runs, call, message):
    with pytest.raises(UsageError) as refusal:
        call(*runs)
    assert str(refusal.value).startswith(message)


def test_a_number_of_numpy_is_a_number(runs):
    numbers = pandas.Series([0.5])
    whole = pandas.Series([3])
    assert assay.compare(*runs, margin=numbers[0], limit=whole[0]).margin == 0.5
