"""Why a check passed or failed, in words. It reads the JSON of a check's result, so it works for every stored run."""

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from assay.lazy_pattern import lazy_pattern
from assay.protocol.json_types import JSON, is_list, is_object
from assay.results.differences import json_differences
from assay.stats.number_text import score_text

MAX_VALUE = 80  # characters of a value in a reason
MAX_ITEMS = 5
LARGEST = sys.float_info.max
NOT_RUN = "not run: the run was stopped before this check"
_ESCAPES = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})
EXPLANATIONS = ("reason", "reasoning", "explanation", "rationale", "feedback", "comment", "message")
Arguments = Mapping[str, Any]


def passed_of(check: JSON) -> bool | None:
    """Whether the check passed (FEP-30); None if it was not measured or has neither a pass nor a fail."""
    results: JSON = check.get("results", {})
    response = results.get("response")
    passed = results.get("passed", response.get("passed") if is_object(response) else None)
    return passed if isinstance(passed, bool) else None


def is_failing(check: JSON) -> bool:
    """Whether the check failed or was not measured."""
    return check["status"] != "completed" or passed_of(check) is False


def score_of(check: JSON) -> float | None:
    """The score that a check reports; else 1 for a pass and 0 for a fail; None if it was not measured."""
    if (score := own_score_of(check)) is not None:
        return score
    passed = passed_of(check)
    return None if passed is None else float(passed)


def own_score_of(check: JSON) -> float | None:
    """The score that a check reports; None if it has none."""
    results: JSON = check.get("results", {})
    response = results.get("response")
    for part in (results, response if is_object(response) else {}):
        if (score := number_of(part.get("score"))) is not None:
            return score
    return None


