"""
Rows of CSV from the parts that a compiled scorer returns, without the JSON of the result.

A property test asserts that the text is that of `table_sinks.csv_rows`, which reads the result.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from assay.checks.arguments import BoundCheck
from assay.fep.outputs.result_tables import (
    about_of,
    check_parts,
    csv_cell,
    encode_cells,
    encode_text,
    tags_of,
)
from assay.fep.outputs.table_layout import PLAIN, TableLayout
from assay.fep.planning.source_builder import NO, YES, ScoredParts, SourceBuilder
from assay.protocol.json_types import JSON
from assay.results.reasons import bounds_in_words, describe_check, join_values, short

_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode
Rows = Callable[[JSON, ScoredParts], bytes]
VERDICTS = ("false,0", "true,1")  # passed, score
RESULTS = tuple(encode_text(answer.decode()) for answer in (NO, YES))
RARE = frozenset({"trial", "cost_usd", "latency_ms"})  # metadata of an output that has a column


def row_writer(
    checks: Sequence[BoundCheck], value_indexes: Sequence[Sequence[int]] | None, layout: TableLayout
) -> Rows:
    """
    A function of a context's document and the parts of its result: the rows, encoded.

    `value_indexes[i]` are the indexes of the values of check `i`; without them, the results have no resolved_arguments.
    """
    body = SourceBuilder()
    case_cells = _case_cells if layout.is_plain else partial(_encoded_cells, layout)
    body.scope |= {"about_of": about_of, "case_cells": case_cells, "text": encode_text}
    body.line("output = node['output']")
    body.line("about = about_of(output)")
    body.line("start, middle = case_cells(node['test_case'], output, about)")
    body.line("values, answers, _ = parts")
    body.line(
        "explained = output['value'] is not None"
    )  # else the reason of a failure may be the agent's error
    rows: list[str] = []
    for at, bound in enumerate(checks):
        row = CompiledCheck(at, bound, None if value_indexes is None else value_indexes[at])
        passed, failed = (_verdict(body, at, row, passed=passed) for passed in (True, False))
        body.scope[f"other{at}"] = partial(_other_cells, row)
        body.line(f"answer = answers[{at}]")
        body.line(f"if answer is YES: {passed}")
        body.line(f"elif answer is NO and explained: {failed}")
        body.line(f"else: left{at}, reason{at}, right{at} = other{at}(values, answer, output, about)")
        rows.append(f"start, left{at}, reason{at}, middle, right{at}, ")
    body.line(
        f"return join(({''.join(rows)}))"
    )  # of bytes: one character in a reason would widen a text of all rows
    return body.function("node, parts")


def _verdict(body: SourceBuilder, at: int, row: "CompiledCheck", *, passed: bool) -> str:
    """The source that sets the cells of a check that answered only `passed`."""
    name = f"{'pass' if passed else 'fail'}{at}"
    reason = row.reason(passed=passed)
    begin = f",{at},{encode_cells((row.label, row.type))},completed,"
    body.scope[f"{name}left"] = f"{begin}{VERDICTS[passed]},".encode()
    body.scope[f"{name}right"] = f",,,{RESULTS[passed]},,,\n".encode()
    body.scope[name] = encode_text(reason).encode() if isinstance(reason, str) else reason
    text = name if isinstance(reason, str) else f"text({name}(values)).encode()"
    return f"left{at} = {name}left; reason{at} = {text}; right{at} = {name}right"


def _case_cells(case: JSON, output: JSON, about: JSON) -> tuple[bytes, bytes]:
    """
    The cells that all rows of a case share: the first ones, and those from `input` to `latency_ms` between commas.
    """
    if not RARE.isdisjoint(about):
        return _encoded_cells(PLAIN, case, output, about)
    id = encode_text(output["id"]) if "id" in output else ""
    expected = _text_cell(case["expected"]) if "expected" in case else b""
    tags = encode_text(tags_of(case) or "").encode()
    middle = (b"", _text_cell(case["input"]), _text_cell(output["value"]), expected, tags, b"", b"")
    return f"{encode_text(case['id'])},{id},".encode(), b",".join(middle)


def _encoded_cells(layout: TableLayout, case: JSON, output: JSON, about: JSON) -> tuple[bytes, bytes]:
    """The same cells of any output, and of a layout with the columns of the user's table."""
    first, shared = layout.case_parts(case, output, about)
    start, middle = encode_cells(map(csv_cell, first)), encode_cells(map(csv_cell, shared))
    return start.encode(), f",{middle}".encode()


def _text_cell(value: Any) -> bytes:
    """
    A cell with a text, or with the JSON of any other value. JSON is not a formula: it begins with a bracket, or is a
    number or a word.
    """
    if type(value) is str:
        return encode_text(value).encode()
    text = _encode(value)
    if b'"' in text:
        return b'"%b"' % text.replace(b'"', b'""')
    return b'"%b"' % text if b"," in text else text


