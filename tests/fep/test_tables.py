"""Results as a table: the reason of a check in words, the rows, and the same rows in CSV, XLSX and Parquet."""

import asyncio
import csv
import json
import os
import re
import subprocess
import sys
import zipfile
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay.comparison.case_reasons import reason_line
from assay.errors import UsageError
from assay.fep.outputs.arrow_columns import column_of
from assay.fep.outputs.result_tables import COLUMNS
from assay.fep.outputs.sinks import sink_for
from assay.fep.outputs.table_layout import PLAIN
from assay.protocol.results import EvaluationSummary
from assay.results.check_names import scored_label
from assay.results.differences import differences
from assay.results.reasons import reason_of, score_of
from assay.results.run_end import RunFooter

FOOTER = RunFooter("eval_1", None, None, "completed", EvaluationSummary(
    total_test_cases=0, completed_test_cases=0, error_test_cases=0, skipped_test_cases=0,
))  # fmt: skip


def check(type, results, arguments=None, status="completed", **more):
    document = {"check_type": type, "status": status, "results": results, **more}
    if arguments is not None:
        document["resolved_arguments"] = {name: {"value": value} for name, value in arguments.items()}
    return document


def result(*checks, case=(), output=()):
    context = {
        "test_case": {"id": "a", "input": "?", **dict(case)},
        "output": {"value": "Sydney", **dict(output)},
    }
    return json.dumps({"status": "completed", "execution_context": context, "check_results": checks}).encode()


def rows_of(line):
    return PLAIN.rows(json.loads(line))


NO = {"passed": False}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (check("exact_match", NO, {"actual": "Sydney", "expected": "Paris"}), "expected 'Paris', got 'Sydney'"),
        (check("exact_match", {"passed": True}, {"actual": "x", "expected": "x"}), "equals 'x'"),
        (
            check("exact_match", NO, {"actual": "x", "expected": "x", "negate": True}),
            "expected anything but 'x', got it",
        ),
        (
            check("contains", NO, {"text": "Oslo", "phrases": ["Os", "Rome"]}),
            "expected a text that contains 'Rome', got 'Oslo'",  # only the phrase that is missing
        ),
        (
            check("contains", NO, {"text": "OSLO", "phrases": ["oslo"], "negate": True, "case_sensitive": False}),
            "expected a text without 'oslo', got 'OSLO'",
        ),
        (check("regex", NO, {"text": "x", "pattern": "^y"}), "expected a match of '^y', got 'x'"),
        (check("threshold", NO, {"value": 0.1, "min_value": 0.3}), "expected a number at least 0.3, got 0.1"),
        (
            check("threshold", NO, {"value": 5, "min_value": 1, "max_value": 5, "max_inclusive": False}),
            "expected a number at least 1 and below 5, got 5",
        ),
        (check("exists", NO, {"path": []}), "expected a value at the path, got nothing"),
        (check("has_items", {"passed": False, "missing": ["b"]}, {"items": []}), "lacks 'b'"),
        (
            check("json_match", NO, {"expected": {"a": 1, "b": [1]}, "actual": {"a": 2, "b": [1], "c": 0}}),
            "$.a: expected 1, got 2; $.c: expected nothing, got 0",
        ),
        (
            check("json_schema", {"passed": False, "errors": [{"path": "$.a", "message": "too small"}]}, {}),
            "does not match the schema: $.a: too small",
        ),
        (
            check("json_schema", {"passed": False, "errors": [{"path": "", "message": "no object"}]}, {}),
            "does not match the schema: $: no object",
        ),
        (
            check("json_schema", NO, {"value": "x"}, metadata={"parse_error": "not JSON: invalid character (byte 0)"}),
            "not JSON: invalid character (byte 0), got 'x'",
        ),
        (
            check("json_match", NO, {"actual": ""}, metadata={"parse_error": "expected JSON, got an empty text"}),
            "expected JSON, got an empty text",
        ),
        (
            check("semantic_similarity", {"response": {"score": 0.4123, "passed": False}}, {"threshold": {"min_value": 0.7}}),
            "expected a similarity at least 0.7, got 0.412",
        ),
        (check("llm_judge", {"response": {"passed": False, "reasoning": "Too short."}}, {}), "Too short."),
        (
            check("llm_judge", {"response": {"passed": False, "score": 0.47}, "metadata": {"reasoning": "No next step."}}, {}),
            "No next step.",  # the schema of the judge has no place for it
        ),
        (
            check("llm_judge", {"response": {"criterion_1": {"met": False, "reason": "no greeting"}}}, {}),
            "not met: criterion_1 (no greeting)",
        ),
        (check("mine", {"passed": False, "distance": 3}, {}), 'failed; {"distance":3}'),
        (check("exact_match", NO), "failed; its arguments are not stored"),
        (check("exact_match", {}, status="error", error={"message": "path finds nothing"}), "path finds nothing"),
        (check("exact_match", {}, status="skip"), "not run: the run was stopped before this check"),
        (check("threshold", NO, {"value": "x"}, metadata={"reason": "'x' is not a number"}), "'x' is not a number"),
    ],
)  # fmt: skip
def test_a_reason_says_what_was_expected_and_what_came(document, reason):
    assert reason_of(document) == reason


