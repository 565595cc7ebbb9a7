"""A context: one test case with its output (FEP 2.3.1), read from a line or built from the caller's objects."""

import re
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from assay.concurrency.loop_budget import spend
from assay.errors import MOST_PROBLEMS, Problem
from assay.inputs.cells import NOT_A_NUMBER
from assay.ports import Limits
from assay.protocol import json_types as values
from assay.protocol.duplicates import TWICE, duplicate_member
from assay.protocol.evaluation import Check
from assay.protocol.foreign_values import json_value
from assay.protocol.json_types import depth, is_finite, is_list, is_mapping, is_object
from assay.protocol.validation_messages import is_number_too_large, number_too_large, problems_in

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(enc_hook=json_value).encode
_checks = msgspec.json.Decoder(list[Check])
_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]"
)


class Context(Struct, frozen=True):
    """The bytes as the result repeats them, the decoded document, and the own checks of the case if it has some."""

    line: bytes
    document: dict[str, Any]
    checks: list[Check] | None = None


class NotAContext(Exception):
    """A line is not a context. `problems`: all reasons. `checks`: the case's own checks as they came."""

    def __init__(self, problems: list[Problem], checks: Any = None) -> None:
        self.problems, self.checks = problems, checks
        super().__init__("; ".join(map(str, problems)))


