"""
The values of options that need no validation: texts, flags, and plain numbers in their range.

Typer validates values with pydantic, which takes 0.1 s to load. Here only a value that is not plain goes to Typer, and
Typer's answer to it is the user's answer. A test compares both for every form of option.
"""

import re
from functools import partial
from typing import Any

NUMBERS = {int: re.compile("[0-9]{1,15}"), float: re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")}
NOT_PLAIN = object()


def accept_plain_values(command: Any) -> None:
    """Let the options of a command, and of the commands in it, accept plain values without pydantic."""
    listed = command.get_params

    def get_params(ctx: Any) -> list[Any]:
        params = listed(ctx)
        for param in params:
            if "process_value" not in vars(param):
                param.process_value = partial(process_value, param, param.process_value)
        return params

    command.get_params = get_params
    for inner in getattr(command, "commands", {}).values():
        accept_plain_values(inner)


def process_value(param: Any, by_typer: Any, ctx: Any, value: Any) -> Any:
    """The value of a parameter, as `process_value` of Typer's parameter returns it."""
    plain = plain_value(param, value)
    if plain is NOT_PLAIN or (param.required and param.value_is_missing(plain)):
        return by_typer(ctx, value)
    return plain if param.callback is None else param.callback(ctx, param, plain)


def plain_value(param: Any, value: Any) -> Any:
    """The value as the function of a verb gets it, or NOT_PLAIN."""
    descriptor = getattr(param, "type_descriptor", None)  # other versions of Typer have none
    if descriptor is None or descriptor.parameter_info.parser is not None:
        return NOT_PLAIN
    kind = descriptor.annotation
    if value is None:
        return () if param.multiple or param.nargs == -1 else None
    if kind in (str, bool):
        return value if type(value) is kind else NOT_PLAIN
    if kind == list[str]:
        whole = type(value) in (list, tuple) and all(type(item) is str for item in value)
        return list(value) if whole else NOT_PLAIN
    return _number(kind, value, descriptor.parameter_info) if kind in NUMBERS else NOT_PLAIN


def _number(kind: Any, value: Any, bounds: Any) -> Any:
    if isinstance(value, str) and NUMBERS[kind].fullmatch(value):
        value = kind(value)
    inside = type(value) is kind and not bounds.clamp
    if inside and bounds.min is not None:
        inside = value >= bounds.min
    if inside and bounds.max is not None:
        inside = value <= bounds.max
    return value if inside else NOT_PLAIN
