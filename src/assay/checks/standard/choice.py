"""
choice (an extension to FEP): passes if the label that a text chooses, such as `B`, is the expected one.

The first of these rules that finds a label decides: the whole text, a statement of the answer, a label in brackets or
at the beginning of a line, the text of one choice, a label that stands alone.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from assay.checks.checker import Answer, Checker, InvalidArgument, Text, closed_object
from assay.checks.standard.measure import INLINE_CHARACTERS, words_of
from assay.checks.worker_tasks import WorkerTask, offload
from assay.errors import ValueFault
from assay.ports import Services

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
DEFAULT = list("ABCDEFGHIJ")
Label = Annotated[str, Meta(min_length=1, max_length=40)]
Labels = Annotated[list[Label], Meta(min_length=1, max_length=50)]
Choices = Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=2, max_length=26)]


class Choice(Checker):
    type = "choice"
    waits = False
    results_schema = closed_object(
        {
            "passed": {"type": "boolean"},
            "chosen": {
                "type": "array",
                "items": {"type": "string"},
                "description": "the labels that it chooses",
            },
            "reason": {"type": "string"},
        }
    )

    text: Text
    expected: list[str]
    labels: Labels | UnsetType = UNSET
    choices: Choices | UnsetType = UNSET
    negate: bool = False

    def run(self, services: Services) -> Answer | WorkerTask:
        texts = [] if self.choices is UNSET else self.choices
        if len(self.text) + sum(map(len, texts)) > INLINE_CHARACTERS:
            return offload(self)
        return self.answer(services)

    def answer(self, services: Services) -> Answer:
        labels, choices = _labels(self.labels, self.choices)
        expected = _expected(self.expected, labels, choices)
        chosen = chosen_labels(str(self.text), labels, choices)
        wanted = words_of(expected)
        if not chosen:
            reason, passed = f"expected {wanted}, got a text that chooses none of {', '.join(labels)}", False
        elif chosen != expected:
            reason, passed = f"expected {wanted}, got {words_of(chosen)}", self.negate
        else:
            reason, passed = f"chooses {wanted}", not self.negate
        if chosen and self.negate:
            reason = f"expected another choice than {wanted}, got {words_of(chosen)}"
        return {"passed": passed, "chosen": chosen, "reason": reason}

    @classmethod
    def validate_literals(cls, literals: Mapping[str, Any]) -> None:
        if {"labels", "choices"} <= literals.keys():
            labels, choices = _labels(literals["labels"], literals["choices"])
            try:
                if "expected" in literals:
                    _expected(literals["expected"], labels, choices)
            except ValueFault as wrong:
                raise InvalidArgument("expected", str(wrong).removeprefix("expected: ")) from None


def _labels(labels: list[str] | UnsetType, choices: list[str] | UnsetType) -> tuple[list[str], list[str]]:
    """The labels, and the texts that they stand for, if they are given."""
    texts = [] if choices is UNSET else choices
    if labels is UNSET:
        return (list(LETTERS[: len(texts)]) if texts else DEFAULT), texts
    if len(set(map(str.casefold, labels))) < len(labels):
        raise InvalidArgument("labels", "expected labels that differ in more than case")
    if texts and len(texts) != len(labels):
        raise InvalidArgument(
            "labels", f"expected {len(texts)} labels, one for each choice, got {len(labels)}"
        )
    return labels, texts


def _expected(expected: list[str], labels: list[str], choices: list[str]) -> list[str]:
    """The expected labels in their order. A text of a choice stands for its label."""
    if not expected:
        raise ValueFault("expected: expected at least one label, got none")
    wanted: set[str] = set()
    for one in expected:
        if one in labels:
            wanted.add(one)
        elif one in choices:
            wanted.add(labels[choices.index(one)])
        else:
            raise ValueFault(f"expected: expected one of {', '.join(labels)}, got {one[:60]!r}")
    return [label for label in labels if label in wanted]


class LabelPatterns:
    """The patterns that find labels. Every repetition in them is bounded, so a search is linear in the text."""

    def __init__(self, labels: Iterable[str]) -> None:
        listed = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
        one = rf"(?<!\w)(?:{listed})(?!\w)"
        several = rf"{one}(?:[ ]?(?:,|and|&|or|/)[ ]?(?:and[ ])?[(*]{{0,3}}{one}[)*]{{0,3}}){{0,25}}"
        lead = (
            r"(?:\banswers?\b|\\boxed\{)[^\w\n]{0,10}(?:\s{0,3}(?:is|are|would be|should be)\b)?[^\w]{0,10}"
            r"(?:the )?(?:correct )?(?:option|choice|letter|answer)?[^\w]{0,10}(?:text\{)?[^\w]{0,5}"
        )
        self.whole = re.compile(rf"\W{{0,5}}({several})\W{{0,5}}", re.IGNORECASE)
        self.first = re.compile(rf"[^\w\n]{{0,5}}({one})[).:][^\n]*")
        self.stated = re.compile(rf"{lead}({several})", re.IGNORECASE)
        self.marked = re.compile(rf"\(({one})\)|^[^\w\n]{{0,5}}({one})[).:]", re.MULTILINE)
        self.alone = re.compile(rf"({one})(?! [a-z])")
        self.each = re.compile(one, re.IGNORECASE)


@lru_cache(maxsize=64)
def _patterns(labels: tuple[str, ...]) -> LabelPatterns:
    return LabelPatterns(labels)


def chosen_labels(text: str, labels: list[str], choices: list[str]) -> list[str]:
    """The labels that a text chooses, in the order of the labels; empty if it chooses none, or it is not clear."""
    patterns, text = _patterns(tuple(labels)), text.strip()
    if (whole := patterns.whole.fullmatch(text)) is not None:
        return _ordered(patterns.each.findall(whole[1]), labels)
    if (first := patterns.first.fullmatch(text)) is not None:
        return _ordered([first[1]], labels)
    if stated := patterns.stated.findall(text):
        return _ordered(patterns.each.findall(stated[-1]), labels)  # the last statement counts
    for found in (
        {one or other for one, other in patterns.marked.findall(text)},
        {labels[at] for at in _named_choices(text, choices)},
        set(patterns.alone.findall(text)),
    ):
        if found:
            return _ordered(found, labels) if len(found) == 1 else []
    return []


def _ordered(found: Iterable[str], labels: list[str]) -> list[str]:
    folded = {one.casefold() for one in found}
    return [label for label in labels if label.casefold() in folded]


def _named_choices(text: str, choices: list[str]) -> list[int]:
    """The choices whose text occurs, without those that are part of another one that occurs."""
    folded = text.casefold()
    there = [at for at, choice in enumerate(choices) if _occurs(choice.casefold(), folded)]
    return [
        at
        for at in there
        if not any(other != at and choices[at].casefold() in choices[other].casefold() for other in there)
    ]


def _occurs(choice: str, text: str) -> bool:
    """Whether a choice occurs, not as a part of a longer word."""
    at = text.find(choice)
    while at >= 0:
        end = at + len(choice)
        if not (at and text[at - 1].isalnum() and choice[0].isalnum()) and not (
            end < len(text) and text[end].isalnum() and choice[-1].isalnum()
        ):
            return True
        at = text.find(choice, end)
    return False
