"""
Generates the source of a scorer: one Python function that reads the values, calls the checks and writes the result's
bytes.

Constant parts are encoded once. The function counts and writes the usual case. If a check fails or needs the
interpreted form, it returns the answers it has instead.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from assay.checks.arguments import BoundCheck
from assay.fep.planning.source_builder import BuildResult, ScoredParts, SourceBuilder, result_builder
from assay.jsonpath.query import steps
from assay.protocol.results import TestCaseSummary

_encode = msgspec.json.Encoder().encode

Score = Callable[..., bytes | list[Any] | None]  # (node, line, answers, now)
ScoreParts = Callable[..., ScoredParts | list[Any] | None]  # (node, answers, now)
Run = Callable[..., Any]


class ValueReader(NamedTuple):
    """Reads the values that checks take from a document, all at once; MISSING for an absent one."""

    read: Callable[[Any], list[Any]]
    names: Sequence[tuple[str, ...]] | None  # the member names of each value, if all paths consist of names


class CompiledChecks:
    """
    The generated functions of some checks. Each function is generated at its first use.

    `value_indexes[i]` are the indexes of the values of check `i`; `arguments` writes resolved_arguments.
    """

    def __init__(
        self,
        checks: Sequence[BoundCheck],
        runs: Sequence[Run],
        value_indexes: Sequence[Sequence[int]],
        reader: ValueReader,
        *,
        arguments: bool,
    ) -> None:
        self.checks, self.value_indexes, self.arguments = checks, value_indexes, arguments
        self._runs, self._reader = runs, reader
        self.values = 1 + max((which for places in value_indexes for which in places), default=-1)

    @cached_property
    def score(self) -> Score:
        """
        The function that scores these checks.

        It returns the result's bytes, a list of answers for a case that needs the interpreted form, or None if a value
        is missing.
        """
        body, values, _ = self._scored()
        if self.arguments:
            for which, value in enumerate(values):
                body.line(f"e{which} = encode({value})")
        body.line("moment = encode(now())")
        self._write(body)
        return body.function("node, line, answers, now")

    @cached_property
    def parts(self) -> ScoreParts:
        """`score` without the bytes: it returns the parts of the result. `line` makes the bytes from them."""
        body, values, found = self._scored()
        body.line(f"return [{', '.join(values)}], [{', '.join(found)}], now()")
        return body.function("node, answers, now")

    @cached_property
    def line(self) -> Callable[[bytes, ScoredParts], bytes]:
        """The function that writes the result's bytes from the line of its context and its parts."""
        body = SourceBuilder()
        body.line("values, found, when = parts")
        if self.arguments:
            for which in range(self.values):
                body.line(f"e{which} = encode(values[{which}])")
        for at in range(len(self.checks)):
            body.line(f"p{at} = found[{at}]")
        body.line("moment = encode(when)")
        self._write(body)
        return body.function("line, parts")

    @cached_property
    def build_result(self) -> BuildResult | None:
        """
        The function that builds a result from the document of its context and its parts, without its JSON.

        None if a check is foreign code: it may change the document that it reads.
        """
        return result_builder(self.checks, self.argument_indexes) if self.keeps_document else None

    @property
    def keeps_document(self) -> bool:
        """Whether the checks leave the document as it is. Foreign code may change it."""
        return all(bound.checker.__module__.startswith("assay.checks.") for bound in self.checks)

    @property
    def argument_indexes(self) -> Sequence[Sequence[int]] | None:
        """`value_indexes`, or None if results have no resolved_arguments."""
        return self.value_indexes if self.arguments else None

    def _scored(self) -> tuple[SourceBuilder, list[str], list[str]]:
        """The lines that run and count the checks, and the variables of the values and of the encoded answers."""
        body = SourceBuilder()
        indexes = range(len(self.checks))
        values = _values(body, self._reader, self.values)
        for at in indexes:
            given = ", ".join(values[which] for which in self.value_indexes[at])
            body.line(f"try: a{at} = run{at}({given})")
            body.line(f"except Fault as fault: a{at} = fault")
            body.scope[f"run{at}"] = self._runs[at]
        if self.checks:
            odd = (
                "(a{0} is not PASSED and a{0} is not FAILED and (a{0} is PLAIN or isinstance(a{0}, unusual)))"
            )
            body.line(f"if {' or '.join(odd.format(at) for at in indexes)}:")
            body.line(f"    return [{', '.join(f'a{at}' for at in indexes)}]")
        size = len(self.checks)
        body.line("id = node['test_case']['id']")
        body.line(f"code = {((1 << size) - 1) << size:#x}")
        for at in indexes:
            body.line(f"if a{at} is PASSED: code += {1 << at:#x}; p{at} = YES")
            body.line(f"elif a{at} is FAILED: p{at} = NO")
            body.line(
                f"else: code += answers.answer({at}, a{at}, id) - {1 << size + at:#x}; p{at} = encode(a{at})"
            )
        body.line("answers.ids.append(id)")
        body.line("answers.codes.append(code)")
        return body, values, [f"p{at}" for at in indexes]

    def _write(self, body: SourceBuilder) -> None:
        parts = _parts(body, self.checks, self.value_indexes, arguments=self.arguments)
        body.line(f"return join(({', '.join(parts)},))")


