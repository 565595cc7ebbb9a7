"""The second workload in hand-written code: a loop with its checks and paths built in, with the same results as `assay`."""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

BATCH = 512
Arguments = dict[str, Any]
Outcome = tuple[
    dict[str, Any], Arguments, str, str
]  # results, resolved arguments, type and message of an error


class Error(Struct):
    type: str
    message: str
    recoverable: bool = False


class Result(Struct):
    check_type: str
    status: str
    results: dict[str, Any]
    resolved_arguments: Arguments
    evaluated_at: datetime
    metadata: dict[str, Any]
    error: Error | UnsetType = UNSET


class Case(Struct):
    status: str
    execution_context: Any
    check_results: list[Result]
    summary: dict[str, int]


PASSED, FAILED = {"passed": True}, {"passed": False}
ON, OFF = {"value": True}, {"value": False}


def tool_budget(given: Arguments, context: Any) -> Outcome:
    steps = context["output"]["value"]["trace"]["steps"]
    tools, times = [step["tool"] for step in steps], [step["ms"] for step in steps]
    shown = {
        "tools": {"jsonpath": given["tools"], "value": tools},
        "times": {"jsonpath": given["times"], "value": times},
        "allowed": {"value": given["allowed"]},
        "most_ms": {"value": given["most_ms"]},
    }
    for ms in times:
        if type(ms) is not int:
            return {}, shown, "validation_error", f"times: expected `int` but got {ms!r}"
    spent = sum(times)
    if spent == 0:
        return {}, shown, "unknown_error", "tool_budget failed with ZeroDivisionError: division by zero"
    strange = set(tools) - set(given["allowed"])
    passed = not strange and spent <= given["most_ms"]
    return {"passed": passed, "slowest": max(times) / spent}, shown, "", ""


def contains(given: Arguments, context: Any) -> Outcome:
    shown = {"phrases": {"value": given["phrases"]}, "negate": OFF, "case_sensitive": ON}
    text = context["output"]["value"].get("text")
    if text is None:
        return {}, shown, "jsonpath_error", f"text: {given['text']} finds nothing"
    shown = {"text": {"jsonpath": given["text"], "value": text}, **shown}
    return PASSED if all(phrase in text for phrase in given["phrases"]) else FAILED, shown, "", ""


def has_items(given: Arguments, context: Any) -> Outcome:
    tools = [step["tool"] for step in context["output"]["value"]["trace"]["steps"][1:]]
    shown: Arguments = {
        "items": {"jsonpath": given["items"], "value": tools},
        "required_items": {"value": given["required_items"]},
        "forbidden_items": {"value": []},
        "ordered": OFF,
    }
    missing = [one for one in given["required_items"] if one not in tools]
    return {"passed": False, "missing": missing} if missing else PASSED, shown, "", ""


def exact_match(given: Arguments, context: Any) -> Outcome:
    actual, expected = context["output"]["value"]["answer"], context["test_case"]["goal"]
    shown = {
        "actual": {"jsonpath": given["actual"], "value": actual},
        "expected": {"jsonpath": given["expected"], "value": expected},
        "negate": OFF,
        "case_sensitive": ON,
    }
    return PASSED if actual == expected else FAILED, shown, "", ""


QUESTIONS: dict[str, Callable[[Arguments, Any], Outcome]] = {
    "tool_budget": tool_budget,
    "quick_tool_budget": tool_budget,
    "contains": contains,
    "has_items": has_items,
    "exact_match": exact_match,
}


def score(context: Any) -> Case:
    results = list[Result]()
    errors = 0
    for check in context["test_case"].pop("checks"):
        name, began = check["type"], time.perf_counter()
        answer, shown, wrong, message = QUESTIONS[name](check["arguments"], context)
        metadata: dict[str, Any] = {"check_version": "1.0.0"}
        if name == "tool_budget":
            metadata["execution_time_ms"] = round((time.perf_counter() - began) * 1000, 3)
        status, error = ("error", Error(wrong, message)) if wrong else ("completed", UNSET)
        errors += 1 if wrong else 0
        results.append(Result(name, status, answer, shown, datetime.now(UTC), metadata, error))
    summary = {
        "total_checks": len(results),
        "completed_checks": len(results) - errors,
        "error_checks": errors,
        "skipped_checks": 0,
    }
    return Case("error" if errors else "completed", context, results, summary)


def run(lines: Iterable[bytes], write: Callable[[bytes], object]) -> None:
    decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode
    batch = list[bytes]()
    for line in lines:
        batch.append(encode(score(decode(line))))
        if len(batch) == BATCH:
            write(b"\n".join([*batch, b""]))
            batch.clear()
    write(b"\n".join([*batch, b""]) if batch else b"")