class CompiledCheck:
    """One check: its names, its literals as JSON has them, and the indexes of its values."""

    def __init__(self, at: int, bound: BoundCheck, indexes: Sequence[int] | None) -> None:
        self.at, self.type, self.label, self._metadata = at, bound.checker.type, bound.label, bound.metadata
        self.literals: dict[str, Any] | None = None
        self.paths: dict[str, int] = {}
        if indexes is not None:
            self.literals = _decode(_encode(bound.displayed_literals))
            self.paths = {path.field.name: which for path, which in zip(bound.paths, indexes, strict=True)}

    def reason(self, *, passed: bool) -> "Reason | str":
        """The reason of an answer that has only `passed`: a text, or a function of the values of the case."""
        return prepared_reason(self.type, self.literals, self.paths, passed=passed)

    def result(self, values: Sequence[Any], answer: bytes) -> JSON:
        """The result of an answer as its JSON has it."""
        result: JSON = {
            "check_type": self.type,
            "status": "completed",
            "results": _decode(answer),
            "metadata": self._metadata,
        }
        if self.literals is not None:
            arguments = self.literals | {name: values[which] for name, which in self.paths.items()}
            result["resolved_arguments"] = {name: {"value": value} for name, value in arguments.items()}
        return result


def _other_cells(
    check: CompiledCheck, values: Sequence[Any], answer: bytes, output: JSON, about: JSON
) -> tuple[bytes, bytes, bytes]:
    """The cells of any answer: those before the shared ones, and those after them."""
    left, right = check_parts(check.at, check.result(values, answer), output, about)
    begin, end = encode_cells(map(csv_cell, left)), encode_cells(map(csv_cell, right))
    return f",{begin}".encode(), b"", f",{end},\n".encode()


# Reasons of one check for many cases: the parts that do not depend on the case are written once.

Values = Sequence[Any]
Reason = Callable[[Values], str]


def prepared_reason(
    type: str, literals: Mapping[str, Any] | None, paths: Mapping[str, int], *, passed: bool
) -> Reason | str:
    """
    The reason of a check that answered only `passed`: a text, or a function of the values of the case.

    `paths` are the arguments that depend on the case, each with the index of its value. `literals` is None if arguments
    are not stored.
    """
    prepare = _PREPARED.get(type)
    if prepare is not None and literals is not None:
        reason = prepare(literals, paths, passed)
        if reason is not None:
            return reason

    def describe(values: Values) -> str:
        arguments = (
            None if literals is None else {**literals, **{name: values[at] for name, at in paths.items()}}
        )
        return describe_check(type, arguments, {"passed": passed}, passed)

    if literals is None or not paths:
        return describe(())
    return describe


def _exact_match(literals: Mapping[str, Any], paths: Mapping[str, int], passed: bool) -> Reason | str | None:
    if "actual" not in paths or "negate" in paths or literals.get("negate"):
        return None
    actual = paths["actual"]
    if "expected" in paths:
        expected = paths["expected"]
        if passed:
            return lambda values: f"equals {short(values[expected])}"
        return lambda values: f"expected {short(values[expected])}, got {short(values[actual])}"
    text = short(literals.get("expected"))
    if passed:
        return f"equals {text}"
    return lambda values: f"expected {text}, got {short(values[actual])}"


def _contains(literals: Mapping[str, Any], paths: Mapping[str, int], passed: bool) -> Reason | str | None:
    if set(paths) != {"text"} or literals.get("negate") or literals.get("case_sensitive") is False:
        return None
    at, phrases = paths["text"], literals["phrases"]
    if passed:
        return f"contains all of {join_values(phrases)}"

    def describe(values: Values) -> str:
        text = values[at]
        if type(text) is not str:
            return describe_check("contains", {**literals, "text": text}, {"passed": False}, False)
        missing = [phrase for phrase in phrases if phrase not in text]
        return f"expected a text that contains {join_values(missing or phrases)}, got {short(text)}"

    return describe


def _regex(literals: Mapping[str, Any], paths: Mapping[str, int], passed: bool) -> Reason | str | None:
    if set(paths) != {"text"} or literals.get("negate"):
        return None
    at, pattern = paths["text"], short(literals.get("pattern"))
    if passed:
        return f"matches {pattern}"
    return lambda values: f"expected a match of {pattern}, got {short(values[at])}"


def _threshold(literals: Mapping[str, Any], paths: Mapping[str, int], passed: bool) -> Reason | str | None:
    if set(paths) != {"value"} or literals.get("negate"):
        return None
    at, bounds = paths["value"], bounds_in_words(literals)
    if passed:
        return lambda values: f"{short(values[at])} is {bounds}"
    return lambda values: f"expected a number {bounds}, got {short(values[at])}"


_PREPARED: dict[str, Callable[[Mapping[str, Any], Mapping[str, int], bool], Reason | str | None]] = {
    "contains": _contains,
    "exact_match": _exact_match,
    "regex": _regex,
    "threshold": _threshold,
}
