"""
Generates the function that builds a TestCaseResult from the parts that a compiled scorer returns, without its JSON.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from assay.checks.arguments import BoundCheck
from assay.fep.source_builder import ScoredParts, SourceBuilder
from assay.protocol.results import (
    CheckResult,
    ExecutionContext,
    ResolvedArgument,
    TestCaseResult,
    TestCaseSummary,
)

_encode = msgspec.json.Encoder().encode
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
