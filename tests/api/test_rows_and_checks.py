"""Data frames, rows and short checks without a file: the library reads what files say."""

import json

import pandas  # pyright: ignore[reportMissingTypeStubs]
import polars
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pytest

import assay
from assay.errors import InvalidRequest, UsageError

ROWS = [
    {
        "question": "Capital of France?",
        "model_a": "It is Paris.",
        "gold": "Paris",
        "topic": "eu",
        "votes": [1, 2],
    },
    {"question": "Capital of Italy?", "model_a": "It is Rome.", "gold": "Rome", "topic": "eu", "votes": [3]},
    {"question": "Capital of Peru?", "model_a": "It is Quito.", "gold": "Lima", "topic": "am", "votes": []},
]
MAP = {"input": "question", "output": "model_a"}
CHECKS = [{"contains": "$.test_case.expected"}]


def frame():
    return pandas.DataFrame(ROWS)


def parquet(folder):
    frame().to_parquet(folder / "rows.parquet")
    return assay.load_contexts(folder / "rows.parquet", map=MAP)


FORMS = {
    "rows": lambda rows=ROWS: rows,
    "pandas": lambda rows=ROWS: pandas.DataFrame(rows),
    "arrow": lambda rows=ROWS: pyarrow.Table.from_pylist(rows),
    "polars": lambda rows=ROWS: polars.DataFrame(rows),
}


def contexts(result):
    return [(one.execution_context.test_case, one.execution_context.output) for one in result.results]


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_read_as_those_of_a_file(tmp_path, form):
    expected = assay.evaluate_sync(*parquet(tmp_path), CHECKS)
    found = assay.evaluate_sync(FORMS[form](), checks=CHECKS, map=MAP)
    assert contexts(found) == contexts(expected)
    assert found.pass_rate == pytest.approx(2 / 3)
    assert [one.id for one in found.failing] == ["3"]
    assert [(one.name, one.case_pass_rate) for one in found.slices("topic")] == [("am", 0.0), ("eu", 1.0)]


def test_a_missing_cell_is_absent_and_other_values_are_json():
    odd = pandas.DataFrame(
        {
            "input": ["a", "b"],
            "output": ["x", None],
            "n": pandas.array([1, None], dtype="Int64"),
            "share": [0.5, float("nan")],
            "when": [pandas.Timestamp("2026-01-02"), pandas.NaT],
            "ok": [True, False],
        }
    )
    (first, _), (second, output) = contexts(assay.evaluate_sync(odd, checks=[{"contains": "x"}]))
    assert first == {"id": "1", "input": "a", "n": 1, "share": 0.5, "when": "2026-01-02T00:00:00", "ok": True}
    assert (second, output) == ({"id": "2", "input": "b", "ok": False}, {"value": None})


@pytest.mark.parametrize("form", FORMS)
def test_a_null_output_is_not_measured(form):
    null = [{"input": "a", "output": "x"}, {"input": "b", "output": None}]
    result = assay.evaluate_sync(FORMS[form](null), checks=[{"exact_match": ""}])
    assert [one.check_results[0].status for one in result.results] == ["completed", "error"]
    assert len(result.unmeasured) == 1


@pytest.mark.parametrize("form", FORMS)
def test_the_map_wins_over_a_column_with_the_name_of_the_target(form):
    old = [
        {
            "id": "7",
            "key": "k",
            "input": "i",
            "question": "q",
            "expected": "old",
            "gold_v2": "new",
            "answer": "new",
        }
    ]
    result = assay.evaluate_sync(
        FORMS[form](old),
        checks=[{"exact_match": "$.test_case.expected"}],
        map={"id": "key", "input": "question", "expected": "gold_v2", "metadata.gold": "gold_v2"},
    )
    assert result.pass_rate == 1.0
    kept = {"case_id": "7", "case_input": "i", "case_expected": "old"}
    case = {"id": "k", "input": "q", "expected": "new", "metadata": {"gold": "new"}, **kept}
    assert contexts(result) == [(case, {"value": "new"})]