@pytest.mark.parametrize(
    ("document", "label"),
    [
        (check("llm_judge", {"response": {"passed": False, "score": 0.47}}, metadata={"check_name": "helpful"}), "helpful 0.470"),
        (check("llm_judge", {"response": {"passed": True}}), "llm_judge"),
        (check("llm_judge", {"response": {"passed": True, "score": 1}}), "llm_judge"),
        (check("semantic_similarity", {"response": {"score": 0.4, "passed": False}}), "semantic_similarity"),
        (check("mine", {}, status="error", error={"message": "no"}), "mine"),
    ],
)  # fmt: skip
def test_a_reason_of_a_judge_has_its_name_and_its_score(document, label):
    assert scored_label(document) == label


@pytest.mark.parametrize(
    ("checks", "line"),
    [
        ([check("contains", {"passed": True}), check("tone", {"score": 0.2})], "passed"),
        ([check("tone", {"score": 0.2, "reason": "cold"})], "tone 0.200: cold"),
        (
            [check("contains", NO), check("tone", {"score": 0.2})],
            "contains: failed; its arguments are not stored",
        ),
        ([], "no checks"),
    ],
)
def test_a_passed_case_does_not_show_a_check_without_a_verdict_as_its_reason(checks, line):
    context = {"test_case": {"id": "a"}, "output": {"value": "x"}}
    assert reason_line({"execution_context": context, "check_results": checks}) == line


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    type=st.sampled_from(
        ["exact_match", "contains", "has_items", "json_match", "threshold", "llm_judge", "x"]
    ),
    results=st.dictionaries(st.sampled_from(["passed", "response", "score", "y"]), JSON_VALUES),
    values=st.lists(JSON_VALUES, min_size=6, max_size=6),
)
def test_every_stored_result_has_a_reason_and_its_row(type, results, values):
    names = ("actual", "expected", "text", "phrases", "value", "negate")
    document = check(type, results, dict(zip(names, values, strict=True)))
    assert reason_of(document)
    (row,) = rows_of(
        result(document, case={"expected": values[0], "metadata": values[1]}, output={"metadata": values[2]})
    )
    assert len(row) == len(COLUMNS)
    for value, kind in zip(row, COLUMNS.values(), strict=True):
        assert value is None or type_of(value) is kind


type_of = type


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ({"value": None, "metadata": {"outcome": "failed", "error": "ValueError: no"}},
         "the agent failed: ValueError: no; expected 'completed', got 'failed'"),
        ({"value": None, "metadata": {"outcome": "refused", "error": "not that"}},
         "the agent refused: not that; expected 'completed', got 'failed'"),
        ({"value": None, "metadata": {"outcome": "failed"}}, "expected 'completed', got 'failed'"),
        ({"value": "A", "metadata": {"outcome": "failed", "error": "x"}}, "expected 'completed', got 'failed'"),
    ],
)  # fmt: skip
def test_the_row_of_an_agent_without_an_answer_has_its_error(output, reason):
    document = check("exact_match", {"passed": False}, {"actual": "failed", "expected": "completed"})
    (row,) = rows_of(result(document, output=output))
    assert dict(zip(COLUMNS, row, strict=True))["reason"] == reason


@given(left=JSON_VALUES, right=JSON_VALUES)
def test_a_value_differs_from_another_and_never_from_itself(left, right):
    assert differences(left, left) == []
    if json.dumps(left, sort_keys=True) != json.dumps(right, sort_keys=True) and left != right:
        assert differences(left, right)


@pytest.mark.parametrize(
    ("expected", "actual", "lines"),
    [
        ("Paris", "Sydney", ["- Paris", "+ Sydney"]),
        ("a\nb\nc\nd\ne", "a\nb\nc\nD\ne", ["  b", "  c", "- d", "+ D", "  e"]),
        ('{"a": 1}', '{"a": 2}', ["$.a: expected 1, got 2"]),  # texts that hold JSON are compared as JSON
        ("a", "a\n", ["they differ only in line ends or lines after 400"]),
        ([1, 2], [1], ["$: expected a list of 2, got a list of 1"]),
        ({"a": True}, {"a": 1}, ["$.a: expected true, got 1"]),
    ],
)
def test_a_difference_shows_lines_of_texts_and_paths_of_values(expected, actual, lines):
    assert differences(expected, actual) == lines


