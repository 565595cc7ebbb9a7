"""`assay.batch.scorer`: row for row what `evaluate` answers, in the kind of table that came."""

import pickle
import subprocess
import sys
from pathlib import Path

import pandas  # pyright: ignore[reportMissingTypeStubs]
import polars
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import batch
from assay.api import cases_from_rows
from assay.errors import InvalidRequest, UsageError
from assay.inputs.places import places_of
from support.scored_rows import expected_rows, rows_of

MAP = {"input": "question", "output": "answer"}


def grade(output):
    """A check with numbers and no verdict; it fails on a text that it does not know."""
    return {"score": len(output) / 10, "words": float(len(output.split()))}


async def polite(output):
    return "please" in output


CHECKS = [{"contains": "a"}, {"contains": "$.test_case.expected"}, {"regex": "^[ab]*$"}, grade, polite]
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "question": st.sampled_from(["q", ""]),
            "answer": st.one_of(st.none(), st.text("ab please", max_size=10)),
            "expected": st.sampled_from(["a", "b", ""]),
            "lang": st.one_of(st.none(), st.sampled_from(["fr", "de"])),
        }
    ),
    min_size=1,
    max_size=8,
)


def table_of(rows):
    return pyarrow.Table.from_pylist(
        [{"id": f"case-{at}", **row} for at, row in enumerate(rows)],
        pyarrow.schema(
            [(name, pyarrow.string()) for name in ("id", "question", "answer", "expected", "lang")]
        ),
    )


QUICK = [
    *CHECKS[:3],
    {"threshold": {"value": "$.output.value", "min_value": 1}},
    {"exact_match": "a"},
    {"f1": "a"},
]


@given(ROWS, st.sampled_from([CHECKS, QUICK, QUICK[:1]]))
def test_each_row_has_the_result_of_evaluate(rows, checks):
    """With checks that wait, with a function of the user, and with compiled ones."""
    table = table_of(rows)
    found = batch.scorer(checks, columns=MAP)(table)
    assert rows_of(found) == expected_rows(table, checks, MAP)


def test_an_error_of_the_agent_is_in_the_reason():
    """A compiled check fails with an output that has no value."""
    failed = {"value": None, "metadata": {"outcome": "failed", "error": "no answer came"}}
    rows = [{"test_case": {"id": "x", "input": "q"}, "output": failed}]
    check = {"type": "exact_match", "arguments": {"actual": "$.test_case.input", "expected": "a"}}
    found = batch.scorer([check])(pyarrow.Table.from_pylist(rows)).to_pylist()
    assert found[0]["checks"]["exact_match"]["reason"].startswith("the agent failed: no answer came")


def test_the_places_of_columns_are_found_once(monkeypatch):
    """Not for each row: it takes as long as scoring."""
    calls = []
    monkeypatch.setattr(
        cases_from_rows, "places_of", lambda *given, **named: calls.append(1) or places_of(*given, **named)
    )
    batch.scorer(QUICK, columns={"output": "answer"})(table_of(ROWS_OF_KINDS))
    few = len(calls)
    rows = [dict(row, question=f"q{at}") for at, row in enumerate(ROWS_OF_KINDS * 20)]
    batch.scorer(QUICK, columns={"output": "answer"})(table_of(rows))
    assert len(calls) == 2 * few


ROWS_OF_KINDS = [
    {"question": "q", "answer": "a", "expected": "a", "lang": "fr"},
    {"question": "q", "answer": "c", "expected": "b", "lang": "de"},
]
KINDS = {
    "batch": (lambda table: table.to_batches()[0], pyarrow.RecordBatch),
    "table": (lambda table: table, pyarrow.Table),
    "pandas": (lambda table: table.to_pandas(), pandas.DataFrame),
    "polars": (polars.from_arrow, polars.DataFrame),
}


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_of_the_kind_of_the_rows_and_have_one_schema(kind):
    make, expected = KINDS[kind]
    score = batch.scorer(CHECKS[:2], columns=MAP, by="lang", content=True)
    found = score(make(table_of(ROWS_OF_KINDS)))
    assert isinstance(found, expected)
    if hasattr(found, "schema") and kind in ("batch", "table"):
        assert found.schema == score.schema
    cells = (
        pyarrow.table(found) if kind != "pandas" else pyarrow.Table.from_pandas(found, preserve_index=False)
    )
    assert cells.column("slices").to_pylist() == [{"lang": ["fr"]}, {"lang": ["de"]}]
    assert cells.column("output").to_pylist() == ["a", "c"]