def read_context(line: bytes, limits: Limits) -> Context:
    """Read one line, `{"test_case": …, "output": …}`, without surrounding space."""
    if len(line) > limits.max_line_bytes:
        raise NotAContext([Problem("", too_long(limits))])
    try:
        document = _decode(line)
        twice = duplicate_member(line, document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise NotAContext([Problem("", not_json(line, wrong))]) from None
    if twice is not None:
        raise NotAContext([Problem(twice, TWICE)])
    return context_of(line, document, limits)


def stored_context(line: bytes, limits: Limits) -> Context:
    """Read a line that `read_context` accepted before it was stored."""
    return context_of(line, _decode(line), limits)


def context_of(line: bytes, document: Any, limits: Limits) -> Context:
    """`read_context` for a line that is already decoded."""
    if maybe_deep(line, limits) and depth(document) > limits.max_depth:
        raise NotAContext([Problem(join_path("", deepest_path(document, 2)), too_deep(limits))])
    return Context(line, document) if is_usual(document) else _read_unusual(line, document)


def is_usual(document: Any) -> bool:
    """Whether a document is a valid context without own checks and without nulls as optional members."""
    try:
        case, output = document["test_case"], document["output"]
        id, output_id = case["id"], output.get("id", "-")
        return (
            len(document) == 2
            and type(id) is str
            and id != ""
            and "input" in case
            and "checks" not in case
            and "value" in output
            and type(output_id) is str
            and output_id != ""
            and type(case.get("metadata", _NONE)) is dict
            and type(output.get("metadata", _NONE)) is dict
        )
    except (KeyError, TypeError, AttributeError):
        return False


_NONE: dict[str, Any] = {}
CONTAINERS: Any = (dict, list)


def _read_unusual(line: bytes, document: Any) -> Context:
    """Read a context with own checks or nulls; raise NotAContext with all problems of an invalid one."""
    if not is_object(document):
        raise NotAContext(
            [Problem("", f"expected an object with test_case and output, got {kind_of(document)}")]
        )
    problems = other_members(document)
    case, output = document.get("test_case", _ABSENT), document.get("output", _ABSENT)
    changed = remove_nulls(case, OPTIONAL_OF_CASE) | remove_nulls(output, OPTIONAL_OF_OUTPUT)
    original_checks = case.get("checks") if is_object(case) else None
    checks, check_problems = own_checks(case, "test_case")
    problems += problems_of_case(case, "test_case") + check_problems + problems_of_output(output, "output")
    if problems:
        raise NotAContext(problems, original_checks)
    return Context(_encode(document) if changed or checks is not None else line, document, checks)


def other_members(context: dict[str, Any]) -> list[Problem]:
    """The problems of the members that a context does not have."""
    unknown = (name for name in context if name not in ("test_case", "output"))
    return [
        Problem(str(name), "a context has no such member; it has test_case and output")
        for name in islice(unknown, MOST_PROBLEMS)
    ]


_ABSENT: Any = object()
OPTIONAL_OF_CASE, OPTIONAL_OF_OUTPUT = ("metadata", "checks"), ("id", "metadata")


def remove_nulls(members: Any, optional: tuple[str, ...]) -> bool:
    """Delete optional members that are null (FEP-44). Returns whether there was one."""
    if not is_object(members):
        return False
    empty = [name for name in optional if name in members and members[name] is None]
    for name in empty:
        del members[name]
    return bool(empty)


def own_checks(case: Any, path: str) -> tuple[list[Check] | None, list[Problem]]:
    """Take the own checks out of a case (FEP-11). Returns them and their problems."""
    if not is_object(case) or "checks" not in case:
        return None, []
    return read_checks(case.pop("checks"), f"{path}.checks")


def problems_of_case(case: Any, path: str) -> list[Problem]:
    if not is_object(case):
        return [_type_problem(path, "an object with id and input", case)]
    members: dict[str, Any] = case
    return [
        *_text(members, "id", path, required=True),
        *([] if "input" in members else [_type_problem(f"{path}.input", "any JSON value", _ABSENT)]),
        *_metadata(members, path),
    ]


def problems_of_output(output: Any, path: str) -> list[Problem]:
    if not is_object(output):
        return [_type_problem(path, "an object with value", output)]
    members: dict[str, Any] = output
    return [
        *_text(members, "id", path, required=False),
        *([] if "value" in members else [_type_problem(f"{path}.value", "any JSON value", _ABSENT)]),
        *_metadata(members, path),
    ]


def read_checks(value: Any, path: str) -> tuple[list[Check], list[Problem]]:
    """Read a list of checks. Each check is read on its own, because msgspec stops at the first problem."""
    if not is_list(value):
        return [], [_type_problem(path, "a list of checks", value)]
    try:
        return msgspec.convert(value, list[Check]), []
    except msgspec.ValidationError:
        pass  # read one at a time below, to report all problems
    checks: list[Check] = []
    problems: list[Problem] = []
    for at, one in enumerate(value):
        document = one
        # as the reference implementation writes it
        if is_object(one) and one.get("metadata", _ABSENT) is None:
            document = {name: value for name, value in one.items() if name != "metadata"}
        if wrong := problems_in(document, Check, f"{path}[{at}]"):
            problems += wrong
            spend()
            if len(problems) >= MOST_PROBLEMS:
                break
        else:
            checks.append(msgspec.convert(document, Check))
    return checks, problems


def usual_context(case: Any, output: Any, limits: Limits) -> Context | None:
    """The context of a pair without problems, nulls and own checks, in one step. None: read each part alone."""
    try:
        line = _encode({"test_case": case, "output": output})
        if b"null" in line or maybe_deep(line, limits):  # a null may be NaN
            return None
        document = _decode(line)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.DecodeError):
        return None
    return Context(line, document) if is_usual(document) else None


def to_json_document(value: Any, path: str, limits: Limits) -> tuple[Any, bytes, list[Problem]]:
    """Convert a value to JSON: tuples become lists, structs objects. Returns problems for what JSON lacks."""
    try:
        encoded = _encode(value)
        # NaN and infinity are written as null: look for them where a null was written
        if b"null" in encoded:
            number = path_of_non_finite(msgspec.to_builtins(value, enc_hook=json_value))
            if number is not None:
                return None, b"", [Problem(join_path(path, number), NOT_A_NUMBER)]
        document = _decode(encoded)
    except (TypeError, ValueError, OverflowError, msgspec.DecodeError) as wrong:
        return None, b"", [Problem(join_path(path, path_of_unencodable(value)), f"not JSON: {wrong}")]
    except RecursionError:
        return (
            None,
            b"",
            [
                Problem(
                    join_path(path, path_of_unencodable(value)),
                    "expected a value that is not nested so deeply, or inside itself",
                )
            ],
        )
    if maybe_deep(encoded, limits) and depth(document) > limits.max_depth:
        return None, b"", [Problem(join_path(path, deepest_path(document, 1)), too_deep(limits))]
    return document, encoded, []


