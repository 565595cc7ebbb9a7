"""
semantic_similarity (FEP 2.3.6): the similarity of two texts by their embeddings (FEP-24).

Similar texts need not agree: embeddings do not separate a claim from its negation. A text without words has
similarity 0.
"""

from collections.abc import Mapping, Sequence
from math import inf, sqrt
from operator import mul
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from assay.checks.checker import Answer, Checker, Opaque, Text, closed_object
from assay.checks.standard.model_usage import embedding_metadata, or_none, providers_of
from assay.checks.standard.threshold import check_bounds, in_range
from assay.ports import Services

UnitInterval = Annotated[int, Meta(ge=0, le=1)] | Annotated[float, Meta(ge=0, le=1)]
Metric = Literal["cosine", "dot", "euclidean"]


class SimilarityThreshold(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a score has to lie, as in `threshold` (FEP-23)."""

    min_value: UnitInterval | UnsetType = UNSET
    max_value: UnitInterval | UnsetType = UNSET
    min_inclusive: bool = True
    max_inclusive: bool = True
    negate: bool = False

    def __post_init__(self) -> None:
        check_bounds(self.min_value, self.max_value)

    def is_met(self, score: float) -> bool:
        inside = in_range(score, self.min_value, self.max_value, self.min_inclusive, self.max_inclusive)
        return inside != self.negate


class SemanticSimilarity(Checker):
    type = "semantic_similarity"
    keeps_time = True
    results_schema = closed_object(
        {
            "response": closed_object(
                {
                    "score": {"type": "number", "minimum": 0, "maximum": 1},
                    "passed": {"type": "boolean", "description": "where there is a threshold"},
                },
                optional=("passed",),
            ),
            "metadata": {"type": "object", "description": "provider, model, cost_usd, tokens_processed, …"},
        }
    )

    text: Text
    reference: Text
    threshold: SimilarityThreshold | UnsetType = UNSET
    provider_config: Opaque | UnsetType = UNSET
    model_config: Opaque | UnsetType = UNSET
    similarity_metric: Metric = "cosine"

    async def run(self, services: Services) -> Answer:
        providers = providers_of(services)
        embed, model = providers.embedding(or_none(self.provider_config), or_none(self.model_config))
        embeddings = await embed([str(self.text), str(self.reference)])
        left, right = embeddings.vectors
        score = similarity(left, right, self.similarity_metric)
        response: dict[str, Any] = {"score": score}
        if self.threshold is not UNSET:
            response["passed"] = self.threshold.is_met(score)
        return {"response": response, "metadata": embedding_metadata(embeddings, model)}

    @classmethod
    def validate_host(cls, literals: Mapping[str, Any], services: Services) -> None:
        providers = providers_of(services)
        providers.embedding(or_none(literals["provider_config"]), or_none(literals["model_config"]))


def similarity(left: Sequence[float], right: Sequence[float], metric: Metric) -> float:
    """
    The similarity from 0 to 1. Vectors are normalised, so `dot` equals `cosine`. Negative values and zero vectors
    give 0.
    """
    if not any(left) or not any(right):
        return 0.0
    if metric == "euclidean":
        return 1 / (1 + sqrt(sum((a - b) ** 2 for a, b in zip(_unit(left), _unit(right), strict=True))))
    if left == right:
        return 1.0  # exact: no rounding error of the square root
    return min(1.0, max(0.0, sum(map(mul, _unit(left), _unit(right)))))


def _unit(vector: Sequence[float]) -> list[float]:
    """The vector with length 1. It is scaled first if the squares of its numbers overflow or underflow."""
    length = sqrt(sum(map(mul, vector, vector)))
    if length in (0.0, inf):
        largest = max(map(abs, vector))
        vector = [number / largest for number in vector]
        length = sqrt(sum(map(mul, vector, vector)))
    return [number / length for number in vector]
