"""Data frames, rows and short checks without a file: the library reads what files say."""

import asyncio
import json
from decimal import Decimal

import numpy
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


ODD = {
    "whole": (pandas.Series([1, None], dtype="Int64"), 1),
    "share": (pandas.Series([0.5, float("nan")]), 0.5),
    "when": (pandas.Series([pandas.Timestamp("2026-01-02"), pandas.NaT]), "2026-01-02T00:00:00"),
    "utc": (pandas.Series(pandas.to_datetime(["2026-01-02T03:04:05Z", None])), "2026-01-02T03:04:05Z"),
    "fine": (
        pandas.Series(pandas.to_datetime(["2026-01-02T03:04:05.000000007", None])),
        "2026-01-02T03:04:05.000000007",
    ),
    "month": (pandas.Series(pandas.PeriodIndex(["2026-01", None], freq="M")), "2026-01"),
    "span": (pandas.Series(pandas.to_timedelta(["36h", None])), "P1DT43200S"),
    "class": (pandas.cut(pandas.Series([1, None]), [0.5, 1.5]), "(0.5, 1.5]"),
    "kind": (pandas.Series(["a", None], dtype="category"), "a"),
    "flag": (pandas.Series([True, None], dtype="boolean"), True),
    "vector": (pandas.Series([numpy.array([1.5, 2.5]), None]), [1.5, 2.5]),
    "moments": (pandas.Series([numpy.array(["2026-01-02"], "M8[ns]"), None]), ["2026-01-02T00:00:00"]),
    "members": (pandas.Series([{"n": numpy.int64(3), "t": (1, 2)}, None]), {"n": 3, "t": [1, 2]}),
    "endless": (pandas.Series([float("inf"), float("nan")]), "Infinity"),
    "deep": (pandas.Series([[1.0, float("-inf"), float("nan")], None]), [1.0, "-Infinity", None]),
    "data": (pandas.Series([b"yes", None]), "eWVz"),
    "money": (pandas.Series([Decimal("1.50"), None]), "1.50"),
}
KINDS = {
    "pandas": lambda table: table,
    "records": lambda table: table.to_dict("records"),
    "numpy": lambda table: [{name: table[name].iloc[at] for name in table} for at in range(len(table))],
    "arrow": pyarrow.Table.from_pandas,
}


def read_contexts(kind, table, folder, **options):
    """The contexts of a table in memory, or of a file of it."""
    if kind in KINDS:
        return contexts(assay.evaluate_sync(KINDS[kind](table), checks=[{"contains": "x"}], **options))
    table.to_parquet(folder / "rows.parquet")
    return list(zip(*assay.load_contexts(folder / "rows.parquet", **options), strict=True))


@pytest.mark.parametrize("kind", [*KINDS, "parquet"])
def test_a_value_is_the_same_in_every_kind_of_table(kind, tmp_path):
    columns, expected = (
        {name: one for name, (one, _) in ODD.items()},
        {name: one for name, (_, one) in ODD.items()},
    )
    if kind in ("arrow", "parquet"):  # Arrow has no such values, or writes them as others
        for name in ("class", "month", "money"):
            columns[name] = columns[name].astype(str).where(columns[name].notna(), None)
    table = pandas.DataFrame({"input": ["a", "b"], "output": ["x", "y"], **columns})
    (first, _), (second, _) = read_contexts(kind, table, tmp_path)
    assert first == {"id": "1", "input": "a", **expected}
    if kind in ("records", "numpy"):  # the null of an object stays, as in a file of JSON lines
        second = {name: value for name, value in second.items() if value is not None}
    assert second == {"id": "2", "input": "b"}


@pytest.mark.parametrize("kind", [*KINDS, "parquet"])
def test_an_infinite_number_is_refused_where_it_is_read(kind, tmp_path):
    table = pandas.DataFrame({"q": ["a", "b"], "a": ["x", "y"], "odd": [1.0, float("inf")]})
    columns = {"input": "q", "output": "a"}
    assert len(read_contexts(kind, table, tmp_path, map=columns)) == 2
    place = "rows.parquet:2: odd" if kind == "parquet" else "test_cases[1].odd"
    for target in ("input", "output", "expected", "metadata.ms"):
        with pytest.raises(InvalidRequest) as refusal:
            read_contexts(kind, table, tmp_path, map={**columns, target: "odd"})
        assert f"{place}: NaN and infinity are not JSON numbers" in str(refusal.value)


