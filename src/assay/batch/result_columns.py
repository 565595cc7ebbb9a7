"""The columns of results in Arrow: one row for each row of the input, and one struct for each check."""

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

import msgspec
from msgspec import Struct

from assay.errors import Problem
from assay.fep.outputs.csv_rows import CompiledCheck
from assay.fep.outputs.result_tables import Row, about_of, case_parts, check_parts, trial_of
from assay.fep.planning.compiled_scorer import CompiledChecks
from assay.fep.planning.scorer import CompiledCase, ScoredCase
from assay.fep.planning.source_builder import NO, YES, ScoredParts
from assay.protocol.json_types import JSON
from assay.results.check_numbers import numbers_in
from assay.results.number_ranges import Ranges
from assay.results.slices import Dimension

_decode = msgspec.json.Decoder().decode
CHECK_MEMBERS = ("status", "passed", "score", "reason", "numbers", "error_type", "error_message", "cost_usd")
CONTENT = ("input", "output", "expected")


class BatchLayout(Struct, frozen=True):
    """What the results hold beside their status: the checks by label, slices, and content if it is asked for."""

    labels: tuple[str, ...]
    ranges: Sequence[Ranges]  # of the numbers of each check
    dimensions: Sequence[Dimension]
    content: bool


def arrow_schema(layout: BatchLayout) -> Any:
    """The schema of the results. It depends on the checks and the options alone, never on a row."""
    pa: Any = import_module("pyarrow")
    check = _check_type(pa)
    fields = [
        ("id", pa.string()),
        ("trial", pa.int64()),
        ("status", pa.string()),
        ("problem", pa.string()),
        ("checks", pa.struct([(label, check) for label in layout.labels])),
    ]
    if layout.dimensions:
        names = [(one.name, pa.list_(pa.string())) for one in layout.dimensions]
        fields.append(("slices", pa.struct(names)))
    if layout.content:
        fields += [(name, pa.string()) for name in CONTENT]
    return pa.schema(fields)


def _check_type(pa: Any) -> Any:
    number = pa.struct(
        [("name", pa.string()), ("value", pa.float64()), ("low", pa.float64()), ("high", pa.float64())]
    )
    types = {
        "passed": pa.bool_(),
        "score": pa.float64(),
        "cost_usd": pa.float64(),
        "numbers": pa.list_(number),
    }
    return pa.struct([(name, types.get(name, pa.string())) for name in CHECK_MEMBERS])


