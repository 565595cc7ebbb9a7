"""
Reads result files line by line: JSON lines, an EvaluationRunResult, a list of results, an EvalSummary, or a table.

The `.json` files of assay have one result a line, and are read as a stream. Other `.json` files are read as a whole.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from assay.comparison.result_line import EXPECTED
from assay.comparison.run_scores import RunScores
from assay.errors import BadLine, InvalidRequest, Problem, UsageError
from assay.extras import require
from assay.fep.outputs.result_tables import COLUMNS, escape_cell
from assay.inputs.context import to_json_document
from assay.inputs.files import FORMATS, SourceItem, document_of, format_of, lines_of, open_file, read_items
from assay.inputs.frames import DataFrame, columns_of, rows_of
from assay.ports import Limits
from assay.protocol.agent_evals import EvalSummary
from assay.protocol.duplicates import TWICE, duplicate_in, duplicate_member
from assay.protocol.json_types import JSON, is_list, is_object, kind_of
from assay.results.run_end import MEMBER, PARQUET_KEY, RunEnd, end_in, end_of_line, end_of_text

FIRST_LINE = b'{"results":['
READABLE = ".json, .jsonl, .ndjson, .csv or .parquet, or one of these and .gz"


def is_file(reference: str) -> bool:
    """Whether a reference names a file: it exists, or looks like the name of a file. Anything else is a run."""
    if "/" in reference or Path(reference).is_file():
        return True
    return Path(reference.lower().removesuffix(".gz")).suffix in {*FORMATS, ".xlsx"}


def lines_in(name: str, limits: Limits, scores: RunScores | None = None) -> Iterator[tuple[str, bytes]]:
    """The result lines of a file, each with its place. The tasks of a scorecard are added to `scores`."""
    plain = name.lower().removesuffix(".gz")
    if plain.endswith(SUFFIXES):
        yield from _table_lines(name, limits, scores)
        return
    if not plain.endswith((".json", ".jsonl", ".ndjson")):
        raise UsageError(
            f"{name}: expected results in {READABLE}; `assay evaluate -o results.jsonl` writes them"
        )
    form, compressed = format_of(name, "jsonl")
    with open_file(name, compressed=compressed) as file:
        numbered = ((f"{name}:{number}", line) for number, line, _ in lines_of(file, limits))
        first = next(numbered, None)
        if form == "jsonl":
            if first is not None:
                yield from _json_lines(first, numbered, scores)
            return
        if first is not None and first[1] == FIRST_LINE:
            yield from _streamed(name, numbered, scores)
            return
    yield from document_lines(name, document_of(name, limits), scores)


def _json_lines(
    first: tuple[str, bytes], others: Iterator[tuple[str, bytes]], scores: RunScores | None
) -> Iterator[tuple[str, bytes]]:
    """The lines. A last one that is cut off is not read: the run did not end."""
    held = first
    for one in others:
        yield _accepted(held, scores)
        held = one
    if not held[1].endswith(b"}"):
        if scores is not None:
            scores.incomplete = "its last line is cut off"
        return
    yield _accepted(held, scores)
    end = end_of_line(held[1])
    if end is not None and scores is not None and end.results != scores.rows:
        end = None  # other lines were added or removed
    _note_end(scores, end)


def _accepted(numbered: tuple[str, bytes], scores: RunScores | None) -> tuple[str, bytes]:
    """The line, if no object in it has a member twice. Without `scores` it was accepted before."""
    if scores is not None:
        place, line = numbered
        try:
            twice = duplicate_in(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return numbered  # refused by its reader
        if twice is not None:
            raise InvalidRequest(Problem(f"{place}: {twice}", TWICE))
    return numbered


def _note_end(scores: RunScores | None, end: RunEnd | None) -> None:
    if scores is None:
        return
    if end is None:
        scores.unknown_end = True
        return
    if end.part is not UNSET:
        scores.note_part(end.part)
    if not end.complete and (end.part is UNSET or end.results != end.planned):
        scores.incomplete = end.missing


def _streamed(
    name: str, numbered: Iterator[tuple[str, bytes]], scores: RunScores | None
) -> Iterator[tuple[str, bytes]]:
    """The lines of a file of `fep/outputs/sinks.py`: one result a line, then the other members of the run."""
    for place, line in numbered:
        if line.startswith(b"]"):
            if scores is not None:
                _read_status(scores, line.removeprefix(b"]").removeprefix(b","), place)
            return
        yield _accepted((place, line.removesuffix(b",")), scores)
    if scores is not None:
        scores.incomplete = "the file ends before its results do"


def _read_status(scores: RunScores, rest: bytes, place: str) -> None:
    try:
        footer = msgspec.json.decode(b"{" + rest)
        twice = duplicate_member(b"{" + rest, footer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidRequest(Problem(place, f"not JSON: {wrong}")) from None
    if twice is not None:
        raise InvalidRequest(Problem(f"{place}: {twice}", TWICE))
    _note_status(scores, footer)


def _note_status(scores: RunScores, run: JSON) -> None:
    """A run with the status `error` has unmeasured cases, or ended early: it has fewer results than counts."""
    _note_end(scores, end_in(run.get("metadata")))
    summary = run.get("summary")
    total = summary.get("total_test_cases") if is_object(summary) else None
    if isinstance(total, int) and total > scores.rows:
        scores.incomplete = f"it has {scores.rows:,} of {total:,} results"


def document_lines(name: str, document: Any, scores: RunScores | None) -> Iterator[tuple[str, bytes]]:
    """The results in a document: an EvaluationRunResult, an EvalSummary or a list. A result may be a struct."""
    if is_object(document) and "suiteId" in document and "tasks" in document:
        _add_summary(name, document, scores)
        return
    results = document.get("results") if is_object(document) else document
    if not is_list(results):
        wanted = f"{EXPECTED}, an EvaluationRunResult or an EvalSummary"
        raise InvalidRequest(Problem(name, f"{wanted}, got {kind_of(document)} without a list of results"))
    for at, one in enumerate(results):
        yield f"{name}: results[{at}]", msgspec.json.encode(one)
    if is_object(document) and scores is not None:
        _note_status(scores, document)
    elif scores is not None:
        scores.unknown_end = True


def _add_summary(name: str, document: JSON, scores: RunScores | None) -> None:
    try:
        summary = msgspec.convert(document, EvalSummary)
    except msgspec.ValidationError as wrong:
        raise InvalidRequest(Problem(name, f"expected an EvalSummary: {wrong}")) from None
    if scores is None:
        return
    scores.is_eval, scores.own_verdict = True, summary.passed
    for task in summary.tasks:
        scores.add_score(task.task_id, task.score, task.passed)
        for finding in task.safety_findings or ():
            scores.add_finding(task.task_id, finding.kind, finding.severity)
    if len(summary.tasks) < summary.task_count:
        scores.incomplete = f"it has {len(summary.tasks):,} of {summary.task_count:,} tasks"


# Reads tables of results, `.csv` and `.parquet`, as `assay evaluate -o` and `assay export` write them: one row
# for each check.

SUFFIXES = (".csv", ".parquet")
NEEDED = ("test_case_id", "check", "check_type", "status", "results")
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def _table_lines(name: str, limits: Limits, scores: RunScores | None) -> Iterator[tuple[str, bytes]]:
    """The results in a file. The last row, or the file itself, says whether the run is complete."""
    end = _end_of_parquet(name) if name.lower().endswith(".parquet") else None

    def rows() -> Iterator[tuple[str, JSON]]:
        nonlocal end
        for item in read_items(name, limits, flat=True):
            row = _row_of(item)
            if MEMBER in item.columns:
                end = end_of_text(cell_text(row.get(MEMBER, "")))
            yield item.location, row

    try:
        yield from row_lines(rows())
    except BadLine as bad:
        raise InvalidRequest(bad.problems) from None
    _note_end(scores, end)


def row_lines(rows: Iterable[tuple[str, JSON]]) -> Iterator[tuple[str, bytes]]:
    """
    The results in the rows of a table, each with the place of its first row, encoded as TestCaseResults.

    Rows of one result follow each other.
    """
    place, result, last = "", None, None
    for location, row in rows:
        key, at = (row.get("test_case_id"), row.get("output_id"), row.get("trial")), _number(row.get("check"))
        if at is None:
            raise InvalidRequest(Problem(location, "check: expected the number of the check in its case"))
        if result is None or last is None or key != last[0] or at <= last[1]:
            if result is not None:
                yield place, msgspec.json.encode(result)
            place, result = location, _result_of(row)
        check = _check_of(row, location)
        result["check_results"].append(check)
        if check["status"] != "completed" and result["status"] != "error":
            result["status"] = check["status"]
        last = key, at
    if result is not None:
        yield place, msgspec.json.encode(result)


def frame_lines(
    name: str, frame: DataFrame, limits: Limits, scores: RunScores | None
) -> Iterator[tuple[str, bytes]]:
    """The results in a data frame, as `to_pandas` makes it. Nothing in it says whether the run is complete."""
    if missing := [column for column in NEEDED if column not in columns_of(frame, name)]:
        raise InvalidRequest(Problem(name, _not_results(missing)))
    yield from row_lines(_frame_rows(name, frame, limits))
    if scores is not None:
        scores.unknown_end = True


def _frame_rows(name: str, frame: DataFrame, limits: Limits) -> Iterator[tuple[str, JSON]]:
    """The rows. A frame in another order is refused: the checks of a case would be read as its trials."""
    ends: dict[tuple[Any, ...], Any] = {}  # the last check of each result
    previous: tuple[Any, ...] = ()
    for at, cells in enumerate(rows_of(frame, name, flat=True)):
        row, _, problems = to_json_document(cells.row, f"{name}: row {at}", limits)
        if problems:
            raise InvalidRequest(problems)
        key, check = (
            (row.get("test_case_id"), row.get("output_id"), row.get("trial")),
            _number(row.get("check")),
        )
        if key != previous and check is not None and check > ends.get(key, check):
            message = (
                f"the checks of case {key[0]!r} are apart: expected the rows of a result one after another"
            )
            raise InvalidRequest(Problem(f"{name}: row {at}", message))
        ends[key], previous = check, key
        yield f"{name}: row {at}", row


def _row_of(item: SourceItem) -> JSON:
    missing = [column for column in NEEDED if column not in item.columns]
    if missing:
        raise InvalidRequest(Problem(item.location, _not_results(missing)))
    if item.problems:
        raise BadLine(item.location, item.problems)
    return msgspec.json.decode(item.raw)


def _end_of_parquet(name: str) -> RunEnd | None:
    require(name, "tables", package="pyarrow")
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    try:
        found: dict[bytes, bytes] = parquet.read_metadata(name).metadata or {}
    except (OSError, arrow.ArrowException):  # the refusal of a file that cannot be read comes with its rows
        return None
    return end_of_text(found.get(PARQUET_KEY, b""))


def _not_results(missing: list[str]) -> str:
    return (
        f"expected a table of results as `assay evaluate -o` writes it, but there is no column {', '.join(missing)};"
        " a .jsonl file of the results can be compared too"
    )


def _result_of(row: JSON) -> JSON:
    """A result without its checks. A column that is not one of a result is a member of the case, or of what it says."""
    case: JSON = {"id": cell_text(row.get("test_case_id"))}
    case |= {name: _value(row[name]) for name in ("input", "expected") if name in row}
    numbers = {name: _number(row.get(name)) for name in ("trial", "cost_usd", "latency_ms")}
    metadata = {name: number for name, number in numbers.items() if number is not None}
    context: JSON = {"test_case": case, "output": {"value": row.get("output"), "metadata": metadata}}
    if tags := cell_text(row.get("tags")):
        case["metadata"] = {"tags": tags.split(", ")}
    for name, cell in row.items():
        if name not in COLUMNS and name != MEMBER:
            as_json = name.endswith(":json") and name.removesuffix(":json") not in row
            text = cell_text(cell) if isinstance(cell, str) else cell
            _add_member(context, cell_text(name), text, as_json=as_json)
    return {"status": "completed", "execution_context": context, "check_results": []}


def _add_member(context: JSON, column: str, value: Any, *, as_json: bool) -> None:
    """Add the cell of a user's column where a row of his table has it; under its whole name if that is taken."""
    if as_json and isinstance(value, str):
        column = column.removesuffix(":json")
        with suppress(msgspec.DecodeError, RecursionError):
            value = msgspec.json.decode(value)
    first, *inner = column.split(".")
    place, names = (
        (context, [first, *inner]) if first in context and inner else (context["test_case"], [first, *inner])
    )
    for name in names[:-1]:
        place = place.setdefault(name, {})
        if not is_object(place):
            context["test_case"].setdefault(column, value)
            return
    place.setdefault(names[-1], value)