def test_rows_for_an_agent_need_no_map_and_a_named_run_is_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_DATABASE_URL", f"sqlite:///{tmp_path}/assay.db")
    rows = [{"question": f"q{at}", "gold": "yes", "topic": "t"} for at in range(4)]
    checks = [{"exact_match": "$.test_case.expected"}]
    good = asyncio.run(assay.evaluate(rows, agent=lambda question: "yes", checks=checks, name="model-b"))
    given = [{"value": "yes" if at else "no"} for at in range(4)]
    bad = assay.evaluate_sync(rows, given, checks, name="model-a")
    assert [one.pass_rate for one in (good, bad)] == [1.0, 0.75]
    assert repr(assay.compare("model-a", "model-b")).startswith("model-a → model-b: 75.0% → 100.0%")
    decision = assay.gate("model-a", baseline="model-b")
    assert decision.reason.endswith("1 case got worse (1)")
    with pytest.raises(InvalidRequest, match="name: expected a word of your own, got 'latest'"):
        assay.evaluate_sync(rows, given, checks, name="latest")
    with pytest.raises(InvalidRequest, match="name: expected a text, got"):
        assay.evaluate_sync(rows, given, checks, name=3)


def test_a_missing_output_is_null_and_a_whole_float_is_an_id():
    table = pandas.DataFrame({"id": [1.0, 2.0], "input": ["a", "b"], "output": [3.5, float("nan")]})
    for rows in (table, table.to_dict("records")):
        found = contexts(assay.evaluate_sync(rows, checks=[{"contains": "x"}]))
        assert found == [
            ({"id": "1", "input": "a"}, {"value": 3.5}),
            ({"id": "2", "input": "b"}, {"value": None}),
        ]


def test_cases_and_outputs_have_numbers_of_numpy():
    cases = [{"id": "a", "input": numpy.int64(3), "when": pandas.Timestamp("2026-01-02")}]
    result = assay.evaluate_sync(cases, [{"value": numpy.float32(0.5)}], [{"threshold": {"min_value": 0.5}}])
    assert contexts(result) == [
        ({"id": "a", "input": 3, "when": "2026-01-02T00:00:00"}, {"value": 0.5}),
    ]
    assert result.pass_rate == 1.0


def test_a_number_is_no_text_to_search_and_the_reason_says_what_to_do():
    rows = [{"input": "?", "output": "3 apples", "expected": 3}]
    result = assay.evaluate_sync(rows, checks=[{"contains": "$.test_case.expected"}])
    assert len(result.unmeasured) == 1
    assert result.failing[0].checks[0].reason == (
        "phrases: expected a string but got a whole number at `[0]`; write the number as a text, or use "
        "exact_match, json_match or threshold"
    )


def test_an_id_of_two_different_cases_is_refused_with_what_differs():
    rows = [{"id": "a", "input": "?", "output": "x", "annotator": one} for one in ("ann", "ben")]
    with pytest.raises(InvalidRequest) as refusal:
        assay.evaluate_sync(rows, checks=[{"contains": "x"}])
    assert str(refusal.value) == (
        "test_cases[1].id: 'a' is already the id of another test case: 'annotator' differs; trials of one case are "
        "equal, and other cases have other ids"
    )


def test_a_result_without_checks_says_that_nothing_was_measured():
    result = assay.evaluate_sync([CONTEXT], checks=[])
    assert repr(result).endswith("completed, 1 case\n  nothing was measured: there are no checks")


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