def _values(body: SourceBuilder, reader: ValueReader, count: int) -> list[str]:
    """Write the lines that read the values; return the names of their variables."""
    if reader.names is None:
        variables = [f"v{which}" for which in range(count)]
        body.line(f"[{', '.join(variables)}] = read(node)")
        body.line(f"if {' or '.join(f'{value} is MISSING' for value in variables)}: return None")
        body.scope["read"] = reader.read
        return variables
    lines, variables = steps(reader.names)
    if lines:
        body.line("try:")
        for line in lines:
            body.line(f"    {line}")
        body.line("except (KeyError, TypeError): return None")
    return variables


def _parts(
    body: SourceBuilder,
    checks: Sequence[BoundCheck],
    value_indexes: Sequence[Sequence[int]],
    *,
    arguments: bool,
) -> list[str]:
    """The parts of a result in order, as names of variables; adjacent constants are joined."""
    parts: list[str] = []
    text = b""

    def constant(literal: bytes) -> None:
        nonlocal text
        text += literal

    def variable(name: str) -> None:
        nonlocal text
        body.scope[f"c{len(parts)}"] = text
        parts.extend((f"c{len(parts)}", name))
        text = b""

    constant(b'{"status":"completed","execution_context":')
    variable("line")
    constant(b',"check_results":[')
    for at, bound in enumerate(checks):
        constant((b"," if at else b"") + b'{"check_type":' + _encode(bound.checker.type))
        constant(b',"status":"completed","results":')
        variable(f"p{at}")
        if arguments:
            constant(b',"resolved_arguments":{')
            _arguments(bound, value_indexes[at], constant, variable)
            constant(b"}")
        constant(b',"evaluated_at":')
        variable("moment")
        constant(b',"metadata":' + _encode(bound.metadata) + b"}")
    many = len(checks)
    summary = TestCaseSummary(total_checks=many, completed_checks=many, error_checks=0, skipped_checks=0)
    constant(b'],"summary":' + _encode(summary) + b"}")
    body.scope["end"] = text
    return [*parts, "end"]


def _arguments(
    bound: BoundCheck,
    value_indexes: Sequence[int],
    constant: Callable[[bytes], None],
    variable: Callable[[str], None],
) -> None:
    by_path = {path.field.name: (path, which) for path, which in zip(bound.paths, value_indexes, strict=True)}
    comma = b""
    for name in bound.order:
        if name in by_path:
            path, which = by_path[name]
            constant(comma + _encode(name) + b":{")
            constant(
                b"" if path.display_path is UNSET else b'"jsonpath":' + _encode(path.display_path) + b","
            )
            constant(b'"value":')
            variable(f"e{which}")
            constant(b"}")
            comma = b","
        elif name in bound.displayed_literals:
            constant(comma + _encode(name) + b":" + _encode({"value": bound.displayed_literals[name]}))
            comma = b","
