"""A context, one test case with its output (FEP 2.3.1): read from a line, or made from what a caller holds."""

import re
from typing import Any

import msgspec
from msgspec import Struct

from assay.errors import Problem
from assay.fep.error_paths import deepest, joined, not_encoded, not_finite
from assay.ports import Limits
from assay.protocol import json_types as values
from assay.protocol.evaluation import Check
from assay.protocol.json_types import depth, is_list, is_object
from assay.protocol.validation_messages import is_number_too_large, number_too_large, problems_in

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_checks = msgspec.json.Decoder(list[Check])
_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]"
)


class Context(Struct, frozen=True):
    """The bytes that go into the result as they came, the same decoded, and the case's own checks if it has any."""

    line: bytes
    document: dict[str, Any]
    checks: list[Check] | None = None


class NotAContext(Exception):
    """Everything that keeps a line from being a context. `checks`: the case's own, as the caller wrote them."""

    def __init__(self, problems: list[Problem], checks: Any = None) -> None:
        self.problems, self.checks = problems, checks
        super().__init__("; ".join(map(str, problems)))


def read_context(line: bytes, limits: Limits) -> Context:
    """One line, `{"test_case": …, "output": …}`, without the space around it."""
    if len(line) > limits.max_line_bytes:
        raise NotAContext([Problem("", too_long(limits))])
    try:
        document = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise NotAContext([Problem("", not_json(line, wrong))]) from None
    return context_of(line, document, limits)


def context_of(line: bytes, document: Any, limits: Limits) -> Context:
    """The same, from a line that was decoded already."""
    if maybe_deep(line, limits) and depth(document) > limits.max_depth:
        raise NotAContext([Problem(joined("", deepest(document, 2)), too_deep(limits))])
    try:
        case, output = document["test_case"], document["output"]
        usual = (
            len(document) == 2
            and type(case["id"]) is str
            and case["id"] != ""
            and "input" in case
            and "checks" not in case
            and "value" in output
            and type(output.get("id", "-")) is str
            and output.get("id") != ""
            and type(case.get("metadata", _NONE)) is dict
            and type(output.get("metadata", _NONE)) is dict
        )
    except (KeyError, TypeError, AttributeError):
        usual = False
    return Context(line, document) if usual else _unusual(line, document)


_NONE: dict[str, Any] = {}
CONTAINERS: Any = (dict, list)


def _unusual(line: bytes, document: Any) -> Context:
    """A context with checks of its own, or none at all."""
    if not is_object(document):
        raise NotAContext(
            [Problem("", f"expected an object with test_case and output, got {kind_of(document)}")]
        )
    problems = [
        Problem(name, "a context holds test_case and output and nothing else")
        for name in document
        if name not in ("test_case", "output")
    ]
    case, output = document.get("test_case", _ABSENT), document.get("output", _ABSENT)
    fewer = without_nulls(case, OPTIONAL_OF_CASE) | without_nulls(output, OPTIONAL_OF_OUTPUT)
    written = case.get("checks") if is_object(case) else None
    checks, wrong = own_checks(case, "test_case")
    problems += problems_of_case(case, "test_case") + wrong + problems_of_output(output, "output")
    if problems:
        raise NotAContext(problems, written)
    return Context(_encode(document) if fewer or checks is not None else line, document, checks)


_ABSENT: Any = object()
OPTIONAL_OF_CASE, OPTIONAL_OF_OUTPUT = ("metadata", "checks"), ("id", "metadata")


def without_nulls(members: Any, optional: tuple[str, ...]) -> bool:
    """Optional members that are null are as if absent (decision 44); whether there was one."""
    if not is_object(members):
        return False
    empty = [name for name in optional if name in members and members[name] is None]
    for name in empty:
        del members[name]
    return bool(empty)


def own_checks(case: Any, place: str) -> tuple[list[Check] | None, list[Problem]]:
    """The checks that a case brings, which are then no longer in it (decision 11)."""
    if not is_object(case) or "checks" not in case:
        return None, []
    return read_checks(case.pop("checks"), f"{place}.checks")


def problems_of_case(case: Any, place: str) -> list[Problem]:
    if not is_object(case):
        return [_expected_kind(place, "an object with id and input", case)]
    members: dict[str, Any] = case
    return [
        *_text(members, "id", place, required=True),
        *([] if "input" in members else [_expected_kind(f"{place}.input", "any JSON value", _ABSENT)]),
        *_metadata(members, place),
    ]