def number_of(value: Any) -> float | None:
    """A JSON number as a float; None for any other value and for a number that a float cannot hold."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > LARGEST:
        return None
    return float(value)


def agent_error(result: JSON) -> str | None:
    """Why the agent of a trial failed, as it recorded it; None: it did not, or the output is not of an agent."""
    metadata = result["execution_context"]["output"].get("metadata")
    if not is_object(metadata) or metadata.get("outcome") != "failed":
        return None
    error = metadata.get("error")
    return error if isinstance(error, str) and error else None


def reason_of(check: JSON, case: JSON | None = None) -> str:
    """
    One sentence that says what was expected and what came. Long values are cut.

    `case`: the test case, whose `expected` may have the texts of the criteria of a rubric.
    """
    if check["status"] == "error":
        return _with_advice(str(check.get("error", {}).get("message") or "an error without a message"))
    if check["status"] == "skip":
        return NOT_RUN
    passed = passed_of(check)
    metadata = check.get("metadata", {})
    if isinstance(note := metadata.get("reason"), str):
        return note
    resolved = check.get("resolved_arguments")
    if isinstance(unparsable := metadata.get("parse_error"), str):
        return _not_parsed(unparsable, resolved)
    explained = _explanation(check["results"], case)
    if explained:
        return explained + _panel_note(check["results"])
    return description_of(check, passed)


_NUMBER_FOR_TEXT = lazy_pattern(r"(phrases|pattern): expected a string but got a (whole )?number")


def _with_advice(message: str) -> str:
    """A number is never searched as a text; a case whose `expected` is a number meets it with `contains`."""
    if _NUMBER_FOR_TEXT.match(message) is None:
        return message
    return f"{message}; write the number as a text, or use exact_match, json_match or threshold"


def description_of(check: JSON, passed: bool | None) -> str:
    """The reason of a completed check that has no explanation of its own."""
    resolved = check.get("resolved_arguments")
    arguments = (
        {name: argument.get("value") for name, argument in resolved.items() if is_object(argument)}
        if is_object(resolved)
        else None
    )
    return describe_check(check["check_type"], arguments, check["results"], passed)


def describe_check(type: str, arguments: Arguments | None, results: JSON, passed: bool | None) -> str:
    """`description_of` for a check with these arguments. None: they are not stored."""
    describe = _REASONS.get(type)
    if describe is not None and arguments is not None:
        text = describe(arguments, results, passed is not False)
        if text:
            return text
    verdict = {True: "passed", False: "failed", None: ""}[passed]
    values = {name: value for name, value in results.items() if name not in ("passed", "metadata")}
    details = short(values.get("response", values)) if values else ""
    missing = "its arguments are not stored" if describe is not None and arguments is None else ""
    return "; ".join(filter(None, (verdict, details, missing))) or "completed without a pass or a fail"


def _not_parsed(reason: str, resolved: Any) -> str:
    """Why a text could not be parsed (FEP-49), and the text."""
    for name in ("value", "actual", "items"):
        argument = resolved.get(name) if is_object(resolved) else None
        if is_object(argument) and argument.get("value"):
            return f"{reason}, got {short(argument['value'])}" if ", got" not in reason else reason
    return reason


def short(value: Any, limit: int = MAX_VALUE) -> str:
    """A value on one line: a text in quotes, anything else as JSON; cut after `limit` characters."""
    if isinstance(value, str):
        text = value if len(value) <= limit else f"{value[: limit - 1]}…"
        if "'" not in text and text.isprintable():
            return f"'{text}'"
        quote = '"' if "'" in text and '"' not in text else "'"
        if not text.isprintable():
            text = text.translate(_ESCAPES)  # a backslash stays single, as in a pattern
        return f"{quote}{text}{quote}"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _explanation(results: JSON, case: JSON | None) -> str:
    """The explanation of a judge or of a custom check: its own text, or one text for each criterion."""
    if len(results) == 1 and "passed" in results:
        return ""
    response = results.get("response")
    parts = [results, response] if is_object(response) else [results]
    for part in parts:
        for name in EXPLANATIONS:
            if isinstance(text := part.get(name), str) and text:
                return text
    if criteria := criteria_of(response, case):
        return "; ".join(map(_criterion_text, criteria))
    metadata = results.get("metadata")
    reasoning = (
        metadata.get("reasoning") if is_object(metadata) else None
    )  # of a judge whose schema has no place for it
    return reasoning if isinstance(reasoning, str) else ""


def unmet_criteria(check: JSON, case: JSON | None = None) -> str:
    """The criteria of a rubric that are not met; empty if the check is not a rubric, or all are met."""
    response = check.get("results", {}).get("response")
    return "; ".join(_criterion_text(one) for one in criteria_of(response, case) if one.met is False)


class CriterionReason(NamedTuple):
    """A criterion of a rubric by its name, whether it is met, and why."""

    name: str
    met: bool | None
    reason: str
    weight: float | None = None


def criteria_of(response: Any, case: JSON | None = None) -> list[CriterionReason]:
    """
    The criteria of the answer of a judge: its members with a reason.

    The name is that of the member; for a rubric of an agent eval, the text that the case has at its place.
    """
    expected = case.get("expected") if case else None
    texts: list[Any] = expected if is_list(expected) else []
    found: list[CriterionReason] = []
    for at, (name, one) in enumerate(response.items() if is_object(response) else ()):
        if not is_object(one) or not isinstance(reason := one.get("reason"), str):
            continue
        declared = texts[at] if at < len(texts) and name == f"criterion_{at + 1}" else None
        about: JSON = declared if is_object(declared) else {}
        text, met = about.get("criterion"), one.get("met")
        found.append(
            CriterionReason(
                text if isinstance(text, str) else name,
                met if isinstance(met, bool) else None,
                reason,
                number_of(about.get("weight")),
            )
        )
    return found


def _criterion_text(one: CriterionReason) -> str:
    """`not met: greets by name (there is no name)`."""
    state = {True: "met: ", False: "not met: ", None: ""}[one.met]
    return f"{state}{one.name} ({one.reason})"


def _panel_note(results: JSON) -> str:
    """Says that the answers of a panel are on both sides of the bar, or that choices have equally many votes."""
    metadata = results.get("metadata")
    panel = metadata.get("panel") if is_object(metadata) else None
    if not is_object(panel):
        return ""
    ties = panel.get("ties")
    tied = f" (the panel is tied on {', '.join(map(str, ties))})" if is_list(ties) and ties else ""
    return _split_note(panel) + tied + _failed_note(panel)


def _failed_note(panel: JSON) -> str:
    """Says that some answers of a panel failed. They could not change the verdict, else there is none."""
    failed, answers = panel.get("failed"), panel.get("answers")
    if not isinstance(failed, int) or failed < 1:
        return ""
    return f" ({failed} of {answers} answers of the panel failed)"


def _split_note(panel: JSON) -> str:
    if panel.get("straddles") is not True:
        return ""
    votes = panel.get("votes")
    passed = votes.get("passed") if is_object(votes) else None
    return (
        f" (the panel is split, {sum(passed)} of {len(passed)} passed)"
        if is_list(passed)
        else " (the panel is split)"
    )


def _exact_match(arguments: Arguments, results: JSON, passed: bool) -> str:
    actual, expected = arguments.get("actual"), arguments.get("expected")
    if passed:
        return f"differs from {short(expected)}" if arguments.get("negate") else f"equals {short(expected)}"
    if arguments.get("negate"):
        return f"expected anything but {short(expected)}, got it"
    return f"expected {short(expected)}, got {short(actual)}"


def _contains(arguments: Arguments, results: JSON, passed: bool) -> str:
    text, phrases = arguments.get("text"), arguments.get("phrases")
    if not is_list(phrases):
        return ""
    negate = bool(arguments.get("negate"))
    if passed:
        return f"contains {'none' if negate else 'all'} of {join_values(phrases)}"
    fold = str if arguments.get("case_sensitive") is not False else str.casefold
    shown = text if isinstance(text, str) else msgspec.json.encode(text).decode()
    wrong = [phrase for phrase in phrases if (fold(str(phrase)) in fold(shown)) is negate] or phrases
    if negate:
        return f"expected a text without {join_values(wrong)}, got {short(text)}"
    return f"expected a text that contains {join_values(wrong)}, got {short(text)}"


def _regex(arguments: Arguments, results: JSON, passed: bool) -> str:
    pattern, text = arguments.get("pattern"), arguments.get("text")
    negate = bool(arguments.get("negate"))
    if passed:
        return f"{'does not match' if negate else 'matches'} {short(pattern)}"
    return f"expected {'no' if negate else 'a'} match of {short(pattern)}, got {short(text)}"


def _threshold(arguments: Arguments, results: JSON, passed: bool) -> str:
    outside = "outside of " if arguments.get("negate") else ""
    bounds = bounds_in_words(arguments)
    if passed:
        return f"{short(arguments.get('value'))} is {outside}{bounds}"
    return f"expected a number {outside}{bounds}, got {short(arguments.get('value'))}"


def bounds_in_words(arguments: Arguments) -> str:
    minimum, maximum = arguments.get("min_value"), arguments.get("max_value")
    low = "at least" if arguments.get("min_inclusive") is not False else "above"
    high = "at most" if arguments.get("max_inclusive") is not False else "below"
    parts = [f"{low} {short(minimum)}"] if minimum is not None else []
    return " and ".join(parts + ([f"{high} {short(maximum)}"] if maximum is not None else []))


def _exists(arguments: Arguments, results: JSON, passed: bool) -> str:
    if arguments.get("negate"):
        return "finds nothing, as expected" if passed else "expected nothing at the path, got a value"
    return "finds a value" if passed else "expected a value at the path, got nothing"


def _has_items(arguments: Arguments, results: JSON, passed: bool) -> str:
    if passed:
        return "has every required item and no forbidden one"
    order = " in this order" if arguments.get("ordered") else ""
    parts = [f"lacks {join_values(results['missing'])}{order}"] if results.get("missing") else []
    parts += [f"has the forbidden {join_values(results['forbidden'])}"] if results.get("forbidden") else []
    return "; ".join(parts)


def _json_match(arguments: Arguments, results: JSON, passed: bool) -> str:
    expected, actual = arguments.get("expected"), arguments.get("actual")
    if arguments.get("negate"):
        return "differs, as expected" if passed else f"expected another value than {short(expected)}"
    subset = arguments.get("mode") == "subset"
    if passed:
        return f"{'contains' if subset else 'equals'} {short(expected)}"
    if is_list(found := results.get("differences")):
        return "; ".join(map(str, found[:MAX_ITEMS])) + ("; …" if len(found) > MAX_ITEMS else "")
    lines = json_differences(expected, actual, subset=subset, limit=MAX_ITEMS)
    return "; ".join(lines) or f"expected {short(expected)}, got {short(actual)}"


def _json_schema(arguments: Arguments, results: JSON, passed: bool) -> str:
    errors: list[JSON] = results.get("errors", [])
    if arguments.get("negate"):
        return (
            "does not match the schema, as expected"
            if passed
            else "expected a value that does not match the schema"
        )
    if passed:
        return "matches the schema"
    texts = [f"{error.get('path') or '$'}: {error.get('message', '')}" for error in errors[:MAX_ITEMS]]
    more = f"; {len(errors) - MAX_ITEMS} more" if len(errors) > MAX_ITEMS else ""
    return f"does not match the schema: {'; '.join(texts)}{more}"


def _xml(arguments: Arguments, results: JSON, passed: bool) -> str:
    found = (
        "has such XML" if arguments.get("required") else "has XML" if arguments.get("contained") else "is XML"
    )
    if arguments.get("negate"):
        return f"no text that {found}, as expected" if passed else f"expected no text that {found}"
    if passed:
        return found
    missing = results.get("missing")
    return f"has no {join_values(missing)}" if missing else f"is no XML: {results.get('problem', '')}"


def _score_reason(noun: str) -> Callable[[Arguments, JSON, bool], str]:
    """The reason of a check that measures a score, which `threshold` may bound."""

    def describe(arguments: Arguments, results: JSON, passed: bool) -> str:
        response, bounds = results.get("response", results), arguments.get("threshold")
        score = response.get("score") if is_object(response) else None
        if not isinstance(score, int | float):
            return ""
        found = score_text(score)
        if (most := arguments.get("max_distance")) is not None:
            distance = results.get("distance")
            if not passed and distance > most:
                return f"expected a distance of at most {most}, got {distance}"
            found = f"{found} at a distance of {distance}"
        if not is_object(bounds):
            return f"{noun} {found}"
        outside = "outside of " if bounds.get("negate") else ""
        if passed:
            return f"{noun} {found} is {outside}{bounds_in_words(bounds)}"
        return f"expected {'an' if noun[0] in 'aeioF' else 'a'} {noun} {outside}{bounds_in_words(bounds)}, got {found}"

    return describe


def join_values(values: list[Any]) -> str:
    more = f" and {len(values) - MAX_ITEMS} more" if len(values) > MAX_ITEMS else ""
    return ", ".join(map(short, values[:MAX_ITEMS])) + more


_REASONS: dict[str, Callable[[Arguments, JSON, bool], str]] = {
    "bleu": _score_reason("BLEU"),
    "called_tools": _score_reason("F1"),
    "contains": _contains,
    "edit_distance": _score_reason("similarity"),
    "exact_match": _exact_match,
    "exists": _exists,
    "f1": _score_reason("F1"),
    "has_items": _has_items,
    "json_match": _json_match,
    "json_schema": _json_schema,
    "ngram_overlap": _score_reason("overlap"),
    "regex": _regex,
    "rouge": _score_reason("ROUGE"),
    "semantic_similarity": _score_reason("similarity"),
    "threshold": _threshold,
    "xml": _xml,
}
DESCRIBED = frozenset(_REASONS)  # types whose reason has their numbers
