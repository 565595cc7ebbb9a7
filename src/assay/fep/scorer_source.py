"""
Generates the source of a scorer: one Python function that reads the values, calls the checks and writes the result's bytes.

Constant parts are encoded once. The function counts and writes the usual case. If a check fails or needs the interpreted
form, it returns the answers it has instead.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from assay.checks.arguments import BoundCheck
from assay.checks.checker import FAILED, FALLBACK, PASSED, AnswerWithMetadata
from assay.checks.worker_tasks import WorkerTask
from assay.errors import Fault
from assay.jsonpath import MISSING
from assay.jsonpath.batch_getter import steps
from assay.protocol.results import TestCaseSummary

_encode = msgspec.json.Encoder().encode

Score = Callable[..., bytes | list[Any] | None]  # (node, line, answers, now, told)
ScoredParts = tuple[
    list[Any], list[bytes], datetime
]  # the values, the encoded answer of each check, and the time
Run = Callable[..., Any]


class ValueReader(NamedTuple):
    """Reads the values that checks take from a document, all at once; MISSING for an absent one."""

    read: Callable[[Any], list[Any]]
    names: Sequence[tuple[str, ...]] | None  # the member names of each value, if all paths consist of names


def generate_scorer(
    checks: Sequence[BoundCheck],
    runs: Sequence[Run],
    value_indexes: Sequence[Sequence[int]],
    reader: ValueReader,
    *,
    arguments: bool,
) -> Score:
    """
    The function that scores these checks. It returns the result's bytes, a list of answers for a case that needs the
    interpreted form, or None if a value is missing.

    Its last argument is a list or None: the function appends the parts of the result to it, for writers of other formats.
    `value_indexes[i]` are the indexes of the values of check `i`; `arguments` writes resolved_arguments.
    """
    body = _SourceBuilder()
    indexes = range(len(checks))
    values = _values(
        body, reader, 1 + max((which for places in value_indexes for which in places), default=-1)
    )
    for at in indexes:
        given = ", ".join(values[which] for which in value_indexes[at])
        body.line(f"try: a{at} = run{at}({given})")
        body.line(f"except Fault as fault: a{at} = fault")
        body.scope[f"run{at}"] = runs[at]
    if checks:
        odd = "(a{0} is not PASSED and a{0} is not FAILED and (a{0} is PLAIN or isinstance(a{0}, unusual)))"
        body.line(f"if {' or '.join(odd.format(at) for at in indexes)}:")
        body.line(f"    return [{', '.join(f'a{at}' for at in indexes)}]")
    size = len(checks)
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
    if arguments:
        for which, value in enumerate(values):
            body.line(f"e{which} = encode({value})")
    body.line("when = now()")
    found = ", ".join(f"p{at}" for at in indexes)
    body.line(f"if told is not None: told.append(([{', '.join(values)}], [{found}], when))")
    body.line("moment = encode(when)")
    body.line(f"return join(({', '.join(_parts(body, checks, value_indexes, arguments=arguments))},))")
    return body.function("node, line, answers, now, told")


def _values(body: "_SourceBuilder", reader: ValueReader, count: int) -> list[str]:
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


class _SourceBuilder:
    """Lines of a function, and the constants they use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {
            "Fault": Fault,
            "unusual": (Fault, WorkerTask, AnswerWithMetadata),
            "PASSED": PASSED,
            "FAILED": FAILED,
            "PLAIN": FALLBACK,
            "MISSING": MISSING,
            "YES": _encode(PASSED),
            "NO": _encode(FAILED),
            "encode": _encode,
            "join": b"".join,
        }

    def line(self, text: str) -> None:
        self.lines.append(f"    {text}")

    def function(self, parameters: str) -> Any:
        source = "\n".join([f"def score({parameters}):", *self.lines])
        exec(source, self.scope)  # noqa: S102  # made of generated names; values of the request are constants in the scope
        return self.scope["score"]


def _parts(
    body: _SourceBuilder,
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
