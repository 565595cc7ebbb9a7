"""The graders of OpenAI Evals as checks. Templates name members of the item or of the sample, and become paths."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from assay.checks.checker import InvalidArgument
from assay.checks.programs.combination import rule_of
from assay.errors import InvalidRequest
from assay.interchange.imported import CannotCarry, ImportReport, listed
from assay.interchange.made_checks import OUTPUT, At, check, named
from assay.protocol.evaluation import Check
from assay.protocol.json_types import JSON, is_list, is_object

ITEM = "$.test_case.metadata.item"
MOST_GRADERS = 100
DEEPEST = 5  # graders inside graders
_ONE = re.compile(r"\s*\{\{\s*(.*?)\s*\}\}\s*", re.DOTALL)
_PLACE = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_NAME = re.compile(r"(item|sample)((?:\.[A-Za-z_][\w-]*|\[\d+\])+)")
_ROUGE = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_3": "rouge3", "rouge_l": "rougeL"}
_OUTPUTS = {".output_text": OUTPUT.path, ".output_tools": "$.output.metadata.tool_calls"}


_MEMBERS = {
    "string_check": ("type", "name", "input", "reference", "operation"),
    "text_similarity": ("type", "name", "input", "reference", "evaluation_metric", "pass_threshold"),
    "score_model": ("type", "name", "input", "model", "range", "pass_threshold"),
    "label_model": ("type", "name", "input", "model", "labels", "passing_labels"),
}
_MULTI = "type", "name", "graders", "calculate_output"
_WHY = {"sampling_params": "the judge has options of its own; see [models] in assay.toml"}


def path_of(expression: str) -> str:
    """The path of what stands between the braces of a template."""
    found = _NAME.fullmatch(expression)
    if found is None:
        raise CannotCarry(
            f"templates are not run: {{{{ {expression[:60]} }}}} is no member of the item or the sample"
        )
    if found[1] == "item":
        return f"{ITEM}{found[2]}"
    if found[2] not in _OUTPUTS:
        raise CannotCarry(f"the sample has no {found[2][1:60]!r} here; there is output_text")
    return _OUTPUTS[found[2]]


def argument(template: Any) -> Any:
    """A text, or the path of a template that is one variable. A template of several parts is not carried."""
    if not isinstance(template, str):
        raise CannotCarry("it is no text")
    whole = _ONE.fullmatch(template)
    if whole is not None and "{{" not in whole[1]:
        return At(path_of(whole[1]))
    if "{{" in template:
        raise CannotCarry("a reference of several parts has no path")
    return template


def prompt_of(messages: Any) -> str:
    """The prompt of a judge: the messages of a grader with paths in place of the variables."""
    parts: list[str] = []
    several: list[Any] = messages if is_list(messages) else [messages]
    for one in several:
        content: Any = one.get("content") if is_object(one) else one
        if is_object(content):
            content = content.get("text")
        if not isinstance(content, str):
            raise CannotCarry("a message of it is no text")
        if "{%" in content or "{#" in content:
            raise CannotCarry("templates are not run: it has a block")
        role = f"{one['role']}: " if is_object(one) and isinstance(one.get("role"), str) else ""
        parts.append(role + _PLACE.sub(lambda found: f"{{{{{path_of(found[1])}}}}}", content))
    return "\n\n".join(parts)


def _string_check(one: JSON) -> JSON:
    text, reference, operation = (
        argument(one.get("input")),
        argument(one.get("reference")),
        one.get("operation"),
    )
    if operation in ("eq", "ne"):
        more = {"negate": True} if operation == "ne" else {}
        return check("exact_match", actual=text, expected=reference, **more)
    if operation in ("like", "ilike"):
        phrases = reference if isinstance(reference, At) else [reference]
        more = {"case_sensitive": False} if operation == "ilike" else {}
        return check("contains", text=text, phrases=phrases, **more)
    raise CannotCarry(f"there is no operation {str(operation)[:40]!r}")


def _text_similarity(one: JSON) -> JSON:
    text, reference, metric = (
        argument(one.get("input")),
        argument(one.get("reference")),
        one.get("evaluation_metric"),
    )
    least = one.get("pass_threshold")
    threshold: JSON = {"threshold": {"min_value": least}} if isinstance(least, int | float) else {}
    references = reference if isinstance(reference, At) else [reference]
    if metric == "cosine":
        return check("semantic_similarity", text=text, reference=reference, **threshold)
    if metric == "fuzzy_match":
        return check("edit_distance", text=text, references=references, metric="indel", **threshold)
    if isinstance(metric, str) and metric in _ROUGE:
        return check("rouge", text=text, references=references, variant=_ROUGE[metric], **threshold)
    if metric == "bleu":
        return check("bleu", text=text, references=references, **threshold)
    raise CannotCarry(f"there is no check for {str(metric)[:40]!r}")


def _score_model(one: JSON) -> JSON:
    bounds = listed(one, "range") or [0, 1]
    if len(bounds) != 2 or not all(isinstance(bound, int | float) for bound in bounds):
        raise CannotCarry("its range is no pair of numbers")
    least, most = bounds
    score = {"type": "number", "minimum": least, "maximum": most}
    schema = {
        "type": "object",
        "required": ["score"],
        "properties": {"score": score},
        "additionalProperties": False,
    }
    bar = one.get("pass_threshold")
    more: JSON = {}
    if isinstance(bar, int | float):
        more = {"panel": {"mean": "score", "bar": bar}}
    return check("llm_judge", prompt=prompt_of(one.get("input")), response_format=schema, **more)


def _label_model(one: JSON) -> JSON:
    labels = [label for label in listed(one, "labels") if isinstance(label, str)]
    passing = [label for label in listed(one, "passing_labels") if label in labels]
    if not labels or not passing:
        raise CannotCarry("it has no labels, or none that pass")
    verdicts = [
        {
            "if": {"properties": {"label": {"enum": group}}},
            "then": {"properties": {"passed": {"const": passed}}},
        }
        for group, passed in ((passing, True), ([label for label in labels if label not in passing], False))
        if group
    ]
    schema = {
        "type": "object",
        "required": ["label", "passed"],
        "properties": {
            "label": {"type": "string", "enum": labels},
            "passed": {
                "type": "boolean",
                "description": f"true if the label is one of: {', '.join(passing)}",
            },
        },
        "allOf": verdicts,
    }
    return check("llm_judge", prompt=prompt_of(one.get("input")), response_format=schema)


GRADERS: dict[str, Callable[[JSON], JSON]] = {
    "string_check": _string_check,
    "text_similarity": _text_similarity,
    "score_model": _score_model,
    "label_model": _label_model,
}
JUDGES = frozenset(("llm_judge", "semantic_similarity"))


def checks_of(graders: list[Any], place: str, report: ImportReport) -> tuple[list[JSON], list[JSON]]:
    """The checks and the judges of the testing criteria."""
    made = _checks(graders, place, report, 0)
    judges = [judged for *_, judged in made]
    groups = (
        [(name, one) for (name, one, _), judge in zip(made, judges, strict=True) if judge is wanted]
        for wanted in (False, True)
    )
    checks, judged = (named(group) for group in groups)
    return checks, judged


def _checks(graders: list[Any], place: str, report: ImportReport, depth: int) -> list[tuple[str, JSON, bool]]:
    """A name, a check and whether it asks a model, for each grader that is carried."""
    found: list[tuple[str, JSON, bool]] = []
    for number, grader in enumerate(graders):
        at = f"{place}[{number}]"
        if number >= MOST_GRADERS or depth >= DEEPEST:
            report.leave(
                at, "graders", f"there are more than {MOST_GRADERS}, or nested more than {DEEPEST} deep"
            )
            return found
        kind = grader.get("type") if is_object(grader) else None
        name = str((grader.get("name") if is_object(grader) else None) or "")
        if is_object(grader) and kind == "multi":
            found += _multi(name, grader, at, report, depth)
            continue
        try:
            if not is_object(grader) or not isinstance(kind, str):
                raise CannotCarry("it has no type")
            if kind == "python":
                report.offer(_function, grader.get("source"), at)
                raise CannotCarry("code is not run; it is offered as a function to accept by hand")
            if kind not in GRADERS:
                raise CannotCarry("there is no such grader")
            made = GRADERS[kind](grader)
        except CannotCarry as why:
            report.leave(at, f"grader {kind}" if isinstance(kind, str) else "a grader", str(why))
            continue
        if grader.get("model"):
            report.leave(at, "model of a grader", "the judge asks your model; see [models] in assay.toml")
        report.leave_others(grader, _MEMBERS[kind], at, "grader.", _WHY)
        report.carry(f"grader {kind}: {made['type']}")
        found.append((name, made, made["type"] in JUDGES))
    return found


def _multi(
    name: str, grader: JSON, place: str, report: ImportReport, depth: int
) -> list[tuple[str, JSON, bool]]:
    """One check with the expression of a multi grader; its graders alone if one of them is not carried."""
    inner = grader.get("graders")
    parts: list[Any] = (
        [part | {"name": own} if is_object(part) else part for own, part in inner.items()]
        if is_object(inner)
        else listed(grader, "graders")
    )
    found = _checks(parts, f"{place}.graders", report, depth + 1)
    report.leave_others(grader, _MULTI, place, "grader.", _WHY)
    expression = grader.get("calculate_output")
    try:
        if len(found) < len(parts) or not parts:
            raise CannotCarry("not all of its graders are carried; the others are checks of their own")
        made = check(
            "combination", checks=named([(own, one) for own, one, _ in found]), expression=expression
        )
        try:
            rule_of(msgspec.convert(made["arguments"]["checks"], list[Check]), UNSET, str(expression))
        except (InvalidArgument, InvalidRequest) as wrong:
            raise CannotCarry(f"{wrong}; its graders are checks of their own") from None
    except CannotCarry as why:
        report.leave(place, "expression of a multi grader", str(why))
        return found
    report.carry("grader multi: combination")
    return [(name, made, any(judged for *_, judged in found))]


def _function(name: str, code: str, place: str) -> str:
    """The source of a grader in Python as a function of a file of its own."""
    about = re.sub(r"[^ -~]|[\\\"]", "?", place)
    return "\n".join(
        (
            f'"""The python grader at {about}. It has not been read yet: it runs as your own code."""',
            "",
            code.strip("\n"),
            "",
            "",
            f"def {name}(output, test_case):",
            '    sample = {"output_text": output}',
            '    return float(grade(sample, test_case["metadata"]["item"]))',
            "",
        )
    )
