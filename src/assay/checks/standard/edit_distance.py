"""edit_distance (an extension to FEP): how many edits make a text into its nearest reference. rapidfuzz measures it."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from assay.checks.checker import Answer
from assay.checks.standard.measure import ReferenceMeasure, library, score_schema
from assay.ports import Services

INLINE_PAIRS = 10_000_000  # of characters that are compared in place: about a millisecond
Metric = Literal["indel", "levenshtein", "osa"]


class EditDistance(ReferenceMeasure):
    type = "edit_distance"
    waits = False
    package = "rapidfuzz"
    results_schema = score_schema(distance={"type": "integer", "minimum": 0})

    max_distance: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    metric: Metric = "levenshtein"

    def is_long(self) -> bool:
        references = self.characters - len(self.text)
        return super().is_long() or len(self.text) * references > INLINE_PAIRS

    def answer(self, services: Services) -> Answer:
        text = str(self.text)
        distance, score = max(
            (measure(text, str(one), self.metric) for one in self.references), key=lambda found: found[1]
        )
        return {"score": score, "distance": distance, "metadata": library("rapidfuzz")}

    def judge(self, answer: Answer) -> Answer:
        judged = super().judge(answer)
        if self.max_distance is UNSET:
            return judged
        near = judged["distance"] <= self.max_distance
        return {**judged, "passed": near and judged.get("passed", True)}


def measure(text: str, reference: str, metric: Metric) -> tuple[int, float]:
    """The distance, and the similarity from 0 to 1: the share of characters that need no edit."""
    from rapidfuzz.distance import OSA, Indel, Levenshtein  # deferred import: the extra `text`

    module = {"indel": Indel, "levenshtein": Levenshtein, "osa": OSA}[metric]
    distance = module.distance(text, reference)
    longest = len(text) + len(reference) if metric == "indel" else max(len(text), len(reference))
    return distance, 1 - distance / longest if longest else 1.0