def problems_of_output(output: Any, place: str) -> list[Problem]:
    if not is_object(output):
        return [_expected_kind(place, "an object with value", output)]
    members: dict[str, Any] = output
    return [
        *_text(members, "id", place, required=False),
        *([] if "value" in members else [_expected_kind(f"{place}.value", "any JSON value", _ABSENT)]),
        *_metadata(members, place),
    ]


def read_checks(given: Any, place: str) -> tuple[list[Check], list[Problem]]:
    """A list of checks, each problem with its place; msgspec stops at the first, so one check at a time."""
    if not is_list(given):
        return [], [_expected_kind(place, "a list of checks", given)]
    try:
        return msgspec.convert(given, list[Check]), []
    except msgspec.ValidationError:
        pass  # one at a time then, to tell all that is wrong
    checks: list[Check] = []
    problems: list[Problem] = []
    for at, one in enumerate(given):
        said = one
        if (
            is_object(one) and one.get("metadata", _ABSENT) is None
        ):  # as the reference implementation writes it
            said = {name: value for name, value in one.items() if name != "metadata"}
        if wrong := problems_in(said, Check, f"{place}[{at}]"):
            problems += wrong
        else:
            checks.append(msgspec.convert(said, Check))
    return checks, problems


def to_json_document(value: Any, place: str, limits: Limits) -> tuple[Any, bytes, list[Problem]]:
    """A value as JSON has it: tuples become lists, structs objects. What JSON does not have is refused."""
    try:
        encoded = _encode(value)
        # NaN and infinity are written as null: look for them where a null was written
        if b"null" in encoded and (number := not_finite(msgspec.to_builtins(value))) is not None:
            return None, b"", [Problem(joined(place, number), "NaN and infinity are no JSON numbers")]
        document = _decode(encoded)
    except (TypeError, ValueError, OverflowError, msgspec.DecodeError) as wrong:
        return None, b"", [Problem(joined(place, not_encoded(value)), f"not JSON: {wrong}")]
    except RecursionError:
        return None, b"", [Problem(joined(place, not_encoded(value)), "nested too deeply, or inside itself")]
    if maybe_deep(encoded, limits) and depth(document) > limits.max_depth:
        return None, b"", [Problem(joined(place, deepest(document, 1)), too_deep(limits))]
    return document, encoded, []


def maybe_deep(encoded: bytes, limits: Limits) -> bool:
    """What is nested so deep has two brackets a level: most documents need not be looked at."""
    most = limits.max_depth
    return len(encoded) > 2 * most and encoded.count(b"{") + encoded.count(b"[") > most


def kind_of(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    return values.kind_of(value)


def _expected_kind(place: str, what: str, got: Any) -> Problem:
    return Problem(place, f"expected {what}, got {kind_of(got)}")


def _text(members: dict[str, Any], name: str, place: str, *, required: bool) -> list[Problem]:
    value = members.get(name, _ABSENT)
    if value == "":
        return [Problem(f"{place}.{name}", "expected a string that is not empty, got an empty one")]
    if isinstance(value, str) or (value is _ABSENT and not required):
        return []
    return [_expected_kind(f"{place}.{name}", "a string", value)]


def _metadata(members: dict[str, Any], place: str) -> list[Problem]:
    value = members.get("metadata", _NONE)
    return [] if is_object(value) else [_expected_kind(f"{place}.metadata", "an object", value)]


def too_long(limits: Limits) -> str:
    return (
        f"longer than {limits.max_line_bytes} bytes, which is the limit for a line"
        " (raise it with ASSAY_MAX_LINE_BYTES)"
    )


def too_deep(limits: Limits) -> str:
    return f"nested more than {limits.max_depth} deep, which is the limit (raise it with ASSAY_MAX_DEPTH)"


def not_json(line: bytes, wrong: Exception) -> str:
    if isinstance(wrong, RecursionError):
        return "nested too deeply to be read"
    try:
        line.decode()
    except UnicodeDecodeError as bad:
        return f"not UTF-8 (byte {bad.start})"
    if is_number_too_large(wrong):
        return f"a number is too large: {number_too_large(line)}"
    lone = _SURROGATE.search(line)
    if lone is not None and "truncated" in str(wrong):
        return f"a lone surrogate, {line[lone.start() : lone.start() + 6].decode()}, is no character (byte {lone.start()})"
    return f"not JSON: {str(wrong).removeprefix('JSON is malformed: ').lower()}"