def maybe_deep(encoded: bytes, limits: Limits) -> bool:
    """Whether the text has enough brackets to exceed the depth limit. Most documents have too few and need no walk."""
    limit = limits.max_depth
    return len(encoded) > 2 * limit and encoded.count(b"{") + encoded.count(b"[") > limit


def kind_of(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    return values.kind_of(value)


def _type_problem(path: str, expected: str, actual: Any) -> Problem:
    return Problem(path, f"expected {expected}, got {kind_of(actual)}")


def _text(members: dict[str, Any], name: str, path: str, *, required: bool) -> list[Problem]:
    value = members.get(name, _ABSENT)
    if value == "":
        return [Problem(f"{path}.{name}", "expected a string that is not empty, got an empty one")]
    if isinstance(value, str) or (value is _ABSENT and not required):
        return []
    return [_type_problem(f"{path}.{name}", "a string", value)]


def _metadata(members: dict[str, Any], path: str) -> list[Problem]:
    value = members.get("metadata", _NONE)
    return [] if is_object(value) else [_type_problem(f"{path}.metadata", "an object", value)]


def too_long(limits: Limits) -> str:
    return (
        f"longer than {limits.max_line_bytes} bytes, which is the limit for a line"
        " (raise it with ASSAY_MAX_LINE_BYTES)"
    )


def too_deep(limits: Limits) -> str:
    return f"nested more than {limits.max_depth} deep, which is the limit (raise it with ASSAY_MAX_DEPTH)"


def not_json(line: bytes, error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply to be read"
    try:
        line.decode()
    except UnicodeDecodeError as bad:
        return f"not UTF-8 (byte {bad.start})"
    if is_number_too_large(error):
        return f"a number is too large: {number_too_large(line)}"
    surrogate = _SURROGATE.search(line)
    if surrogate is not None and "truncated" in str(error):
        return (
            f"a lone surrogate, {line[surrogate.start() : surrogate.start() + 6].decode()}, is not a "
            f"character (byte {surrogate.start()})"
        )
    return f"not JSON: {str(error).removeprefix('JSON is malformed: ').lower()}"


# The path of an invalid part inside a value: `.value.scores[2]`.


def join_path(path: str, inner: str) -> str:
    return path + inner if path else inner.removeprefix(".")


def path_of_non_finite(value: Any) -> str | None:
    """The path of the first number that JSON cannot encode, or None."""
    if is_finite(value):
        return None
    path = ""
    while (step := next((one for one in _children(value) if not is_finite(one[1])), None)) is not None:
        path, value = path + step[0], step[1]
    return path


def path_of_unencodable(value: Any) -> str:
    """The path of the innermost part that cannot be encoded as JSON."""
    path = ""
    for _ in range(20):  # a value that contains itself has no innermost part
        step = next((one for one in _children(value) if not _encodable(one[1])), None)
        if step is None:
            break
        path, value = path + step[0], step[1]
    return path


def deepest_path(document: Any, levels: int) -> str:
    """The path, `levels` steps long, to the most deeply nested part."""
    path = ""
    for _ in range(levels):
        parts = _children(document)
        if not parts:
            break
        step, document = max(parts, key=lambda one: depth(one[1]))
        path += step
    return path


def _children(value: Any) -> list[tuple[str, Any]]:
    if is_mapping(value):
        return [(f".{name}", one) for name, one in value.items()]
    if isinstance(value, msgspec.Struct):
        return [(f".{name}", getattr(value, name)) for name in value.__struct_encode_fields__]
    if is_list(value) or isinstance(value, tuple):
        return [(f"[{at}]", one) for at, one in enumerate(value)]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return []


def _encodable(value: Any) -> bool:
    try:
        _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False
    return True
