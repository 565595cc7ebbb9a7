"""Builds a function from lines of generated source and the constants they use."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from types import CodeType
from typing import Any

import msgspec
from msgspec import UNSET

from assay.checks.arguments import BoundCheck
from assay.checks.checker import FAILED, FALLBACK, PASSED, AnswerWithMetadata
from assay.checks.worker_tasks import WorkerTask
from assay.errors import Fault
from assay.jsonpath import MISSING
from assay.protocol.results import (
    CheckResult,
    ExecutionContext,
    ResolvedArgument,
    TestCaseResult,
    TestCaseSummary,
)

_encode = msgspec.json.Encoder().encode
YES, NO = _encode(PASSED), _encode(FAILED)  # generated functions use these objects, so `is` tells them apart
CACHED_SOURCE = 10_000  # characters
ScoredParts = tuple[
    list[Any], list[bytes], datetime
]  # the values, the encoded answer of each check, and the time


class SourceBuilder:
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
            "YES": YES,
            "NO": NO,
            "encode": _encode,
            "join": b"".join,
        }

    def line(self, text: str) -> None:
        self.lines.append(f"    {text}")

    def function(self, parameters: str) -> Any:
        source = "\n".join([f"def score({parameters}):", *self.lines])
        code = _code(source) if len(source) <= CACHED_SOURCE else source
        # made of generated names and literals; values of the request are constants in the scope
        exec(code, self.scope)  # noqa: S102
        return self.scope["score"]


@lru_cache(maxsize=128)
def _code(source: str) -> CodeType:
    """The code of a source. Checks of one shape have one source: their values are constants in the scope."""
    return compile(source, "<scorer>", "exec")


# Generates the function that builds a TestCaseResult from the parts that a compiled scorer returns, without its
# JSON.

_decode = msgspec.json.Decoder().decode
SCALARS = frozenset({str, int, float, bool, type(None)})
BuildResult = Callable[[dict[str, Any], ScoredParts], TestCaseResult]


def result_builder(
    checks: Sequence[BoundCheck], value_indexes: Sequence[Sequence[int]] | None
) -> BuildResult:
    """
    A function of a context's document and the parts of its result. The result equals the decoded line.

    The result holds the document. A value that can be changed, such as a list, is copied: no two places of results
    share one. `value_indexes[i]` are the indexes of the values of check `i`; without them, the results have no
    resolved_arguments.
    """
    body = SourceBuilder()
    body.scope |= {
        "Argument": ResolvedArgument,
        "Check": CheckResult,
        "Context": ExecutionContext,
        "Result": TestCaseResult,
        "SCALARS": SCALARS,
        "decode": _decode,
    }
    body.line("values, found, when = parts")
    for which in sorted({which for indexes in value_indexes or () for which in indexes}):
        body.line(f"v{which} = values[{which}]")
        body.line(f"m{which} = type(v{which}) not in SCALARS")
    results: list[str] = []
    for at, bound in enumerate(checks):
        body.line(f"p{at} = found[{at}]")
        body.scope |= {f"type{at}": bound.checker.type, f"about{at}": bound.metadata}
        answer = (
            f"{{'passed': True}} if p{at} is YES else {{'passed': False}} if p{at} is NO else decode(p{at})"
        )
        arguments = (
            ""
            if value_indexes is None
            else f" resolved_arguments={_arguments(body, at, bound, value_indexes[at])},"
        )
        results.append(
            f"Check(check_type=type{at}, status='completed', results={answer},{arguments}"
            f" evaluated_at=when, metadata=about{at}.copy())"
        )
    many = len(checks)
    body.scope["summary"] = TestCaseSummary(
        total_checks=many, completed_checks=many, error_checks=0, skipped_checks=0
    )
    body.line("context = Context(test_case=node['test_case'], output=node['output'])")
    body.line(
        "return Result(status='completed', execution_context=context,"
        f" check_results=[{', '.join(results)}], summary=summary)"
    )
    return body.function("node, parts")


def _arguments(body: SourceBuilder, at: int, bound: BoundCheck, indexes: Sequence[int]) -> str:
    """The source of the resolved arguments of a check, in the order of its fields."""
    by_path = {path.field.name: (path, which) for path, which in zip(bound.paths, indexes, strict=True)}
    members: list[str] = []
    for number, name in enumerate(bound.order):
        constant = f"c{at}_{number}"
        if name in by_path:
            path, which = by_path[name]
            value = f"decode(encode(v{which})) if m{which} else v{which}"
            if path.display_path is UNSET:
                members.append(f"{name!r}: Argument(value={value})")
            else:
                body.scope[constant] = path.display_path
                members.append(f"{name!r}: Argument(jsonpath={constant}, value={value})")
        elif name in bound.displayed_literals:
            literal = _encode(bound.displayed_literals[name])
            value = _decode(literal)
            if type(value) in SCALARS:
                body.scope[constant] = ResolvedArgument(value=value)
                members.append(f"{name!r}: {constant}")
            else:
                body.scope[constant] = literal
                members.append(f"{name!r}: Argument(value=decode({constant}))")
    return f"{{{', '.join(members)}}}"
