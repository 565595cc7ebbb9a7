"""
ngram_overlap (an extension to FEP): BLEU, GLEU and ROUGE-N of words, as promptfoo defines them. The checks bleu and
rouge have the definitions of sacrebleu and rouge-score.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from math import exp, log
from typing import Literal

from assay.checks.checker import Answer, closed_object
from assay.checks.standard.measure import PASSED, SCORE, ReferenceMeasure
from assay.checks.standard.treebank import treebank_words
from assay.ports import Services

Variant = Literal["bleu", "gleu", "rouge-n"]
ORDERS = range(1, 5)  # words of an n-gram
NEAR_ZERO = 1e-7  # in place of a precision of 0
# what separates words in JavaScript
SPACE = "\t\n\v\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_SPACES = re.compile(f"[{SPACE}]+")


class NgramOverlap(ReferenceMeasure):
    type = "ngram_overlap"
    waits = False
    results_schema = closed_object({"score": SCORE, "passed": PASSED}, optional=("passed",))

    variant: Variant = "bleu"

    def answer(self, services: Services) -> Answer:
        score = MEASURES[self.variant](str(self.text), list(map(str, self.references)))
        return {"score": min(1.0, max(0.0, score))}


def bleu(text: str, references: Sequence[str]) -> float:
    """The n-grams of the reference that has most of them, and the length of the reference of the nearest length."""
    if not _SPACES.sub("", text):
        return 0.0
    words, others = _words(text), [_words(one) for one in references]
    nearest = min((len(one) for one in others), key=lambda size: (abs(size - len(words)), size))
    precisions: list[float] = []
    for order in ORDERS:
        found = _grams(words, order)
        if found:
            most = max((found & _grams(one, order)).total() for one in others)
            precisions.append(most / found.total())
    share = 0.25 / sum(0.25 for _ in precisions)
    mean = 0.0
    for precision in precisions:
        mean += share * log(precision or NEAR_ZERO)
    return (1.0 if len(words) > nearest else exp(1 - nearest / len(words))) * exp(mean)


def gleu(text: str, references: Sequence[str]) -> float:
    """The smaller one of precision and recall of all n-grams, of the nearest reference. Full stops do not count."""
    return max(_gleu(_bare_words(text), _bare_words(one)) for one in references)


def _gleu(words: list[str], reference: list[str]) -> float:
    if words == reference:
        return 1.0
    same = of_words = of_reference = 0
    for order in ORDERS:
        left, right = _grams(words, order), _grams(reference, order)
        same += (left & right).total()
        of_words, of_reference = of_words + left.total(), of_reference + right.total()
    return min(same / of_words, same / of_reference)


def rouge_n(text: str, references: Sequence[str]) -> float:
    """The F of the words that both have, as the Penn Treebank separates them; of the nearest reference."""
    words = treebank_words(text.lower())
    return max(_rouge(words, treebank_words(one.lower())) for one in references)


def _rouge(words: list[str], reference: list[str]) -> float:
    same = (Counter(words) & Counter(reference)).total()
    if not same:
        return 0.0
    low, high = sorted((same / len(words), same / len(reference)))
    return low if low == high else min(high, low * (2 / (1 + low / high)))


def _words(text: str) -> list[str]:
    """Words in lower case. A text of spaces has one word, which is empty, as in JavaScript."""
    return _SPACES.split(trimmed(text.lower()))


def trimmed(text: str) -> str:
    """The text without spaces around it, as JavaScript knows them."""
    start = found.end() if (found := _SPACES.match(text)) else 0
    end = len(text)
    while end > start and _SPACES.match(text, end - 1):
        end -= 1
    return text[start:end]


def _bare_words(text: str) -> list[str]:
    return [one.rstrip(".") for one in _words(text)]


def _grams(words: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[at:] for at in range(size)), strict=False))


MEASURES: dict[Variant, Callable[[str, Sequence[str]], float]] = {
    "bleu": bleu,
    "gleu": gleu,
    "rouge-n": rouge_n,
}
