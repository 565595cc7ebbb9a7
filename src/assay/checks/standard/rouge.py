"""
rouge (an extension to FEP): the words, pairs of words or the longest common sequence that a text shares with its
nearest reference, as the package rouge-score defines it without a stemmer. rapidfuzz finds the sequence.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from assay.checks.checker import Answer
from assay.checks.standard.measure import SCORE, ReferenceMeasure, library, score_schema
from assay.ports import Services

_NO_WORD = re.compile(r"[^a-z0-9]+")
Variant = Literal["rouge1", "rouge2", "rouge3", "rougeL"]


class Rouge(ReferenceMeasure):
    type = "rouge"
    waits = False
    package = "rapidfuzz"
    results_schema = score_schema(precision=SCORE, recall=SCORE)

    variant: Variant = "rougeL"

    def answer(self, services: Services) -> Answer:
        words = words_in(self.text)
        found = max(
            (measure(words, words_in(one), self.variant) for one in self.references),
            key=lambda one: one.score,
        )
        return {**found._asdict(), "metadata": library("rapidfuzz")}


class Overlap(NamedTuple):
    score: float
    precision: float
    recall: float


def words_in(text: str) -> list[str]:
    """Letters and digits of ASCII in lower case; everything else separates words."""
    return _NO_WORD.sub(" ", text.lower()).split()


def measure(words: Sequence[str], reference: Sequence[str], variant: Variant) -> Overlap:
    """Precision, recall and their harmonic mean."""
    if variant == "rougeL":
        return _overlap(_common_sequence(words, reference), len(words), len(reference))
    size = int(variant.removeprefix("rouge"))
    left, right = _grams(words, size), _grams(reference, size)
    return _overlap(sum((left & right).values()), left.total(), right.total())


def _grams(words: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[at:] for at in range(size)), strict=False))


def _common_sequence(words: Sequence[str], reference: Sequence[str]) -> int:
    from rapidfuzz.distance import LCSseq  # deferred import: the extra `text`

    numbers: dict[str, int] = {}  # equal words and equal numbers: hashes of words could be equal by chance
    left, right = ([numbers.setdefault(one, len(numbers)) for one in part] for part in (words, reference))
    return LCSseq.similarity(left, right)


def _overlap(common: int, words: int, reference: int) -> Overlap:
    precision, recall = common / max(words, 1), common / max(reference, 1)
    both = precision + recall
    return Overlap(2 * precision * recall / both if both else 0.0, precision, recall)
