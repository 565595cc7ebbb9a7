"""What is wrong with a command line, in the voice of all refusals: `--limit: expected a whole number, got 'x'`."""

import re
from enum import Enum
from typing import Any

from assay.cli.console.options import any_of

_UNKNOWN_COMMAND = re.compile(r"No such command (?P<name>'.*?')\.(?P<hint> Did you mean .*\?)?", re.DOTALL)
_EXTRA = re.compile(r"Got unexpected extra argument(?:s|\(s\))? \((?P<names>.*)\)", re.DOTALL)
_KINDS = {int: "a whole number", float: "a number"}
LONGEST = 100  # characters of a value in a message


def usage_message(error: Any) -> str:
    """The message for an error of Typer. It ends with the command that shows what is possible."""
    ctx = getattr(error, "ctx", None)
    if ctx is None:
        return _problem(error, "assay")
    path = _path(ctx)
    return f"{_problem(error, path)}; `{path} -h` shows what is possible"


def _path(ctx: Any) -> str:
    """`assay admin key`, however the command was started."""
    return "assay" if ctx.parent is None else f"{_path(ctx.parent)} {ctx.info_name}"


def _problem(error: Any, path: str) -> str:
    param, option = getattr(error, "param", None), getattr(error, "option_name", None)
    if param is not None:
        name = param.get_error_hint().replace("'", "").partition(" / ")[0]
        return f"{name}: expected {_wanted(param)}, got {_given(error)}"
    if option == "--server":
        return (
            "--server: there is no such option of this verb, which reads the store of this machine; run it on "
            "the host, or set database_url to its database"
        )
    if option is not None:
        return f"{option}: {_option_problem(error, path)}"
    message = error.format_message()
    if found := _UNKNOWN_COMMAND.fullmatch(message):
        near = (found["hint"] or "").lower().strip()
        return f"there is no command {found['name']}" + f" ({near})" * bool(near)
    if found := _EXTRA.fullmatch(message):
        return f"{found['names']}: expected no more arguments"
    return message


def _option_problem(error: Any, path: str) -> str:
    message = error.message
    if message.startswith("No such option"):
        near = " or ".join(sorted(error.possibilities or ()))
        return f"there is no such option of {path}" + f" (did you mean {near}?)" * bool(near)
    return "expected no value, got one" if "not take a value" in message else "expected a value, got none"


def _wanted(param: Any) -> str:
    descriptor = getattr(param, "type_descriptor", None)  # other versions of Typer have none
    if descriptor is None:
        return "another value"
    annotation: Any = descriptor.annotation
    bounds = descriptor.parameter_info
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return any_of(str(choice.value) for choice in annotation)
    kind = next((name for kind, name in _KINDS.items() if kind is annotation), "a value")
    low, high = bounds.min, bounds.max
    if low is not None and high is not None:
        return f"{kind} from {low:.12g} to {high:.12g}"
    if low is not None:
        return f"{kind} of at least {low:.12g}"
    return kind if high is None else f"{kind} of at most {high:.12g}"


def _given(error: Any) -> str:
    """The value; Typer keeps it in the cause."""
    if not error.message:
        return "none"
    problems = getattr(error.__cause__, "errors", None)
    if problems is None:
        return f"another: {error.message}"
    return repr(problems()[0]["input"])[:LONGEST]