RESULT = result(
    check("exact_match", NO, {"actual": "Sydney", "expected": "=Paris"}, metadata={"check_name": "city"}),
    check("llm_judge", {"response": {"score": 0.25, "reason": "-1 for style"}, "metadata": {"cost_usd": 0.002}}, {},
          metadata={"execution_time_ms": 12.5}),
    case={"expected": "=Paris", "metadata": {"tags": ["geo", "easy"]}},
    output={"id": "+o1", "metadata": {"trial": 2, "cost_usd": 0.01, "latency_ms": 340}},
)  # fmt: skip


def test_a_row_has_what_a_person_works_with():
    first, second = (dict(zip(COLUMNS, row, strict=True)) for row in rows_of(RESULT))
    assert first["check_name"] == "city"
    assert (first["trial"], first["cost_usd"], first["latency_ms"]) == (2, 0.01, 340.0)
    assert (first["input"], first["output"], first["expected"]) == ("?", "Sydney", "=Paris")
    assert (first["tags"], first["passed"], first["score"]) == ("geo, easy", False, 0.0)
    assert (second["score"], second["reason"], second["passed"]) == (0.25, "-1 for style", None)
    assert (second["check_cost_usd"], second["check_ms"]) == (0.002, 12.5)
    assert score_of(check("x", {"score": 10**400, "passed": True})) == 1.0  # no float holds that score


def write(path, lines):
    sink = sink_for(str(path))
    for line in lines:
        sink.write(line)
    sink.close(FOOTER)


def test_csv_neutralises_formulas_and_leaves_numbers(tmp_path):
    write(tmp_path / "r.csv", [RESULT])
    first, second = csv.DictReader((tmp_path / "r.csv").read_text().splitlines())
    assert (first["expected"], first["output_id"], second["reason"]) == ("'=Paris", "'+o1", "'-1 for style")
    assert (first["latency_ms"], first["passed"], first["trial"]) == ("340", "false", "2")


def test_xlsx_has_the_same_rows_and_no_formula(tmp_path):
    write(tmp_path / "r.xlsx", [RESULT] * 3)
    with zipfile.ZipFile(tmp_path / "r.xlsx") as book:
        sheet = book.read("xl/worksheets/sheet1.xml").decode()
    assert sheet.count("<row ") == 1 + 6
    texts = re.findall(r"<t[^>]*>([^<]*)</t>", sheet)
    assert "'=Paris" in texts
    assert "'-1 for style" in texts
    assert "<f>" not in sheet
    assert "<v>0.25</v>" in sheet
    assert not list(tmp_path.glob("*.part"))


def test_a_sheet_that_is_full_continues_on_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr("assay.fep.outputs.table_sinks.MAX_ROWS", 3)
    write(tmp_path / "r.xlsx", [RESULT] * 3)
    with zipfile.ZipFile(tmp_path / "r.xlsx") as book:
        counts = [book.read(f"xl/worksheets/sheet{at}.xml").decode().count("<row ") for at in (1, 2, 3)]
    assert counts == [3, 3, 3]


def test_parquet_has_the_same_rows_typed(tmp_path, monkeypatch):
    parquet = import_module("pyarrow.parquet")
    monkeypatch.setattr("assay.fep.outputs.table_sinks.GROUP_ROWS", 4)
    write(tmp_path / "r.parquet", [RESULT] * 5)
    table = parquet.read_table(tmp_path / "r.parquet")
    assert [tuple(row.values()) for row in table.to_pylist()] == list(rows_of(RESULT)) * 5
    assert parquet.ParquetFile(tmp_path / "r.parquet").num_row_groups == 3


def test_a_table_without_results_has_its_header(tmp_path):
    parquet = import_module("pyarrow.parquet")
    write(tmp_path / "r.parquet", [])
    assert parquet.read_table(tmp_path / "r.parquet").column_names == list(COLUMNS)


CELLS = {
    str: st.text(st.characters(codec="utf-8")),
    int: st.integers(-(1 << 63), (1 << 63) - 1),
    float: st.floats(),
    bool: st.booleans(),
}


@given(
    st.sampled_from(list(CELLS)).flatmap(
        lambda kind: st.tuples(st.just(kind), st.lists(st.none() | CELLS[kind]))
    )
)
def test_a_column_is_what_arrow_makes_of_its_cells(column):
    kind, cells = column
    arrow = import_module("pyarrow")
    types = {str: arrow.string(), int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_()}
    made = column_of(arrow, cells, kind)
    made.validate(full=True)
    assert made.equals(arrow.array(cells, types[kind])) or repr(made.to_pylist()) == repr(cells)  # nan