def _check_of(row: JSON, location: str) -> JSON:
    metadata = {"check_name": cell_text(row.get("check_name") or row.get("check_type"))}
    if "reason" in row:
        metadata["reason"] = cell_text(row["reason"])
    return {
        "check_type": cell_text(row.get("check_type")),
        "status": row.get("status"),
        "results": _results(row.get("results", "{}"), location),
        "metadata": metadata,
        "error": {"type": cell_text(row.get("error_type")), "message": cell_text(row.get("error_message"))},
    }


def _results(text: Any, location: str) -> JSON:
    try:
        results = msgspec.json.decode(cell_text(text))
        twice = duplicate_member(cell_text(text).encode(), results, "results")
    except (msgspec.DecodeError, RecursionError) as wrong:
        raise InvalidRequest(Problem(location, f"results: expected a JSON object: {wrong}")) from None
    if twice is not None:
        raise InvalidRequest(Problem(f"{location}: {twice}", TWICE))
    if not is_object(results):
        raise InvalidRequest(Problem(location, "results: expected a JSON object"))
    return results


def cell_text(cell: Any) -> str:
    """The text of a cell, without the apostrophe in front of what looks like a formula."""
    text = "" if cell is None else str(cell)
    return text[1:] if text.startswith("'") and escape_cell(text[1:]) == text else text


def _value(cell: Any) -> Any:
    """A value as it was: an object or a list is JSON in a table."""
    text = cell_text(cell)
    if text[:1] not in ("{", "["):
        return text
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return value if is_object(value) or is_list(value) else text


def _number(cell: Any) -> float | int | None:
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return cell
    if not isinstance(cell, str) or not _NUMBER.fullmatch(cell):
        return None
    return float(cell) if any(one in cell for one in ".eE") else int(cell)