def test_the_usual_names_need_no_map():
    rows = [{"prompt": "?", "response": "yes", "label": "yes"}]
    assert assay.evaluate_sync(rows, checks=CHECKS).pass_rate == 1.0
    assert assay.evaluate_sync(pandas.DataFrame(rows), checks=CHECKS).pass_rate == 1.0
    context = {"test_case": {"id": "a", "input": "?", "expected": "yes"}, "output": {"value": "yes"}}
    assert assay.evaluate_sync([context], checks=CHECKS).pass_rate == 1.0


def test_rows_are_not_changed():
    rows = [{"in": {"text": "?", "more": 1}, "answer": "Paris"}]
    before = json.dumps(rows)
    result = assay.evaluate_sync(rows, checks=[{"contains": "Paris"}], map={"input": "in.text"})
    assert result.results[0].execution_context.test_case["input"] == "?"
    assert json.dumps(rows) == before


def test_an_agent_answers_the_rows():
    result = assay.evaluate_sync(
        frame(),
        agent=lambda question: "Paris" if "France" in question else "Rome",
        checks=CHECKS,
        map={"input": "question"},
    )
    assert [bool(one.check_results[0].results["passed"]) for one in result.results] == [True, True, False]


def test_outputs_may_be_a_second_frame():
    cases, outputs = frame()[["question", "gold"]], frame()[["model_a"]]
    result = assay.evaluate_sync(cases, outputs, CHECKS, map=MAP)
    assert result.pass_rate == pytest.approx(2 / 3)


@pytest.mark.anyio
@pytest.mark.parametrize("form", ["rows", "pandas"])
async def test_a_stream_takes_rows(form):
    found = [one async for one in assay.evaluate_stream(FORMS[form](), CHECKS, map=MAP)]
    assert [one.check_results[0].results["passed"] for one in found] == [True, True, False]


@pytest.mark.anyio
async def test_a_stream_takes_rows_that_come_late():
    async def rows():
        for row in ROWS:
            yield row

    found = [one async for one in assay.evaluate_stream(rows(), CHECKS, map=MAP)]
    assert [one.check_results[0].results["passed"] for one in found] == [True, True, False]


@pytest.mark.parametrize("form", ["pandas", "arrow", "polars", "parquet"])
def test_a_dot_in_a_column_leads_into_an_object_as_in_csv(form, tmp_path):
    rows = [
        {
            "input": "q",
            "metadata.topic": "eu",
            "output.value": "Paris",
            "output.metadata.ms": 12,
            "n:json": "[1]",
        },
        {
            "input": "r",
            "metadata.topic": None,
            "output.value": None,
            "output.metadata.ms": 13,
            "n:json": None,
        },
    ]
    if form == "parquet":
        pandas.DataFrame(rows).to_parquet(tmp_path / "rows.parquet")
        given = assay.load_contexts(tmp_path / "rows.parquet")
    else:
        given = (FORMS[form](rows),)
    result = assay.evaluate_sync(*given, checks=[{"exact_match": "Paris"}])
    assert contexts(result) == [
        (
            {"id": "1", "input": "q", "metadata": {"topic": "eu"}, "n": [1]},
            {"value": "Paris", "metadata": {"ms": 12}},
        ),
        ({"id": "2", "input": "r"}, {"value": None, "metadata": {"ms": 13}}),
    ]
    assert [one.check_results[0].status for one in result.results] == ["completed", "error"]


def test_a_frame_of_cases_with_ids_has_the_usual_names():
    cases = pandas.DataFrame([{"id": "a", "input": "q", "gold": "yes"}])
    assert assay.evaluate_sync(cases, agent=lambda question: "yes", checks=CHECKS).pass_rate == 1.0


