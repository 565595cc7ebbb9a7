"""Rows of CSV: the form that encodes shared cells once writes the bytes of the plain one, and those of `csv.writer`."""

import csv
import io
import json

from hypothesis import given
from hypothesis import strategies as st

from assay.fep.outputs.result_tables import csv_cell, encode_cells, escape_cell
from assay.fep.outputs.table_layout import TableLayout
from assay.fep.outputs.table_sinks import csv_rows

texts = st.text(st.sampled_from('ab=+-@",;\r\n\t 1.é＝'), max_size=8)
cells = texts | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none()


def by_writer(values):
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow([escape_cell(value) for value in values])
    return text.getvalue().removesuffix("\r\n")


@given(st.lists(cells, min_size=2, max_size=6))
def test_law_cells_are_those_of_the_csv_writer(values):
    assert encode_cells(values) == by_writer(values)


values = texts | st.integers(-3, 3) | st.booleans() | st.none() | st.lists(texts, max_size=2)
members = st.dictionaries(
    st.sampled_from(["text", "phrases", "actual", "expected", "negate", "value"]), values
)
results = st.one_of(
    st.just({"passed": True}), st.just({"passed": False}), st.just({}),
    st.fixed_dictionaries({"passed": st.booleans(), "score": st.integers(0, 2) | st.just("high")}),
    st.fixed_dictionaries({"reason": texts}), st.just({"passed": None}),
    st.fixed_dictionaries({"response": st.just({"passed": True}) | texts, "metadata": st.just({"cost_usd": 0.5})}),
)  # fmt: skip
metadata = st.one_of(
    st.just({"check_version": "1.0.0"}), st.just({"check_name": "=mine"}),
    st.fixed_dictionaries({"check_version": st.just("1"), "execution_time_ms": st.floats(0, 9), "check_name": texts}),
    st.fixed_dictionaries({"check_version": st.just("1"), "reason": texts}),
)  # fmt: skip
checks = st.fixed_dictionaries(
    {
        "check_type": st.sampled_from(["contains", "exact_match", "exists", "my,own", "=type"]),
        "status": st.sampled_from(["completed", "completed", "error", "skip"]),
        "results": results,
        "evaluated_at": st.just("2026-07-01T00:00:00Z"),
    },
    optional={
        "metadata": metadata,
        "resolved_arguments": members.map(lambda some: {name: {"value": one} for name, one in some.items()}),
        "error": st.fixed_dictionaries({"type": texts, "message": texts}),
    },
)
outputs = st.fixed_dictionaries(
    {},
    optional={
        "id": texts,
        "value": values,
        "metadata": st.fixed_dictionaries({}, optional={
            "trial": st.integers(1, 3), "cost_usd": st.floats(0, 1), "latency_ms": st.integers(0, 9),
            "outcome": st.sampled_from(["failed", "refused"]), "error": texts,
        }),
    },
)  # fmt: skip
cases = st.fixed_dictionaries({"id": texts, "input": values}, optional={"expected": values, "tags": values})


tables = st.lists(
    st.sampled_from([
        ("question", ["test_case", "input"]), ("input", ["test_case", "input"]), ("output", ["output", "value"]),
        ("tags", ["test_case", "tags"]), ("Tags", ["test_case", "tags"]), ("trial", ["output", "metadata", "error"]),
        ("=id", ["test_case", "id"]), ("a:json", ["test_case", "expected"]), ("run", ["test_case", "none"]),
    ]),
    unique_by=lambda column: column[0],
)  # fmt: skip


@given(cases, outputs, st.lists(checks, max_size=4), tables.map(dict).map(TableLayout))
def test_law_rows_are_the_same_whether_cells_are_shared_or_not(case, output, made, layout):
    result = {"execution_context": {"test_case": case, "output": output}, "check_results": made}
    result = json.loads(json.dumps(result))
    rows = list(layout.rows(result))
    assert [row.removesuffix("\n") for row in csv_rows(result, layout)] == [
        f"{by_writer(map(csv_cell, row))}," for row in rows
    ]
    assert all(len(row) == len(layout.columns) for row in rows)
    assert len({*layout.columns}) == len(layout.columns)
