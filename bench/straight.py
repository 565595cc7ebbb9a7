"""
The anchor if the fixed one does not exist: the fastest straightforward Python for the first workload.

It decodes a line, asks the four questions in plain code, builds the result and encodes it.
"""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from bench.workload import CHECKS, LEAST, PATTERN, PHRASES

BATCH = 512


class Result(Struct):
    check_type: str
    status: str
    results: dict[str, bool]
    resolved_arguments: dict[str, Any]
    evaluated_at: datetime
    metadata: dict[str, str]


class Case(Struct):
    status: str
    execution_context: Any
    check_results: list[Result]
    summary: dict[str, int]


VERSION = {"check_version": "1.0.0"}
SUMMARY = {"total_checks": 4, "completed_checks": 4, "error_checks": 0, "skipped_checks": 0}
ANSWERS = {True: {"passed": True}, False: {"passed": False}}
ON, OFF = {"value": True}, {"value": False}
FLAGS = {"value": {"case_insensitive": False, "multiline": False, "dot_all": False}}
SHOWN_PHRASES, SHOWN_PATTERN, SHOWN_LEAST = {"value": PHRASES}, {"value": PATTERN}, {"value": LEAST}
ACTUAL, EXPECTED, TEXT, _, CONFIDENCE = (
    path for check in CHECKS for path in check["arguments"].values() if str(path).startswith("$.")
)
found = re.compile(PATTERN).search


def exact_match(context: Any) -> tuple[bool, dict[str, Any]]:
    actual, expected = context["output"]["value"]["answer"], context["test_case"]["expected"]
    return actual == expected, {
        "actual": {"jsonpath": ACTUAL, "value": actual},
        "expected": {"jsonpath": EXPECTED, "value": expected},
        "negate": OFF,
        "case_sensitive": ON,
    }


def contains(context: Any) -> tuple[bool, dict[str, Any]]:
    text = context["output"]["value"]["text"]
    passed = True
    for phrase in PHRASES:
        if phrase not in text:
            passed = False
            break
    shown = {"jsonpath": TEXT, "value": text}
    return passed, {"text": shown, "phrases": SHOWN_PHRASES, "negate": OFF, "case_sensitive": ON}


def regex(context: Any) -> tuple[bool, dict[str, Any]]:
    text = context["output"]["value"]["text"]
    shown = {"jsonpath": TEXT, "value": text}
    return found(text) is not None, {"text": shown, "pattern": SHOWN_PATTERN, "negate": OFF, "flags": FLAGS}


def threshold(context: Any) -> tuple[bool, dict[str, Any]]:
    value = context["output"]["value"]["trace"]["quality"]["scores"]["confidence"]
    return value >= LEAST, {
        "value": {"jsonpath": CONFIDENCE, "value": value},
        "min_value": SHOWN_LEAST,
        "min_inclusive": ON,
        "max_inclusive": ON,
        "negate": OFF,
    }


QUESTIONS = [(ask.__name__, ask) for ask in (exact_match, contains, regex, threshold)]


def run(lines: Iterable[bytes], write: Callable[[bytes], object]) -> int:
    """Write all results and return the number of passed checks."""
    decode, encode, now = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode, datetime.now
    passed, batch = 0, list[bytes]()
    for line in lines:
        context = decode(line)
        results = list[Result]()
        for name, ask in QUESTIONS:
            answer, arguments = ask(context)
            passed += answer
            results.append(Result(name, "completed", ANSWERS[answer], arguments, now(UTC), VERSION))
        batch.append(encode(Case("completed", context, results, SUMMARY)))
        if len(batch) == BATCH:
            write(b"\n".join([*batch, b""]))
            batch.clear()
    write(b"\n".join([*batch, b""]) if batch else b"")
    return passed
