"""Short forms of checks in files: `- contains: [Paris]` asks the value of the output."""

from typing import Any, NamedTuple

from assay.checks import STANDARD
from assay.errors import Problem
from assay.errors.nearest import did_you_mean
from assay.protocol.json_types import is_list, is_object, kind_of

OUTPUT = "$.output.value"
MEASURES = ("f1", "edit_distance", "rouge", "bleu", "ngram_overlap")
LISTS = (
    "contains",
    "has_items",
    "choice",
    *MEASURES,
    "tool_calls",
    "called_tools",
    "xml",
    "rubric",
)  # a value that is not a list is a list of one
COMBINATION = "combination"
BESIDE = ("name", "version")  # members that may stand beside the type


class ShortForm(NamedTuple):
    """The argument that takes the output, and the one that takes the value of the short form."""

    subject: str | None
    argument: str
    takes_object: bool = (
        False  # an object is the value itself, unless it has a member with the name of the argument
    )
    optional: bool = False  # the argument is a path if there is no value


SHORT_FORMS = {
    "exact_match": ShortForm("actual", "expected"),
    "contains": ShortForm("text", "phrases"),
    "regex": ShortForm("text", "pattern"),
    "threshold": ShortForm("value", "min_value"),
    "semantic_similarity": ShortForm("text", "reference"),
    "json_match": ShortForm("actual", "expected", takes_object=True),
    "json_schema": ShortForm("value", "schema", takes_object=True),
    "exists": ShortForm(None, "path"),
    "has_items": ShortForm("items", "required_items"),
    "number": ShortForm("text", "expected"),
    "choice": ShortForm("text", "expected"),
    "f1": ShortForm("text", "references"),
    "edit_distance": ShortForm("text", "references"),
    "rouge": ShortForm("text", "references"),
    "bleu": ShortForm("text", "references"),
    "ngram_overlap": ShortForm("text", "references"),
    "xml": ShortForm("text", "required"),
    COMBINATION: ShortForm(None, "checks"),
    "python_code": ShortForm(None, "code"),
    "tool_calls": ShortForm(None, "expected"),
    "called_tools": ShortForm(None, "expected"),
    "max_steps": ShortForm(None, "limit"),
    "no_repeated_calls": ShortForm(None, "limit", optional=True),
    "faithfulness": ShortForm(None, "context"),
    "correctness": ShortForm(None, "reference", optional=True),
    "summary_quality": ShortForm(None, "source", optional=True),
    "tone": ShortForm(None, "tone"),
    "pairwise": ShortForm(None, "reference", optional=True),
    "instruction_following": ShortForm(None, "instructions", optional=True),
    "tool_use": ShortForm(None, "tools", optional=True),
    "rubric": ShortForm(None, "criteria"),
}


def expand_checks(value: Any, path: str) -> tuple[Any, list[Problem]]:
    """A list of checks, or of lists of checks, with every short form written out. Anything else stays as it is."""
    if not is_list(value):
        return value, []
    expanded: list[Any] = []
    problems: list[Problem] = []
    for at, one in enumerate(value):
        here = f"{path}[{at}]"
        result, wrong = expand_checks(one, here) if is_list(one) else _expand(one, here)
        expanded.append(result)
        problems += wrong
    return expanded, problems


def _expand(check: Any, path: str) -> tuple[Any, list[Problem]]:
    if isinstance(check, str):
        return {"type": check, "arguments": {}}, []
    if not is_object(check):
        return check, []
    if "type" in check or "arguments" in check:
        arguments: Any = check.get("arguments")
        if check.get("type") != COMBINATION or not is_object(arguments):
            return check, []
        written, problems = _parts(arguments, f"{path}.arguments.checks")
        return {**check, "arguments": written}, problems
    types = [name for name in check if name not in BESIDE]
    if len(types) != 1:
        return check, []
    (kind,) = types
    members = {name: value for name, value in check.items() if name in BESIDE}
    arguments, problems = _arguments(kind, check[kind], f"{path}.{kind}")
    if kind == COMBINATION:
        arguments, inner = _parts(arguments, f"{path}.{kind}.checks")
        problems += inner
    return {"type": kind, "arguments": arguments, **members}, problems


def _parts(arguments: dict[str, Any], path: str) -> tuple[dict[str, Any], list[Problem]]:
    """The arguments of a combination, with the short forms of its parts written out."""
    if not is_list(arguments.get("checks")):
        return arguments, []
    checks, problems = expand_checks(arguments["checks"], path)
    return {**arguments, "checks": checks}, problems


def _arguments(kind: str, value: Any, path: str) -> tuple[dict[str, Any], list[Problem]]:
    form = SHORT_FORMS.get(kind)
    if form is None:
        if value is None or is_object(value):
            return value or {}, []
        return {}, [Problem(path, _without_short_form(kind, value))]
    subject = {} if form.subject is None else {form.subject: OUTPUT}
    if is_object(value) and not (form.takes_object and form.argument not in value):
        return {**subject, **value}, []
    if value is None and form.optional:
        return {}, []
    if value is None:
        return {}, [Problem(path, f"expected the {form.argument} of {kind}, got nothing")]
    wrapped = [value] if kind in LISTS and not is_list(value) and not _is_path(value) else value
    return {**subject, form.argument: wrapped}, []


def _without_short_form(kind: str, value: Any) -> str:
    """Why a value is not enough. A check of the user may have any name, and takes an object."""
    takes = f"takes an object with its arguments, got {kind_of(value)}"
    if kind in STANDARD.types:
        return f"{kind} {takes}"
    hint = did_you_mean(kind, STANDARD.types, " (", ")")
    return f"no check of assay is called {kind[:200]!r}{hint}; a check of your own {takes}"


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("$.")