def test_a_batch_of_no_rows_has_the_schema():
    score = batch.scorer(CHECKS[:1], columns=MAP)
    assert (
        score(
            table_of([]).to_batches(max_chunksize=1)[0] if table_of([]).to_batches() else table_of([])
        ).num_rows
        == 0
    )
    assert list(score.to_pandas().columns) == score.schema.names


def test_content_is_not_in_the_results_unless_it_is_asked_for():
    found = batch.scorer([{"contains": "$.test_case.expected"}], columns=MAP)(table_of(ROWS_OF_KINDS))
    assert found.column_names == ["id", "trial", "status", "problem", "checks"]


NUMBERED = [{"type": "threshold", "arguments": {"value": "$.output.metadata.ms", "max_value": 10}}]


def test_trials_and_cells_of_metadata_are_read():
    table = pyarrow.Table.from_pylist(
        [
            {
                "test_case": {"id": "x", "input": "q"},
                "output": {"value": "a", "metadata": {"trial": at, "ms": ms}},
            }
            for at, ms in enumerate([5, 20], 1)
        ]
    )
    found = batch.scorer(NUMBERED)(table).to_pylist()
    assert [(row["id"], row["trial"], row["checks"]["threshold"]["passed"]) for row in found] == [
        ("x", 1, True),
        ("x", 2, False),
    ]


BAD = pyarrow.table({"id": ["a", None, "a"], "question": ["q", "q", "other"], "answer": ["a", "a", "a"]})


def test_a_row_that_is_not_a_case_is_refused():
    with pytest.raises(InvalidRequest, match=r"contexts\[1\]"):
        batch.scorer(CHECKS[:1], columns=MAP)(BAD)


def test_a_row_that_is_not_a_case_is_an_error_if_it_is_skipped():
    found = batch.scorer(CHECKS[:1], columns=MAP, skip_bad_rows=True)(BAD).to_pylist()
    assert [row["status"] for row in found] == ["completed", "error", "error"]
    assert "the row has no id" in found[1]["problem"]
    assert "another input" in found[2]["problem"]  # an id belongs to one input
    assert found[1]["checks"]["contains"]["passed"] is None


JUDGE = {"type": "llm_judge", "arguments": {"prompt": "Is it good? {{$.output.value}}", "provider_config": {"base_url": "http://127.0.0.1:9/v1", "api_key": "k"}, "model_config": {"model": "m"}, "response_format": {"type": "object", "properties": {"passed": {"type": "boolean"}}, "required": ["passed"]}}}  # fmt: skip
REFUSED = [
    (
        lambda: batch.scorer(CHECKS[:1])(pyarrow.table({"question": ["q"], "output": ["a"]})),
        "expected a column `id`",
    ),
    (lambda: batch.scorer([[{"contains": "a"}]]), "expected one list of checks for all rows"),
    (lambda: batch.scorer(None), "expected one list of checks for all rows"),
    (lambda: batch.scorer(CHECKS[:1], tasks=0), "tasks: expected a whole number above 0, got 0"),
    (lambda: batch.scorer(CHECKS[:1], by=3), "by: expected the name of a member"),
    (lambda: batch.scorer(CHECKS[:1])([1]), "expected a RecordBatch, a table or a data frame"),
    (lambda: batch.scorer([{"contain": "a"}]), "contains"),
    (lambda: batch.scorer([JUDGE]), "tasks: expected the number of scorers that run at the same time"),
]


@pytest.mark.parametrize(("act", "message"), REFUSED)
def test_a_scorer_refuses(monkeypatch, act, message):
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    with pytest.raises((InvalidRequest, UsageError), match=message):
        act()


def test_a_judge_has_the_share_of_one_task(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    assert batch.scorer([JUDGE], tasks=4).schema.names[0] == "id"


def test_a_scorer_crosses_processes_as_its_checks(tmp_path):
    """In a process that has nothing of this one, with the limits of the process that made it."""
    program = (
        "import pickle, sys, pyarrow\n"
        "score, table = pickle.load(sys.stdin.buffer)\n"
        "sys.stdout.buffer.write(pickle.dumps(score(table)))\n"
    )
    score, table = batch.scorer(CHECKS[:3], columns=MAP), table_of(ROWS_OF_KINDS)
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps((score, table)),
        capture_output=True,
        cwd=tmp_path,
        check=True,
    )
    assert pickle.loads(done.stdout) == score(table)
    assert len(pickle.dumps(score)) < 2_000


def test_the_package_loads_no_arrow_before_it_is_used():
    code = "import sys, assay.batch; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=Path.cwd()).returncode == 0