CONTEXT = {"test_case": {"id": "a", "input": "?"}, "output": {"value": "yes"}}
TWICE = pandas.DataFrame([["a", "b", "c"]], columns=["input", "output", "input"])
WRONG = [
    ({"test_cases": frame(), "checks": CHECKS}, "no column for output; its columns are 'question'"),
    ({"test_cases": frame(), "checks": CHECKS, "map": {"input": "q"}}, "there is no column 'q'"),
    ({"test_cases": frame(), "checks": CHECKS, "map": {"text": "question"}}, "expected one of id, input"),
    ({"test_cases": TWICE, "checks": CHECKS}, "expected different columns, got 'input' twice"),
    ({"test_cases": [1], "checks": CHECKS, "map": MAP}, "test_cases[0]: expected a row, an object with columns, got"),
    ({"test_cases": 7, "checks": CHECKS, "map": MAP}, "test_cases: expected a data frame or a list of rows"),
    ({"test_cases": [{"id": "a", "input": 1}], "checks": CHECKS}, "outputs: expected one output for each case, or an agent"),
    ({"test_cases": [*ROWS, {"gold": 1}], "checks": CHECKS, "map": MAP}, "test_cases[3].question: the row has no such"),
    ({"test_cases": ROWS, "checks": [{"contains": None}], "map": MAP}, "checks[0].contains: expected the phrases"),
    ({"test_cases": ROWS, "checks": [{"llm_judge": 3}], "map": MAP}, "checks[0].llm_judge: llm_judge takes an object with its arguments, got a number"),
    ({"test_cases": ROWS, "checks": [{"contain": "x"}], "map": MAP}, "checks[0].contain: no check of assay is called 'contain' (did you mean contains?); a check of your own takes"),
    ({"test_cases": ROWS, "checks": ["Contain"], "map": MAP}, "checks[0].type: there is no check 'Contain' (did you mean contains?); there are "),
    ({"test_cases": frame()[:0], "checks": CHECKS, "map": {"input": "q"}}, "test_cases: there is no column 'q'"),
    ({"test_cases": [], "checks": CHECKS, "map": {"text": "q"}}, "map: expected one of id, input"),
    ({"test_cases": [{**CONTEXT, "topic": "eu"}], "checks": CHECKS}, "test_cases[0].topic: a context has no such member; it has test_case and output"),
    ({"test_cases": [{**ROWS[0], "id": 1}, {**ROWS[1], "id": float("nan")}], "checks": CHECKS, "map": MAP}, "test_cases[1].id: the row has no id: give every row one"),
    ({"test_cases": frame().assign(id=[1, None, 3]), "checks": CHECKS, "map": MAP}, "test_cases[1].id: the row has no id: give every row one"),
    ({"test_cases": [{"id": "x", "input": "q", "output": {"value": "a"}}], "checks": CHECKS}, "test_cases[0]: expected a row, or an object with test_case and output, got 'id', 'input', 'output'"),
    ({"test_cases": [{"test_case": {"id": "x", "input": "q"}}], "checks": CHECKS}, "test_cases[0]: expected a row, or an object with test_case and output, got 'test_case'; if the output"),
    ({"test_cases": [{"id": "x", "input": "q"}], "outputs": frame().gold[:1], "checks": CHECKS}, "outputs[0]: expected an object with value, got"),
    ({"test_cases": ROWS, "checks": CHECKS, "map": {"input": 3}}, "map['input']: expected the name of a column for each target"),
    ({"test_cases": ROWS, "checks": CHECKS, "map": 5}, "map: expected the name of a column for each target"),
    ({"test_cases": ROWS, "outputs": [], "checks": CHECKS, "map": "ab"}, "map: expected the name of a column"),
    ({"test_cases": frame().set_index("question"), "checks": CHECKS, "map": MAP}, "'question' is the index of the data frame, not a column: call reset_index()"),
    ({"test_cases": pandas.DataFrame([["a", "b", "c"]], columns=["input", "output", "output.id"]), "checks": CHECKS}, "test_cases[0].output.id: expected a column 'output' or columns for its members"),
    ({"test_cases": ROWS, "checks": ["vibes"], "map": MAP}, "vibes"),
    ({"test_cases": "rows.csv", "checks": CHECKS}, "test_cases: expected a list of cases, a list of rows or a data frame, got the name of a file: assay.load_contexts reads"),
    ({"test_cases": {"input": ["a"], "output": ["b"]}, "checks": CHECKS}, "test_cases: expected a list of cases, a list of rows or a data frame, got an object: pandas.DataFrame"),
    ({"test_cases": ROWS, "outputs": ["a", "b", "c"], "checks": CHECKS, "map": {"input": "question"}}, 'outputs[0]: expected an object with value, got a string: [{"value": one} for one in outputs] makes them'),
    ({"test_cases": polars.DataFrame(ROWS).lazy(), "checks": CHECKS, "map": MAP}, "test_cases: expected a DataFrame of polars, got a LazyFrame: collect() it"),
    ({"test_cases": frame(), "checks": CHECKS, "map": {"input": "Questoin"}}, "there is no column 'Questoin' (did you mean question?); its columns are"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[message[:25] for _, message in WRONG])
def test_wrong_rows_are_refused_in_words(arguments, message):
    with pytest.raises((InvalidRequest, UsageError)) as refusal:
        assay.evaluate_sync(**arguments)
    assert message in str(refusal.value)
    lines = str(refusal.value).splitlines()
    assert [line for line in lines[1:] if line.startswith("outputs")] == []


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
