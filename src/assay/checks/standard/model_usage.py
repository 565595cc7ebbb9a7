"""Shared by checks that call a model: the providers, and the usage and cost of calls (FEP-31, FEP-39)."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from assay.errors import Fault, InvalidRequest, Problem, TimeFault
from assay.ports import Providers, Services
from assay.protocol.completion import Completion, Embeddings


def providers_of(services: Services) -> Providers:
    if services.providers is None:
        raise InvalidRequest(Problem("provider_config", "this host has no providers: no model can be called"))
    return services.providers


def or_none(config: Any) -> Mapping[str, Any] | None:
    """An optional argument as a mapping or None."""
    return None if config is UNSET else config


class ModelUsage:
    """The replies of a model to one check and their cost. The sum is None if one cost is unknown."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._calls = 1
        self._replies: list[Completion] = []

    @classmethod
    def of(cls, parts: "Sequence[ModelUsage]") -> "ModelUsage":
        """The usage of several calls at once, as one."""
        usage = cls(", ".join(dict.fromkeys(part._model for part in parts)))
        usage._calls = len(parts)
        usage._replies = [reply for part in parts for reply in part._replies]
        return usage

    def add(self, reply: Completion) -> Completion:
        self._replies.append(reply)
        return reply

    @property
    def seconds(self) -> float:
        return sum(reply.seconds for reply in self._replies)

    @property
    def spent_seconds(self) -> float:
        """The seconds that count against a limit. The time in a batch does not."""
        return sum(reply.seconds for reply in self._replies if not reply.batch)

    def metadata(self) -> dict[str, Any]:
        replies, last = self._replies, self._replies[-1]
        input_tokens = _sum([reply.input_tokens for reply in replies])
        output_tokens = _sum([reply.output_tokens for reply in replies])
        metadata: dict[str, Any] = {
            "provider": last.provider,
            "model": self._model,
            "model_version": last.model,
            "finish_reason": last.finish_reason,
            "cost_usd": _sum([reply.cost_usd for reply in replies]),
            "tokens_used": _sum([input_tokens, output_tokens]),
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            **_cache_tokens(replies),
            "response_time_ms": round(self.seconds * 1000, 3),
            "attempts": sum(reply.attempts for reply in replies),
            "structured": last.structured,
            "cached": all(reply.cached for reply in replies),
        }
        metadata |= {"batch": True} if any(reply.batch for reply in replies) else {}
        metadata |= {"saved_usd": _sum([reply.saved_usd for reply in replies])} if metadata["cached"] else {}
        return metadata | ({"repaired": True} if len(replies) > self._calls else {})

    def attach_to(self, fault: Fault) -> Fault:
        """The fault with the usage so far. A late answer may be billed, so its cost is unknown."""
        metadata = self.metadata() if self._replies else {"model": self._model}
        fault.metadata = metadata | ({"cost_usd": None} if isinstance(fault, TimeFault) else {})
        return fault


def embedding_metadata(embeddings: Embeddings, model: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "provider": embeddings.provider,
        "model": model,
        "model_version": embeddings.model,
        "cost_usd": embeddings.cost_usd,
        "tokens_processed": embeddings.tokens,
        "dimensions_used": len(embeddings.vectors[0]),
        "response_time_ms": round(embeddings.seconds * 1000, 3),
        "attempts": embeddings.attempts,
        "cached": embeddings.cached,
    }
    return metadata | ({"saved_usd": embeddings.saved_usd} if embeddings.cached else {})


def _cache_tokens(replies: list[Completion]) -> dict[str, int]:
    """The tokens of the input that a provider read from its cache and wrote to it, if it says so."""
    read = [one.cache_read_tokens for one in replies if one.cache_read_tokens is not None]
    written = [one.cache_write_tokens for one in replies if one.cache_write_tokens is not None]
    parts = {"cache_read_tokens": read, "cache_write_tokens": written}
    return {name: sum(tokens) for name, tokens in parts.items() if tokens}


def _sum(parts: list[Any]) -> Any:
    return None if None in parts else sum(parts)
