"""
Encodes results (FEP 4.1, 5.2): a stored line of JSON becomes the bytes of a TestCaseResult.

Bytes that repeat in every case (the name of a check, its version, its literal arguments, `{"passed":true}`) are encoded
once and copied. So is the context, if its request is still in memory.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct

from assay.protocol.json_types import is_object
from assay.protocol.results import CheckError, ExecutionContext, TestCaseSummary
from assay.serve.grpc.codec import encode as packed
from assay.serve.grpc.codec.encode import length_delimited, map_entry, varint, varint_field

STATUS = {"completed": 1, "error": 2, "skip": 3}
_ERRORS = {"jsonpath_error": 1, "validation_error": 2, "timeout_error": 3, "unknown_error": 4}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CACHED, _LONG = 1_024, 1_024  # fragments, and the bytes of the longest
Ends = tuple[bytes, bytes]


# an encoded context: the case, the output, and the part that every check result repeats
EncodedContext = tuple[bytes, bytes, bytes]


class Argument(Struct):
    value: Raw
    jsonpath: str | None = None


class EncodableCheck(Struct):
    check_type: str
    status: str
    results: Raw
    evaluated_at: str
    metadata: Raw = Raw(b"{}")
    resolved_arguments: dict[str, Argument] | None = None
    error: CheckError | None = None


class ResultLine(Struct):
    """A result whose context is not decoded, because it is already encoded."""

    status: str
    check_results: list[EncodableCheck]
    summary: TestCaseSummary
    metadata: dict[str, Any] | None = None


class ResultWithContext(ResultLine):
    execution_context: ExecutionContext | None = None


_line = msgspec.json.Decoder(ResultLine).decode
_full = msgspec.json.Decoder(ResultWithContext).decode
_decode = msgspec.json.Decoder().decode


class ResultEncoder:
    """Encodes the results of one run, with caches for what they have in common."""

    def __init__(self) -> None:
        self._checks: dict[tuple[str, str, bytes, bytes], Ends] = {}
        self._values: dict[bytes, bytes] = {}
        self._literals: dict[tuple[str, bytes], bytes] = {}
        self._paths: dict[tuple[str, str], tuple[bytes, bytes]] = {}
        self._moment = b"", b""

    def case(self, line: bytes, echo: EncodedContext | None = None) -> bytes:
        """The TestCaseResult of a line, as a field of its EvaluationRunResult."""
        if echo is None:
            whole = _full(line)
            assert whole.execution_context is not None
            echo = echo_of(whole.execution_context.test_case, whole.execution_context.output)
        else:
            whole = _line(line)
        parts = [b"\x08", varint(STATUS[whole.status]), _context_of(echo)]
        for check in whole.check_results:
            body = self._check(check, echo[2])
            parts += (b"\x1a", varint(len(body)), body)
        parts.append(_counts(whole.summary))
        if whole.metadata is not None:
            parts.append(length_delimited(b"\x2a", packed.struct(whole.metadata)))
        return length_delimited(b"\x32", b"".join(parts))

    def _check(self, check: EncodableCheck, header: bytes) -> bytes:
        key = check.check_type, check.status, bytes(check.results), bytes(check.metadata)
        if (framing := self._checks.get(key)) is None:
            framing = _check_framing(*key)
            _put(self._checks, key, framing, len(check.results) + len(check.metadata))
        front, back = framing
        arguments = b""
        if check.resolved_arguments is not None:
            members = [self._argument(name, one) for name, one in check.resolved_arguments.items()]
            arguments = length_delimited(b"\x22", b"".join(members))
        size = varint(len(header) + len(back))
        error = b"" if check.error is None else length_delimited(b"\x3a", _error(check.error))
        moment = self._evaluated_at(check.evaluated_at.encode())
        return b"".join((front, arguments, moment, b"\x32", size, header, back, error))

    def _evaluated_at(self, text: bytes) -> bytes:
        """The evaluated_at of a check."""
        if self._moment[0] != text:
            self._moment = text, moment(datetime.fromisoformat(text.decode()))
        return self._moment[1]

    def _argument(self, name: str, argument: Argument) -> bytes:
        """A member of resolved_arguments: `{value}`, or `{jsonpath, value}`."""
        raw = bytes(argument.value)
        if argument.jsonpath is None:
            literal = self._literals.get((name, raw))
            if literal is None:
                body = map_entry(b"value", packed.value(_decode(raw)))
                literal = map_entry(name.encode(), length_delimited(b"\x2a", body))
                _put(self._literals, (name, raw), literal, len(raw))
            return literal
        path = self._paths.get((name, argument.jsonpath))
        if path is None:
            path = name.encode(), map_entry(b"jsonpath", packed.text(argument.jsonpath.encode()))
            _put(self._paths, (name, argument.jsonpath), path, len(argument.jsonpath))
        return map_entry(path[0], length_delimited(b"\x2a", path[1] + map_entry(b"value", self._value(raw))))

    def _value(self, raw: bytes) -> bytes:
        """A Value from its JSON."""
        encoded = self._values.get(raw)
        if encoded is None:
            plain = raw[0] == 0x22 and b"\\" not in raw  # a text without escapes
            encoded = packed.text(raw[1:-1]) if plain else packed.value(_decode(raw))
            _put(self._values, raw, encoded, len(raw))
        return encoded


def _check_framing(kind: str, status: str, results: bytes, metadata: bytes) -> Ends:
    """The bytes before the arguments of a check result, and the end of its metadata."""
    front = length_delimited(b"\x0a", kind.encode()) + b"\x10" + varint(STATUS[status])
    front += length_delimited(b"\x1a", packed.struct(_decode(results)))
    members: dict[str, Any] = _decode(metadata)
    version = members.pop("check_version", "")
    back = length_delimited(b"\x22", str(version).encode()) if version else b""
    return front, back + length_delimited(b"\x2a", packed.struct(members)) if members else back


def _context_of(echo: EncodedContext) -> bytes:
    """The execution_context of a TestCaseResult."""
    case, output, _ = echo
    return length_delimited(b"\x12", length_delimited(b"\x0a", case) + length_delimited(b"\x12", output))


def _counts(summary: TestCaseSummary) -> bytes:
    """The summary of a TestCaseResult."""
    body = (
        varint_field(b"\x08", summary.total_checks)
        + varint_field(b"\x10", summary.completed_checks)
        + varint_field(b"\x18", summary.error_checks)
        + varint_field(b"\x20", summary.skipped_checks)
    )
    return length_delimited(b"\x22", body)


def echo_of(case: dict[str, Any], output: dict[str, Any]) -> EncodedContext:
    """Encode a context from JSON. Members that FEP does not define are left out (FEP-10)."""
    id = length_delimited(b"\x0a", case["id"].encode()) if case["id"] else b""
    about, one, other = id, [id, length_delimited(b"\x12", _oneof(case["input"]))], [b""]
    if "expected" in case:
        one.append(length_delimited(b"\x1a", _oneof(case["expected"])))
    if "metadata" in case:
        metadata = packed.struct(case["metadata"])
        one.append(length_delimited(b"\x22", metadata))
        about += length_delimited(b"\x12", metadata)
    other = [length_delimited(b"\x0a", _oneof(output["value"]))]
    if "metadata" in output:
        metadata = packed.struct(output["metadata"])
        other.append(length_delimited(b"\x12", metadata))
        about += length_delimited(b"\x1a", metadata)
    if "id" in output:
        other.append(length_delimited(b"\x1a", output["id"].encode()))
    return b"".join(one), b"".join(other), about


def moment(when: datetime) -> bytes:
    """The evaluated_at of a check."""
    since = when - _EPOCH
    seconds = varint_field(b"\x08", since.days * 86_400 + since.seconds)
    return length_delimited(b"\x2a", seconds + varint_field(b"\x10", since.microseconds * 1_000))


def _oneof(value: Any) -> bytes:
    """An InputValue or an OutputValue: a text, an object, or the general form that FEP-2 adds."""
    if isinstance(value, str):
        return length_delimited(b"\x0a", value.encode())
    return (
        length_delimited(b"\x12", packed.struct(value))
        if is_object(value)
        else length_delimited(b"\x1a", packed.value(value))
    )


def _error(error: CheckError) -> bytes:
    kind = varint_field(b"\x08", _ERRORS.get(error.type, 4))
    return (
        kind
        + length_delimited(b"\x12", error.message.encode())
        + (b"\x18\x01" if error.recoverable else b"\x18\x00")
    )


def _put(cache: dict[Any, Any], key: Any, encoded: Any, limit: int) -> None:
    if limit <= _LONG:
        if len(cache) >= _CACHED:
            cache.clear()
        cache[key] = encoded
