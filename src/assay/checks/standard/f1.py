"""
f1 (an extension to FEP): the F1 of the words that a text shares with its nearest reference, as SQuAD defines it.

Both are normalised first: lower case, without punctuation, without the articles a, an and the.
"""

import re
import string
from collections import Counter
from typing import Literal

from assay.checks.checker import Answer
from assay.checks.standard.measure import ReferenceMeasure, score_schema
from assay.ports import Services

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class F1(ReferenceMeasure):
    type = "f1"
    waits = False
    results_schema = score_schema(
        exact={"type": "boolean", "description": "equal to a reference after normalisation"}
    )

    mode: Literal["exact", "f1"] = "f1"

    def answer(self, services: Services) -> Answer:
        text = normalised(self.text)
        references = [normalised(one) for one in self.references]
        exact = text in references
        words = text.split()
        score = float(exact) if self.mode == "exact" else max(f1(words, one.split()) for one in references)
        return {"score": score, "exact": exact}


def normalised(text: str) -> str:
    """The text as SQuAD compares it."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def f1(words: list[str], reference: list[str]) -> float:
    """The harmonic mean of precision and recall of words. If one side has no words: 1 if both have none, else 0."""
    if not words or not reference:
        return float(words == reference)
    common = sum((Counter(words) & Counter(reference)).values())
    return 2 * common / (len(words) + len(reference))
