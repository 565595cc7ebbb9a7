"""The cost of answers per case and per run; known and unknown costs are counted apart (FEP-31)."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from assay.protocol.agents import MAX_TOKENS, MAX_USD
from assay.protocol.json_types import JSON, is_mapping, is_object
from assay.protocol.results import CheckResult
from assay.results.reasons import number_of


class Spending(Struct, frozen=True):
    """
    The spending of `calls` answers that have a cost or may have one.

    `cost_usd` is the sum, or None as soon as one cost is unknown; `known_cost_usd` is the sum of the others.
    """

    calls: int = 0
    cost_usd: float | None = 0.0
    known_cost_usd: float = 0.0
    unknown_costs: int = 0
    tokens: int | None = 0

    def __bool__(self) -> bool:
        return self.calls > 0

    def __add__(self, other: "Spending") -> "Spending":
        known = round(self.known_cost_usd + other.known_cost_usd, 12)
        unknown = self.unknown_costs + other.unknown_costs
        tokens = None if self.tokens is None or other.tokens is None else self.tokens + other.tokens
        return Spending(self.calls + other.calls, None if unknown else known, known, unknown, tokens)


NOTHING = Spending()


def spending_of(result: CheckResult) -> Spending:
    """The spending of a check: `cost_usd` and tokens from `results.metadata`, or from its own metadata if it failed."""
    metadata: Any = result.results.get("metadata") if result.status == "completed" else result.metadata
    if not is_mapping(metadata) or "cost_usd" not in metadata:
        return NOTHING
    cost = _valid_cost(metadata["cost_usd"])
    tokens = metadata.get("tokens_used", metadata.get("tokens_processed"))
    known = isinstance(tokens, int) and 0 <= tokens <= MAX_TOKENS
    return Spending(1, cost, cost or 0.0, int(cost is None), tokens if known else None)


def cost_of_check(results: JSON, metadata: Any) -> float | None:
    """What a judge or an embedding cost, if it is known."""
    for part in (results.get("metadata"), metadata):
        if is_object(part) and (cost := number_of(part.get("cost_usd"))) is not None:
            return cost
    return None


def spending_of_all(results: Iterable[CheckResult]) -> Spending:
    total = NOTHING
    for result in results:
        total += spending_of(result)
    return total


def _valid_cost(cost: Any) -> float | None:
    """The cost if it is a valid amount. Checks are foreign code: anything else is unknown (None)."""
    known = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= MAX_USD
    return float(cost) if known else None