class ResultColumns:
    """Collects the results of a batch in the order of its rows."""

    def __init__(self, layout: BatchLayout, dimensions: Sequence[Dimension]) -> None:
        """`dimensions`: those of the layout, as the columns of this batch are read."""
        self._layout, self._dimensions = layout, dimensions
        self._columns: dict[str, list[Any]] = {name: [] for name in ("id", "trial", "status", "problem")}
        self._checks: list[list[Row]] = [[] for _ in layout.labels]
        self._slices: list[list[list[str] | None]] = [[] for _ in dimensions]
        self._content: list[Row] = []
        self._compiled: tuple[CompiledChecks, CompiledRows] | None = None

    def add_case(self, scored: ScoredCase) -> None:
        """Add the result of the next row. One that compiled checks made is read without its JSON."""
        if isinstance(scored, CompiledCase) and scored.compiled.keeps_document:
            context = scored.context.document
            checks = self._compiled_rows(scored.compiled)(context, scored.parts)
        else:
            result = _decode(scored.line)
            context = result["execution_context"]
            about = about_of(context["output"])
            checks = [
                _check_row(check, ranges, context, about)
                for check, ranges in zip(result["check_results"], self._layout.ranges, strict=True)
            ]
        case, output = context["test_case"], context["output"]
        about = about_of(output)
        self._add_row(case["id"], trial_of(about), scored.status, None)
        for rows, row in zip(self._checks, checks, strict=True):
            rows.append(row)
        for values, one in zip(self._slices, self._dimensions, strict=True):
            values.append(one.slices_of(context))
        if self._layout.content:
            self._content.append(case_parts(case, output, about)[1][: len(CONTENT)])

    def _compiled_rows(self, compiled: CompiledChecks) -> "CompiledRows":
        if self._compiled is None or self._compiled[0] is not compiled:
            self._compiled = compiled, compiled_rows(compiled, self._layout.ranges)
        return self._compiled[1]

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Add a row that is not a case: it is not measured, and the reason stands in `problem`."""
        self._add_row(None, None, "error", "; ".join(map(str, problems)))
        for rows in self._checks:
            rows.append((None,) * len(CHECK_MEMBERS))
        for values in self._slices:
            values.append(None)
        if self._layout.content:
            self._content.append((None,) * len(CONTENT))

    def _add_row(self, *cells: Any) -> None:
        for values, cell in zip(self._columns.values(), cells, strict=True):
            values.append(cell)

    def record_batch(self, schema: Any) -> Any:
        """The results as a RecordBatch of this schema."""
        pa: Any = import_module("pyarrow")
        arrays = [pa.array(values, schema.field(name).type) for name, values in self._columns.items()]
        check = _check_type(pa)
        parts = [_struct(pa, _transposed(rows, len(CHECK_MEMBERS)), check) for rows in self._checks]
        count = len(self._columns["id"])
        arrays.append(
            _struct(pa, parts, schema.field("checks").type) if parts else pa.nulls(count, pa.struct([]))
        )
        if self._dimensions:
            kind = schema.field("slices").type
            arrays.append(_struct(pa, self._slices, kind))
        if self._layout.content:
            arrays += [pa.array(values, pa.string()) for values in _transposed(self._content, len(CONTENT))]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _struct(pa: Any, columns: Sequence[Any], kind: Any) -> Any:
    fields = [kind.field(at) for at in range(kind.num_fields)]
    arrays = [
        values if isinstance(values, pa.Array) else pa.array(values, field.type)
        for values, field in zip(columns, fields, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _transposed(rows: Sequence[Row], width: int) -> list[Sequence[Any]]:
    return list(zip(*rows, strict=True)) if rows else [[] for _ in range(width)]


def _check_row(check: JSON, ranges: Ranges, context: JSON, about: JSON) -> Row:
    """The cells of a check, from its result as JSON has it."""
    left, right = check_parts(0, check, context["output"], about, context["test_case"])
    (_, _, _, status, passed, score, reason), (cost, _, _, error_type, error_message) = left, right
    numbers = _numbers(check, ranges) if status == "completed" and passed is None else None
    return status, passed, score, reason, numbers, error_type, error_message, cost


CompiledRows = Callable[[JSON, ScoredParts], list[Row]]  # of a context and the parts of its result


def compiled_rows(compiled: CompiledChecks, ranges: Sequence[Ranges]) -> CompiledRows:
    """A function that makes the cells of every check from what compiled checks return."""
    indexes = compiled.argument_indexes
    rows = [
        _compiled_row(CompiledCheck(at, bound, None if indexes is None else indexes[at]), ranges[at])
        for at, bound in enumerate(compiled.checks)
    ]

    def read(context: JSON, parts: ScoredParts) -> list[Row]:
        values, answers, _ = parts
        return [row(context, values, answer) for row, answer in zip(rows, answers, strict=True)]

    return read


def _compiled_row(check: CompiledCheck, ranges: Ranges) -> Callable[[JSON, Sequence[Any], bytes], Row]:
    passes, fails = check.reason(passed=True), check.reason(passed=False)
    none = (None,) * (len(CHECK_MEMBERS) - 4)
    constant = ("completed", True, 1.0, passes, *none)

    def row(context: JSON, values: Sequence[Any], answer: bytes) -> Row:
        if answer is YES:
            return constant if isinstance(passes, str) else ("completed", True, 1.0, passes(values), *none)
        output = context["output"]
        if answer is NO and output["value"] is not None:  # else the reason may be the error of an agent
            return ("completed", False, 0.0, fails if isinstance(fails, str) else fails(values), *none)
        return _check_row(check.result(values, answer), ranges, context, about_of(output))

    return row


def _numbers(check: JSON, ranges: Ranges) -> list[dict[str, Any]]:
    """The numbers of a check without a verdict, each with the range that the check declares for it."""
    found: list[dict[str, Any]] = []
    for name, value in numbers_in(check["results"]):
        low, high = ranges.get(name, (None, None))
        found.append({"name": name, "value": value, "low": low, "high": high})
    return found
