"""Rows of CSV. A cell that a spreadsheet would read as a formula gets an apostrophe in front, as OWASP recommends."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from assay.protocol.json_types import JSON, is_list, is_object
from assay.results.check_names import result_label
from assay.results.reasons import description_of, number_of, passed_of, reason_of, score_of
from assay.results.spending import cost_of_check

_FORMULA = re.compile(r"'*\s*[=+\-@＝＋－＠\t\r\n]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ORDINARY = "{[(_"  # a text that begins with one of these, with a letter or with a digit is not a formula


def escape_cell(value: object) -> object:
    """`'=1+1` for `=1+1`, and `''=1+1` for `'=1+1`: no two texts become one. Numbers are not changed."""
    if not isinstance(value, str) or not _FORMULA.match(value) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def encode_row(values: Iterable[object]) -> bytes:
    """One encoded row with its line end."""
    return encode_cells(values).encode() + b"\n"


def encode_cells(values: Iterable[object]) -> str:
    """
    Cells with commas between them, as `csv.writer` writes them: a test compares both.

    A part of a row that comes again is encoded once. A row of one empty cell is not written so.
    """
    return ",".join(
        [
            encode_text(value) if type(value) is str else "" if value is None else str(escape_cell(value))
            for value in values
        ]
    )


def encode_text(text: str) -> str:
    """One cell with a text."""
    first = text[:1]
    if not first.isalnum() and first not in _ORDINARY:
        text = str(escape_cell(text))
    if '"' in text:
        doubled = text.replace('"', '""')
        return f'"{doubled}"'
    return f'"{text}"' if "," in text or "\n" in text or "\r" in text else text


def cell_of(value: Any) -> Any:
    """A scalar as it is; anything else as JSON, which can be grouped."""
    return _encode(value).decode() if is_list(value) or is_object(value) else value


# Results as a table: one row for each check of each case. CSV, XLSX, Parquet and `to_pandas` have the same
# columns, after those of the user's table (`table_layout`).

COLUMNS: dict[str, type] = {
    "test_case_id": str,
    "output_id": str,
    "trial": int,
    "check": int,  # its number in the case, from 0
    "check_name": str,
    "check_type": str,
    "status": str,
    "passed": bool,
    "score": float,
    "reason": str,
    "input": str,
    "output": str,
    "expected": str,
    "tags": str,
    "cost_usd": float,  # of the output
    "latency_ms": float,  # of the output
    "check_cost_usd": float,
    "check_ms": float,
    "results": str,
    "error_type": str,
    "error_message": str,
}
Row = tuple[Any, ...]  # None: no value
_encode = msgspec.json.Encoder().encode


def about_of(output: JSON) -> JSON:
    """The metadata of an output."""
    metadata = output.get("metadata")
    return metadata if is_object(metadata) else {}


def trial_of(about: JSON) -> int | None:
    """The number of the trial, from the metadata of an output."""
    trial = about.get("trial")
    return trial if type(trial) is int and abs(trial) < 1 << 62 else None


def case_parts(case: JSON, output: JSON, about: JSON) -> tuple[Row, Row]:
    """The columns that all rows of a case share: the first ones, and those from `input` to `latency_ms`."""
    first = case.get("id"), output.get("id"), trial_of(about)
    shared = (
        text_of(case["input"]) if "input" in case else None,
        text_of(output["value"]) if "value" in output else None,
        text_of(case["expected"]) if "expected" in case else None,
        tags_of(case),
        number_of(about.get("cost_usd")),
        number_of(about.get("latency_ms")),
    )
    return first, shared


def plain_verdict(check: JSON) -> bool | None:
    """
    The verdict of a completed check that has nothing but a verdict: no score, cost, time, name or explanation. None: it
    has more.
    """
    results, metadata = check["results"], check.get("metadata")
    if len(results) != 1 or metadata is None or len(metadata) != 1 or "check_version" not in metadata:
        return None
    passed = results.get("passed")
    return (
        passed if type(passed) is bool and check["status"] == "completed" and "error" not in check else None
    )


def plain_reason(check: JSON, output: JSON, about: JSON, passed: bool) -> str:
    """The reason of such a check."""
    if passed or output.get("value") is not None:
        return description_of(check, passed)
    return _reason(check, output, about, passed)


def check_parts(at: int, check: JSON, output: JSON, about: JSON, case: JSON | None = None) -> tuple[Row, Row]:
    """The columns of a check before the shared ones, and those after them."""
    results, passed = check["results"], passed_of(check)
    reason = _reason(check, output, about, passed, case)
    error = check.get("error", {})
    left = at, result_label(check), check["check_type"], check["status"], passed, score_of(check), reason
    spent = number_of(check.get("metadata", {}).get("execution_time_ms"))
    text = _encode(results).decode() if results else None
    return left, (
        cost_of_check(check["results"], check.get("metadata")),
        spent,
        text,
        error.get("type"),
        error.get("message"),
    )


def _reason(check: JSON, output: JSON, about: JSON, passed: bool | None, case: JSON | None = None) -> str:
    """The reason of a check. If it failed because the agent had no answer, the agent's error is first."""
    reason = reason_of(check, case)
    if passed is not False or check["status"] != "completed" or output.get("value") is not None:
        return reason
    error, outcome = about.get("error"), about.get("outcome")
    if not isinstance(error, str) or outcome not in ("failed", "refused") or error in reason:
        return reason
    return f"the agent {outcome}: {error}; {reason}"


def csv_cell(value: Any) -> Any:
    """A cell of CSV: a whole number without a fraction, and true or false in lower case."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return str(value).lower() if isinstance(value, bool) else value


def text_of(value: Any) -> str:
    """A text as it is; any other value as JSON."""
    return value if isinstance(value, str) else _encode(value).decode()


def tags_of(case: JSON) -> str | None:
    """The tags of a case, from `metadata.tags` or `tags`: a text, or a list joined with commas."""
    metadata = case.get("metadata")
    tags = metadata.get("tags") if is_object(metadata) else None
    tags = case.get("tags") if tags is None else tags
    if tags is None:
        return None
    if not is_list(tags):
        return text_of(tags)
    try:
        return ", ".join(tags)
    except TypeError:
        return ", ".join(map(text_of, tags))
