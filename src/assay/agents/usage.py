"""Meters the usage of model calls."""

import math
from typing import Any

import msgspec

from assay.ports import Completion, CompletionRequest, Config, Embed, Model, Providers
from assay.protocol.agents import MAX_TOKENS, MAX_USD, Usage
from assay.protocol.redaction import safe_name


class MeteredProviders:
    """Wraps providers and appends the usage of each model call to `usages`."""

    def __init__(self, providers: Providers, usages: list[Usage] | None = None) -> None:
        self._inner = providers
        self.usages: list[Usage] = [] if usages is None else usages

    @property
    def remote(self) -> bool:
        return self._inner.remote

    def model(self, provider_config: Config, model_config: Config) -> tuple[Model, CompletionRequest]:
        model, ask = self._inner.model(provider_config, model_config)
        return _MeteredModel(model, self.usages), ask

    def embedding(self, provider_config: Config, model_config: Config) -> tuple[Embed, str]:
        return self._inner.embedding(provider_config, model_config)

    async def close(self) -> None:
        await self._inner.close()


class _MeteredModel:
    def __init__(self, model: Model, usages: list[Usage]) -> None:
        self._model, self._usages = model, usages

    async def complete(self, request: CompletionRequest) -> Completion:
        reply = await self._model.complete(request)
        self._usages.append(usage_of(reply))
        return reply

    async def close(self) -> None:
        await self._model.close()


def usage_of(reply: Completion) -> Usage:
    """The usage of a completion. Unknown tokens become 0, as an event needs a number; then the cost is unknown."""
    return Usage(
        provider=safe_name(reply.provider),
        model=safe_name(reply.model),
        input_tokens=reply.input_tokens or 0,
        output_tokens=reply.output_tokens or 0,
        cost_usd=reply.cost_usd,
        cached=reply.cached,
    )


def valid_usage(value: Any) -> Usage:
    """Parse the usage that an agent reports. A ValueError says what is wrong: counts and costs are not below 0."""
    try:
        usage = msgspec.convert(value, Usage)
    except msgspec.ValidationError as wrong:
        raise ValueError(f"usage: {str(wrong).replace('Expected', 'expected')}") from None
    cost = usage.cost_usd
    if usage.input_tokens < 0 or usage.output_tokens < 0 or (cost is not None and not 0 <= cost < math.inf):
        raise ValueError("usage: expected counts of tokens and a cost that are not below 0")
    if max(usage.input_tokens, usage.output_tokens) > MAX_TOKENS:
        raise ValueError(f"usage: expected counts of tokens of at most {MAX_TOKENS:,}")
    if cost is not None and cost > MAX_USD:
        raise ValueError(f"usage: expected a cost of at most {MAX_USD:,} US dollars")
    return usage
