"""Slices and bars of `assay evaluate`: --by and --min-pass-rate, and the share of cases that passed all their checks."""

import json

import msgspec
import pytest

import assay
from assay.cli.evaluate.bars import BarResult, exit_code, read_bars, with_check_names
from assay.errors import InvalidRequest, UsageError
from assay.results import slices
from assay.results.slices import SliceSink, read_dimension

ROWS = """question,answer,gold,category,lang
a,yes,yes,refunds,de
b,yes,no,refunds,en
c,,yes,billing,en
d,yes,yes,,en
"""
CHECKS = [
    {"name": "right", "type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}},
    {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["y"]}},
    {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["e"]}},
]  # fmt: skip
EVALUATE = ("evaluate", "--contexts", "t.csv", "--checks", "checks.json")


@pytest.fixture
def run(command, tmp_path):
    (tmp_path / "t.csv").write_text(ROWS)
    (tmp_path / "checks.json").write_text(json.dumps(CHECKS))

    return lambda *arguments: command(*EVALUATE, *arguments, folder=tmp_path)


def test_json_and_the_table_have_the_share_of_cases_and_the_slices(run):
    ended = run("--json", "--by", "tag", "--by", "$.test_case.lang", "--min-pass-rate", "tag:refunds=0.8")
    document = json.loads(ended.out)
    assert ended.code == 0
    assert (
        document["pass_rate"]["of"],
        document["case_pass_rate"]["of"],
        document["case_pass_rate"]["rate"],
    ) == (
        12,
        4,
        0.5,
    )
    found = [
        (one["by"], one["slice"], one["passed"], one["failed"], one["case_pass_rate"]["rate"])
        for one in document["slices"]
    ]
    assert found == [
        ("tag", "billing", 0, 3, 0.0), ("tag", "refunds", 5, 1, 0.5), ("tag", "(none)", 3, 0, 1.0),
        ("$.test_case.lang", "de", 3, 0, 1.0), ("$.test_case.lang", "en", 5, 4, 1 / 3),
    ]  # fmt: skip
    assert document["bars"] == [{"bar": "tag:refunds", "min": 0.8, "pass_rate": 5 / 6, "passed": True}]


BARS = [
    (["0.6"], 0, "at least the bar of 60.0%\n2 of 4 cases passed all their checks: 50.0%", ""),
    (["0.6", "right=0.5", "contains=0.7"], 0, "right 50.0%, at least the bar of 50.0%\ncontains 75.0%, at least", ""),
    (["0.6", "right=0.9"], 3, "right 50.0%, below the bar of 90.0%", ""),
    (["contains #2=0.9"], 3, "contains #2 75.0%, below the bar of 90.0%", ""),
    (["tag:billing=0.1"], 3, "by tag ", ""),
    (["lang:de=1"], 0, "lang:de 100.0%, at least the bar of 100.0%", ""),
    (["$.test_case.lang:de=1"], 0, "$.test_case.lang:de 100.0%, at least", ""),
    (["0.1", "tag:nope=0.1", "right=0.9"], 1, "", "tag:nope: nothing was measured, so there is no pass rate: there is no such slice; the slices are billing, refunds, (none)"),
    (["regex=0.5"], 2, "", "there is no check 'regex'; the checks are right, contains #1, contains #2, contains, exact_match"),
    (["95"], 2, "", "expected a fraction between 0 and 1, such as 0.9, got 95; did you mean 0.95?"),
    (["contains=many"], 2, "", "expected a fraction between 0 and 1, such as 0.9, got 'many'"),
    (["=0.5"], 2, "", "expected a number, CHECK=NUMBER or tag:NAME=NUMBER, got '=0.5'"),
    (["0.1", "0.2"], 2, "", "the overall bar is given twice"),
]  # fmt: skip


def test_a_bar_decides_the_exit_code(run, command, tmp_path):
    options = [[part for bar in bars for part in ("--min-pass-rate", bar)] for bars, *_ in BARS]
    results = command.each([(*EVALUATE, *one) for one in options], folder=tmp_path)
    for (_, code, out, err), ended in zip(BARS, results, strict=True):
        assert ended.code == code, ended.err
        assert out in ended.out
        assert err in ended.err


def test_slices_of_a_resumed_run_count_the_results_that_exist(run, tmp_path):
    (tmp_path / "one.csv").write_text("".join(ROWS.splitlines(keepends=True)[:2]))
    whole = json.loads(run("--by", "tag", "--json").out)["slices"]
    assert run("-o", "r.jsonl", "--limit", "2").code == 0
    assert json.loads(run("-o", "r.jsonl", "--resume", "--by", "tag", "--json").out)["slices"] == whole


def test_a_name_without_values_and_output_without_a_table(run):
    ended = run("--by", "questions", "-o", "-", "--min-pass-rate", "right=0.9")
    assert ended.code == 3
    assert "--by questions: no case has a value there" in ended.err
    assert "right 50.0%, below the bar of 90.0%" in ended.err


@pytest.mark.parametrize("text", ["", "a=b", "a:b", "$.test_case.[", "$"])
def test_by_takes_a_path_or_is_refused(text):
    if text == "$":
        assert read_dimension(text).slices_of({"test_case": {}}) == ['{"test_case":{}}']
        return
    with pytest.raises(UsageError, match="by: "):
        read_dimension(text)


def test_a_bar_may_have_the_name_of_a_check_with_a_colon():
    bars = read_bars(["style:tone=0.5"], [])
    assert [one.name for one in bars.dimensions] == ["style"]
    named = with_check_names(bars, {"style:tone": "regex"}, [])
    assert named.dimensions == []
    assert named.bars[0].dimension == ""
    assert exit_code([BarResult(named.bars[0], None), BarResult(named.bars[0], 0.1)]) == 1


def test_the_number_of_slices_is_bounded(monkeypatch):
    monkeypatch.setattr(slices, "MAX_SLICES", 3)
    sink = SliceSink([read_dimension("id")])
    result = assay.evaluate_sync(
        [{"id": str(at), "input": 0} for at in range(4)], [{"value": "y"}] * 4, CHECKS[1:]
    )
    lines = [msgspec.json.encode(one) for one in result.results]
    for line in lines[:3]:
        sink.write(line)
    with pytest.raises(InvalidRequest, match="by='id': more than 3 slices"):
        sink.write(lines[3])


def test_repeats_of_a_case_are_one_cluster_of_a_slice():
    cases = [{"id": f"c{at % 3}", "input": 0, "tags": ["a", "b"] if at % 3 else "a"} for at in range(3_000)]
    outputs = [{"value": "y" if at % 3 else "n"} for at in range(3_000)]
    result = assay.evaluate_sync(cases, outputs, CHECKS[1:2])
    sink = SliceSink([read_dimension("tag")])
    for one in result.results:
        sink.write(msgspec.json.encode(one))
    assert result.case_pass_rate == result.pass_rate == 2 / 3
    a, b = sink.rates()
    assert msgspec.to_builtins(a.statistics) == result.metadata["statistics"]
    assert (a.name, a.pass_rate.cases, b.name, b.pass_rate.cases, b.pass_rate.of) == ("a", 3, "b", 2, 2_000)
