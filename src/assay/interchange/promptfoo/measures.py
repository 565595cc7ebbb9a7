"""Assertions of promptfoo that count by a score: measures of texts, and the F1 of the names of tools."""

from typing import Any

from assay.checks.standard.ngram_overlap import Variant, trimmed
from assay.interchange.imported import CannotCarry
from assay.interchange.made_checks import OUTPUT, check
from assay.protocol.json_types import JSON, is_list


def overlap(value: Any, bound: float, variant: Variant, *, inverse: bool) -> JSON:
    """What is negated counts by what is left to 1."""
    texts: list[Any] = value if is_list(value) and variant != "rouge-n" else [value]
    if not texts or not all(isinstance(text, str) and text for text in texts):
        or_list = "" if variant == "rouge-n" else " and no list of texts"
        raise CannotCarry(f"its value is no text{or_list}")
    _require_share(bound)
    measure = {"text": OUTPUT, "references": texts, "variant": variant}
    if not inverse:
        return check("ngram_overlap", **measure, threshold={"min_value": bound})
    return check(
        "combination",
        checks=[{"name": "overlap", **check("ngram_overlap", **measure)}],
        expression="1 - overlap",
        threshold={"min_value": 1 - bound, "min_inclusive": False},
    )


def called_tools(value: Any, bound: float, *, inverse: bool) -> JSON:
    """What is negated counts by the F1 too."""
    names: list[Any] = list(map(trimmed, value.split(","))) if isinstance(value, str) else value
    if not is_list(names) or not names or not all(isinstance(name, str) for name in names):
        raise CannotCarry("its value is no text and no list of texts")
    _require_share(bound)
    threshold: JSON = {"min_value": bound} | ({"negate": True} if inverse else {})
    return check("called_tools", output=OUTPUT, expected=names, threshold=threshold)


def _require_share(bound: float) -> None:
    if not 0 <= bound <= 1:
        raise CannotCarry("its threshold is no number from 0 to 1")
