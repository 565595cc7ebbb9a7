"""Functions among the checks of the library: `assay.evaluate_sync(cases, outputs, [polite])`."""

from collections.abc import Callable
from typing import Any

from assay.checks.function_check import function_checker, is_function
from assay.checks.registry import Registry
from assay.fep.planning.plan import is_sequence
from assay.protocol.evaluation import Check


def with_functions(checks: Any, registry: Registry) -> tuple[Any, Registry]:
    """The checks with a Check for every function, and a registry that has those functions."""
    functions: dict[Callable[..., Any], Check] = {}
    if not is_sequence(checks) or not any(map(_has_function, checks)):
        return checks, registry
    replaced = [
        [_check(inner, functions) for inner in one] if is_sequence(one) else _check(one, functions)
        for one in checks
    ]
    return replaced, registry.with_checks([function_checker(one) for one in functions])


def _has_function(value: Any) -> bool:
    return any(map(is_function, value)) if is_sequence(value) else is_function(value)


def _check(value: Any, functions: dict[Callable[..., Any], Check]) -> Any:
    if not is_function(value):
        return value
    check = functions.get(value)
    if check is None:
        check = functions[value] = Check(type=getattr(value, "__name__", type(value).__name__), arguments={})
    return check