def test_a_parquet_file_is_written_without_pandas(zygote, tmp_path):
    """It takes half a second to load, and is not needed."""
    (tmp_path / "seen.py").write_text(
        "import sys\nfrom assay.cli.main import app\n"
        "def main():\n    app(sys.argv[1:], standalone_mode=False)\n    print('pandas' in sys.modules)\n"
    )
    (tmp_path / "c.jsonl").write_text('{"test_case": {"id": "a", "input": "x"}, "output": {"value": "y"}}\n')
    (tmp_path / "checks.yaml").write_text("[{contains: y}]")
    arguments = ("evaluate", "--contexts", "c.jsonl", "--checks", "checks.yaml", "-o", "r.parquet")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    process = zygote.start(*arguments, folder=tmp_path, target="seen:main", environ=environ)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.split()[-1] == "False"
    assert import_module("pyarrow.parquet").read_table(tmp_path / "r.parquet").num_rows == 1


@pytest.mark.parametrize("name", ["none/r.xlsx", "none/r.parquet", "none/r.csv"])
def test_a_table_in_no_folder_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match="there is no folder"):
        sink_for(str(tmp_path / name))


@pytest.mark.parametrize(("name", "module"), [("r.xlsx", "xlsxwriter"), ("r.parquet", "pyarrow")])
def test_a_missing_extra_is_named_with_its_command(tmp_path, name, module):
    program = f"""
import sys
import assay.extras
assay.extras._is_installed = lambda name: name != {module!r}
from assay.errors import MissingExtra
from assay.fep.outputs.sinks import sink_for
try:
    sink_for({str(tmp_path / name)!r})
except MissingExtra as missing:
    print(missing)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "[tables]" in done.stdout


def evaluate(count):
    cases = [{"id": f"c{at}", "input": "?", "expected": "a"} for at in range(count)]
    outputs = [{"value": "a" if at % 2 else "b"} for at in range(count)]
    missing = {"type": "contains", "arguments": {"text": "$.output.none", "phrases": ["a"]}}
    equal = {
        "type": "exact_match",
        "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"},
    }
    return assay.evaluate_sync(cases, outputs, [equal] if count else [equal, missing])


def test_a_result_says_how_good_it_is_and_fits_a_screen():
    result = evaluate(2_000)
    assert (result.pass_rate, len(result.failed), result.unmeasured) == (0.5, 1_000, [])
    assert result.failed[0].execution_context.test_case["id"] == "c0"
    lines = repr(result).splitlines()
    assert "2,000 cases, pass rate 50.0%" in lines[0]
    assert lines[1:] == [
        "  exact_match: 1,000 passed, 1,000 failed",
        "  failed: c0, c2, c4, c6, c8 and 995 more",
    ]
    assert evaluate(0).pass_rate is None
    assert isinstance(result, assay.EvaluationRunResult)


def test_the_repr_of_trials_counts_cases():
    def wrong(output):
        return False

    result = assay.evaluate_sync(
        [{"id": "a", "input": "x"}], agent=lambda task: task, checks=[wrong], trials=2
    )
    lines = repr(result).splitlines()
    assert ": completed, 1 case, 2 trials, pass rate 0.0%" in lines[0]
    assert lines[2] == "  failed: a (trial 1), a (trial 2)"


def test_to_pandas_has_the_rows_of_the_table():
    pandas = import_module("pandas")
    frame = evaluate(4).to_pandas()
    assert list(frame.columns) == list(COLUMNS)
    assert frame["passed"].mean() == 0.5
    assert list(frame[~frame["passed"]]["reason"]) == ["expected 'a', got 'b'"] * 2
    assert isinstance(evaluate(0).to_pandas(), pandas.DataFrame)


def test_a_suite_run_has_the_same():
    match = {"kind": "golden", "match": {"strategy": "exact", "value": "b"}}
    tasks = [{"taskId": name, "input": name, "expected": match} for name in ("a", "b")]
    suite = {"suiteId": "local.mine.evals.x", "version": "1.0.0", "modes": ["golden"], "tasks": tasks}
    run = asyncio.run(assay.run_suite(suite, lambda task: task))
    assert (run.pass_rate, [one.execution_context.test_case["id"] for one in run.failed]) == (0.5, ["a"])
    assert repr(run).splitlines()[1:] == [
        "  score 0.500, 1 of 2 tasks passed",
        "  a: expected 'b', got 'a'",
    ]
    assert list(run.to_pandas()["test_case_id"]) == ["a", "b"]
