"""
Reasons of one check for many cases: the parts that do not depend on the case are written once.

A property test asserts that each text is that of `reasons.describe_check`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.results.reasons import bounds_in_words, describe_check, join_values, short

Values = Sequence[Any]
Reason = Callable[[Values], str]


def prepared_reason(
    type: str, literals: Mapping[str, Any] | None, paths: Mapping[str, int], *, passed: bool
) -> Reason | str:
    """
    The reason of a check that answered only `passed`: a text, or a function of the values of the case.

    `paths` are the arguments that depend on the case, each with the index of its value. `literals` is None if arguments
    are not stored.
    """
    prepare = _PREPARED.get(type)
    if prepare is not None and literals is not None:
        reason = prepare(literals, paths, passed)
        if reason is not None:
            return reason

    def describe(values: Values) -> str:
        arguments = (
            None if literals is None else {**literals, **{name: values[at] for name, at in paths.items()}}
        )
        return describe_check(type, arguments, {"passed": passed}, passed)

    if literals is None or not paths:
        return describe(())
    return describe


def _exact_match(literals: Mapping[str, Any], paths: Mapping[str, int], passed: bool) -> Reason | str | None:
    if "actual" not in paths or "negate" in paths or literals.get("negate"):
        return None
    actual = paths["actual"]
    if "expected" in paths:
        expected = paths["expected"]
        if passed:
            return lambda values: f"equals {short(values[expected])}"
        return lambda values: f"expected {short(values[expected])}, got {short(values[actual])}"
    text = short(literals.get("expected"))
    if passed:
        return f"equals {text}"
    return lambda values: f"expected {text}, got {short(values[actual])}"


def _contains(literals: Mapping[str, Any], paths: Mapping[str, int], passed: bool) -> Reason | str | None:
    if set(paths) != {"text"} or literals.get("negate") or literals.get("case_sensitive") is False:
        return None
    at, phrases = paths["text"], literals["phrases"]
    if passed:
        return f"contains all of {join_values(phrases)}"

    def describe(values: Values) -> str:
        text = values[at]
        if type(text) is not str:
            return describe_check("contains", {**literals, "text": text}, {"passed": False}, False)
        missing = [phrase for phrase in phrases if phrase not in text]
        return f"expected a text that contains {join_values(missing or phrases)}, got {short(text)}"

    return describe


def _regex(literals: Mapping[str, Any], paths: Mapping[str, int], passed: bool) -> Reason | str | None:
    if set(paths) != {"text"} or literals.get("negate"):
        return None
    at, pattern = paths["text"], short(literals.get("pattern"))
    if passed:
        return f"matches {pattern}"
    return lambda values: f"expected a match of {pattern}, got {short(values[at])}"


def _threshold(literals: Mapping[str, Any], paths: Mapping[str, int], passed: bool) -> Reason | str | None:
    if set(paths) != {"value"} or literals.get("negate"):
        return None
    at, bounds = paths["value"], bounds_in_words(literals)
    if passed:
        return lambda values: f"{short(values[at])} is {bounds}"
    return lambda values: f"expected a number {bounds}, got {short(values[at])}"


_PREPARED: dict[str, Callable[[Mapping[str, Any], Mapping[str, int], bool], Reason | str | None]] = {
    "contains": _contains,
    "exact_match": _exact_match,
    "regex": _regex,
    "threshold": _threshold,
}
