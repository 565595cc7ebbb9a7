"""What checks that ask a model share: whom they may ask, and what it cost (decisions 31, 39)."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from assay.errors import Fault, InvalidRequest, Problem, TimeFault
from assay.ports import Providers, Services
from assay.protocol.completion import Completion, Embeddings


def providers_of(services: Services) -> Providers:
    if services.providers is None:
        raise InvalidRequest(
            Problem("provider_config", "nobody can be asked here: this host has no providers")
        )
    return services.providers


def resolve_model(config: Any) -> Mapping[str, Any] | None:
    """An argument that may be absent."""
    return None if config is UNSET else config


class ModelUsage:
    """What a check was told, in one reply or several, and what that cost. One cost that is unknown hides the sum."""

    def __init__(self, asked_for: str) -> None:
        self._asked_for = asked_for
        self._replies: list[Completion] = []

    def add(self, reply: Completion) -> Completion:
        self._replies.append(reply)
        return reply

    @property
    def seconds(self) -> float:
        return sum(reply.seconds for reply in self._replies)

    def told(self) -> dict[str, Any]:
        replies, last = self._replies, self._replies[-1]
        read = _sum([reply.input_tokens for reply in replies])
        written = _sum([reply.output_tokens for reply in replies])
        told: dict[str, Any] = {
            "provider": last.provider,
            "model": self._asked_for,
            "model_version": last.model,
            "finish_reason": last.finish_reason,
            "cost_usd": _sum([reply.cost_usd for reply in replies]),
            "tokens_used": _sum([read, written]),
            "input_tokens": read,
            "output_tokens": written,
            "response_time_ms": round(self.seconds * 1000, 3),
            "attempts": sum(reply.attempts for reply in replies),
            "structured": last.structured,
            "cached": all(reply.cached for reply in replies),
        }
        told |= {"saved_usd": _sum([reply.saved_usd for reply in replies])} if told["cached"] else {}
        return told | ({"repaired": True} if len(replies) > 1 else {})

    def after(self, fault: Fault) -> Fault:
        """The fault, with what was spent until it came. An answer that was too late may be billed: nobody knows."""
        told = self.told() if self._replies else {"model": self._asked_for}
        fault.metadata = told | ({"cost_usd": None} if isinstance(fault, TimeFault) else {})
        return fault


def told_of(embedded: Embeddings, asked_for: str) -> dict[str, Any]:
    told: dict[str, Any] = {
        "provider": embedded.provider,
        "model": asked_for,
        "model_version": embedded.model,
        "cost_usd": embedded.cost_usd,
        "tokens_processed": embedded.tokens,
        "dimensions_used": len(embedded.vectors[0]),
        "response_time_ms": round(embedded.seconds * 1000, 3),
        "attempts": embedded.attempts,
        "cached": embedded.cached,
    }
    return told | ({"saved_usd": embedded.saved_usd} if embedded.cached else {})


def _sum(parts: list[Any]) -> Any:
    return None if None in parts else sum(parts)
