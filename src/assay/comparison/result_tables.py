"""
Reads tables of results, `.csv` and `.parquet`, as `assay evaluate -o` and `assay export` write them: one row for each
check.
"""

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import msgspec

from assay.errors import BadLine, InvalidRequest, Problem
from assay.extras import require
from assay.fep.outputs.result_tables import escape_cell
from assay.inputs.files import SourceItem, read_items
from assay.ports import Limits
from assay.protocol.duplicates import TWICE, duplicate_member
from assay.protocol.json_types import JSON, is_list, is_object
from assay.results.run_end import MEMBER, PARQUET_KEY, RunEnd, end_of_text

SUFFIXES = (".csv", ".parquet")
NEEDED = ("test_case_id", "check", "check_type", "status", "results")
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def table_lines(name: str, limits: Limits, end: list[RunEnd | None]) -> Iterator[tuple[str, bytes]]:
    """
    The results in a table, each with the place of its first row, encoded as TestCaseResults.

    Rows of one result follow each other.

    `end` receives what the last row, or the file, says about the end of the run.
    """
    place, result, last = "", None, None
    end.append(_end_of_parquet(name) if name.lower().endswith(".parquet") else None)
    try:
        for item in read_items(name, limits):
            row = _row_of(item)
            if MEMBER in item.columns:
                end[-1] = end_of_text(_text(row.get(MEMBER, "")))
            key, at = (
                (row.get("test_case_id"), row.get("output_id"), row.get("trial")),
                _number(row.get("check")),
            )
            if at is None:
                raise InvalidRequest(
                    Problem(item.location, "check: expected the number of the check in its case")
                )
            if result is None or last is None or key != last[0] or at <= last[1]:
                if result is not None:
                    yield place, msgspec.json.encode(result)
                place, result = item.location, _result_of(row)
            check = _check_of(row, item.location)
            result["check_results"].append(check)
            if check["status"] != "completed" and result["status"] != "error":
                result["status"] = check["status"]
            last = key, at
    except BadLine as bad:
        raise InvalidRequest(bad.problems) from None
    if result is not None:
        yield place, msgspec.json.encode(result)


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
    """A result without its checks. Metadata of the case, except its tags, is not in a table."""
    case: JSON = {"id": _text(row.get("test_case_id"))}
    case |= {name: _value(row[name]) for name in ("input", "expected") if name in row}
    if "tags" in row:
        case["metadata"] = {"tags": _text(row["tags"]).split(", ")}
    numbers = {name: _number(row.get(name)) for name in ("trial", "cost_usd", "latency_ms")}
    metadata = {name: number for name, number in numbers.items() if number is not None}
    return {
        "status": "completed",
        "execution_context": {
            "test_case": case,
            "output": {"value": row.get("output"), "metadata": metadata},
        },
        "check_results": [],
    }


def _check_of(row: JSON, location: str) -> JSON:
    metadata = {"check_name": _text(row.get("check_name") or row.get("check_type"))}
    if "reason" in row:
        metadata["reason"] = _text(row["reason"])
    return {
        "check_type": _text(row.get("check_type")),
        "status": row.get("status"),
        "results": _results(row.get("results", "{}"), location),
        "metadata": metadata,
        "error": {"type": _text(row.get("error_type")), "message": _text(row.get("error_message"))},
    }


def _results(text: Any, location: str) -> JSON:
    try:
        results = msgspec.json.decode(_text(text))
        twice = duplicate_member(_text(text).encode(), results, "results")
    except (msgspec.DecodeError, RecursionError) as wrong:
        raise InvalidRequest(Problem(location, f"results: expected a JSON object: {wrong}")) from None
    if twice is not None:
        raise InvalidRequest(Problem(f"{location}: {twice}", TWICE))
    if not is_object(results):
        raise InvalidRequest(Problem(location, "results: expected a JSON object"))
    return results


def _text(cell: Any) -> str:
    """The text of a cell, without the apostrophe in front of what looks like a formula."""
    text = "" if cell is None else str(cell)
    return text[1:] if text.startswith("'") and escape_cell(text[1:]) == text else text


def _value(cell: Any) -> Any:
    """A value as it was: an object or a list is JSON in a table."""
    text = _text(cell)
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
