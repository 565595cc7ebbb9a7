"""
Plain functions as checks: `def polite(output): return "please" in output`.

The names of the parameters say what a function takes: `output`, `input`, `expected`, `test_case` and `metadata`. Any
other parameter is an argument of the check.
"""

import inspect
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, TypeGuard, cast

import msgspec

from assay.checks.checker import Checker, Nodes
from assay.errors import ForeignFault, UsageError
from assay.ports import Services
from assay.protocol.json_types import is_mapping, kind_of

PATHS: Mapping[str, tuple[str, Any]] = {  # parameter: its path and the type of its field
    "output": ("$.output.value", Any),
    "input": ("$.test_case.input", Any),
    "expected": ("$.test_case.expected", Nodes),
    "test_case": ("$.test_case", Any),
    "metadata": ("$.output.metadata", Nodes),
}
_SPECIAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
)


class FunctionCheck(Checker):
    """A check that calls a function."""


def is_function(value: Any) -> TypeGuard[Callable[..., Any]]:
    """Whether the value can be called and is not a class."""
    return callable(value) and not isinstance(value, type)


def function_checker(function: Callable[..., Any]) -> type[FunctionCheck]:
    """A check whose type is the name of the function. Raises UsageError for a function that cannot be one."""
    name = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        raise UsageError(
            "a lambda has no name for the table: define a function, such as def polite(output): ..."
        )
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as wrong:
        raise UsageError(f"{name}: expected parameters that can be read, got {wrong}") from None
    if not parameters or any(one.kind in _SPECIAL for one in parameters):
        known = ", ".join(PATHS)
        raise UsageError(
            f"{name}: expected parameters with names, such as {known}; got {inspect.signature(function)}"
        )
    fields = [_field(one) for one in parameters]
    required = [one for one in fields if len(one) == 2]
    optional = [one for one in fields if len(one) == 3]
    members: dict[str, Any] = {
        "type": name,
        "default_paths": {one.name: PATHS[one.name][0] for one in parameters if one.name in PATHS},
        "run": _async_run(function) if inspect.iscoroutinefunction(function) else _run(function),
        "__doc__": inspect.getdoc(function) or f"{name}: a function.",
    }
    made = msgspec.defstruct(
        name,
        [*required, *optional],
        bases=(FunctionCheck,),
        namespace=members,
        module=function.__module__,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return cast("type[FunctionCheck]", made)


def _field(parameter: inspect.Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.name in PATHS:
        return parameter.name, PATHS[parameter.name][1]
    if parameter.default is inspect.Parameter.empty:
        return parameter.name, Any
    return parameter.name, Any, msgspec.field(default_factory=lambda: parameter.default)


def _run(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Checker, services: Services) -> Any:
        return _answer(function(**_values(self)), self.type)

    return run


def _async_run(function: Callable[..., Any]) -> Callable[..., Any]:
    async def run(self: Checker, services: Services) -> Any:
        return _answer(await function(**_values(self)), self.type)

    return run


def _values(checker: Checker) -> dict[str, Any]:
    """The arguments of the function. A case without `expected`, or an output without metadata, gives None."""
    found: dict[str, Any] = {}
    for name in checker.__struct_fields__:
        value = getattr(checker, name)
        found[name] = (value[0] if value else None) if isinstance(value, Nodes) else value
    return found


def _answer(value: Any, name: str) -> Any:
    """`passed` for true or false, also of NumPy, `score` for a number, and an object as it is."""
    if is_mapping(value):
        return value
    if type(value).__name__ in ("bool", "bool_"):
        return {"passed": bool(value)}
    if isinstance(value, Real):
        return {"score": value if isinstance(value, int) else float(value)}
    got = "nothing" if value is None else kind_of(value)
    raise ForeignFault(
        f"{name} returned {got}; expected true or false, a number, or an object such as {{'passed': True}}"
    )
