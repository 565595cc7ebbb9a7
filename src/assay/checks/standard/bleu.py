"""bleu (an extension to FEP): the BLEU of one text against its references, from 0 to 1. sacrebleu measures it."""

from typing import Literal

from assay.checks.checker import Answer
from assay.checks.standard.measure import ReferenceMeasure, library, score_schema
from assay.ports import Services

Tokenize = Literal["13a", "char", "intl", "none", "zh"]
Smooth = Literal["add-k", "exp", "floor", "none"]


class Bleu(ReferenceMeasure):
    type = "bleu"
    waits = False
    package = "sacrebleu"
    results_schema = score_schema()

    tokenize: Tokenize = "13a"
    smooth: Smooth = "exp"
    case_sensitive: bool = True

    def is_long(self) -> bool:
        """Always: the import of sacrebleu takes a quarter of a second."""
        return True

    def answer(self, services: Services) -> Answer:
        score, signature = measure(
            str(self.text), list(map(str, self.references)), self.tokenize, self.smooth, self.case_sensitive
        )
        return {"score": score, "metadata": {**library("sacrebleu"), "signature": signature}}


def measure(
    text: str, references: list[str], tokenize: Tokenize, smooth: Smooth, case_sensitive: bool
) -> tuple[float, str]:
    """The BLEU of a sentence, of the n-grams that it is long enough for; and the signature of sacrebleu."""
    from sacrebleu.metrics.bleu import BLEU  # deferred import: the extra `text`

    metric = BLEU(lowercase=not case_sensitive, tokenize=tokenize, smooth_method=smooth, effective_order=True)
    score = metric.sentence_score(text, references).score / 100
    return min(1.0, max(0.0, score)), str(metric.get_signature())