TWICE = pandas.DataFrame([["a", "b", "c"]], columns=["input", "output", "input"])
WRONG = [
    ({"test_cases": frame(), "checks": CHECKS}, "no column for output; its columns are 'question'"),
    ({"test_cases": frame(), "checks": CHECKS, "map": {"input": "q"}}, "there is no column 'q'"),
    ({"test_cases": frame(), "checks": CHECKS, "map": {"text": "question"}}, "expected one of id, input"),
    ({"test_cases": TWICE, "checks": CHECKS}, "two columns are called 'input'"),
    ({"test_cases": [1], "checks": CHECKS, "map": MAP}, "test_cases[0]: expected a row, an object with columns, got"),
    ({"test_cases": 7, "checks": CHECKS, "map": MAP}, "test_cases: expected a data frame or a list of rows"),
    ({"test_cases": [{"id": "a", "input": 1}], "checks": CHECKS}, "0 outputs for 1 test cases"),
    ({"test_cases": [*ROWS, {"gold": 1}], "checks": CHECKS, "map": MAP}, "test_cases[3].question: the row has no such"),
    ({"test_cases": ROWS, "checks": [{"contains": None}], "map": MAP}, "checks[0].contains: expected the phrases"),
    ({"test_cases": ROWS, "checks": [{"llm_judge": 3}], "map": MAP}, "expected an object with the arguments of"),
    ({"test_cases": [{"id": "x", "input": "q", "output": {"value": "a"}}], "checks": CHECKS}, "test_cases[0]: expected a row, or an object with test_case and output, got 'id', 'input', 'output'"),
    ({"test_cases": [{"test_case": {"id": "x", "input": "q"}}], "checks": CHECKS}, "test_cases[0]: expected a row, or an object with test_case and output, got 'test_case'; if the output"),
    ({"test_cases": [{"id": "x", "input": "q"}], "outputs": frame().gold[:1], "checks": CHECKS}, "outputs[0]: expected an object with value, got"),
    ({"test_cases": ROWS, "checks": CHECKS, "map": {"input": 3}}, "map['input']: expected the name of a column for each target"),
    ({"test_cases": ROWS, "checks": CHECKS, "map": 5}, "map: expected the name of a column for each target"),
    ({"test_cases": ROWS, "outputs": [], "checks": CHECKS, "map": "ab"}, "map: expected the name of a column"),
    ({"test_cases": frame().set_index("question"), "checks": CHECKS, "map": MAP}, "'question' is the index of the data frame, not a column: call reset_index()"),
    ({"test_cases": pandas.DataFrame([["a", "b", "c"]], columns=["input", "output", "output.id"]), "checks": CHECKS}, "test_cases[0].output.id: column 'output' holds a value"),
    ({"test_cases": ROWS, "checks": ["vibes"], "map": MAP}, "vibes"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[message[:25] for _, message in WRONG])
def test_wrong_rows_are_refused_in_words(arguments, message):
    with pytest.raises((InvalidRequest, UsageError)) as refusal:
        assay.evaluate_sync(**arguments)
    assert message in str(refusal.value)


def polite(output):
    return "It is" in output


SHORT = [
    {"contains": "Paris"},
    {"contains": {"phrases": ["paris"], "case_sensitive": False}, "name": "any case"},
    {"regex": "^It"},
    {"exact_match": "$.test_case.expected"},
    {"exists": "$.output.value"},
    {"json_match": {"a": 1}},
]


def test_checks_have_the_short_forms_of_a_file(tmp_path, command):
    (tmp_path / "checks.json").write_text(json.dumps(SHORT), "utf-8")
    cases, outputs = assay.load_contexts(_jsonl(tmp_path), map=MAP)
    done = command(
        "evaluate", "--contexts", "rows.jsonl", "--map", "input=question", "--map", "output=model_a",
        "--checks", "checks.json", "-o", "results.jsonl", folder=tmp_path,
    )  # fmt: skip
    assert done.code == 0
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text("utf-8").splitlines()]
    found = assay.evaluate_sync(cases, outputs, (*SHORT, polite))
    for line, result in zip(lines, found.results, strict=True):
        *checks, own = result.check_results
        assert [one.results for one in checks] == [one["results"] for one in line["check_results"]]
        assert own.results == {"passed": True}
    each = assay.evaluate_sync(cases, outputs, [SHORT, tuple(SHORT), ["polite_of_nobody"][:0]])
    assert len(each.results[1].check_results) == len(SHORT)


def _jsonl(folder):
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    return folder / "rows.jsonl"
