"""The cost of a call: the operator's prices, else published ones (genai-prices). An unknown cost is None, never 0."""

from decimal import Decimal
from functools import cache, lru_cache

import msgspec

from assay.backends.models.transport import base_url
from assay.cache import memoize
from assay.extras import missing_packages, require
from assay.ports import Prices, Provider

BATCH_SHARE = 0.5  # of the price of a single call: what OpenAI and Anthropic publish for their batches


class TokenCounts(msgspec.Struct, frozen=True):
    """
    Input tokens, output tokens, and those of the input that the provider read from its own cache or wrote to it.
    """

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    cache_writes: int | None = None


def need_prices(provider: Provider) -> None:
    """Refuse before the first call if prices cannot be looked up."""
    if provider.prices is None:
        require("the price of a model", "judges", package="genai-prices")


def cost(
    provider: Provider, models: tuple[str, ...], usage: TokenCounts, *, batch: bool = False
) -> float | None:
    """US dollars, by the first of the models that has a price: the one that answered, then the requested one."""
    if usage.input is None or usage.output is None:
        return None
    share = BATCH_SHARE if batch else 1.0
    if provider.prices is not None:
        return _configured_price(provider.prices, usage) * share
    where = base_url(provider)
    priced = next((model for model in models if _has_price(model, where)), None)
    return None if priced is None else _published_price(priced, where, usage) * share


def _published_price(model: str, provider_url: str, usage: TokenCounts, provider: str = "") -> float:
    """By URL and model: the same model may cost something else at another provider. By its name without a URL."""
    from genai_prices import Usage as Counted
    from genai_prices import calc_price

    read = usage.input or 0
    counted = Counted(
        input_tokens=read,
        output_tokens=usage.output or 0,
        cache_read_tokens=(cached := min(usage.cached or 0, read)),
        cache_write_tokens=min(usage.cache_writes or 0, read - cached),
    )
    if provider_url:
        price = calc_price(counted, model, provider_api_url=provider_url)
    else:
        price = calc_price(counted, model, provider_id=provider)
    return float(price.total_price)


_PROVIDERS = {  # names of OpenTelemetry, by those of the price list
    "gcp.gemini": "google", "gcp.vertex_ai": "google", "gcp.gen_ai": "google", "vertexai": "google",
    "aws.bedrock": "aws", "azure.ai.openai": "azure", "az.ai.openai": "azure", "azure.ai.inference": "azure",
    "mistral_ai": "mistral", "x_ai": "x-ai", "xai": "x-ai",
}  # fmt: skip


@cache
def _has_price_list() -> bool:
    return "genai-prices" not in missing_packages("judges")


@lru_cache(4096)  # by the numbers of tokens, so that a trace that repeats itself costs nothing
def published_cost(
    provider: str, model: str, sent: int, received: int, cached: int = 0, *, url: str = ""
) -> float | None:
    """
    US dollars of a call that assay did not make: of a trace, or of an agent of a framework. Its address, if it is
    known, says more about the provider than its name. None without a price list, or if it has no such model.
    """
    if not (provider or url) or not model or not _has_price_list():
        return None
    name = provider.lower()
    known = model.removeprefix(f"{name}/")
    where = "" if url else _PROVIDERS.get(name, name)
    if not _has_price(known, url, where):
        return None
    return _published_price(known, url, TokenCounts(sent, received, cached), where)


def _names(model: str, provider_url: str, provider: str = "") -> int:
    return len(model) + len(provider_url) + len(provider)


@memoize(1 << 20, _names)  # a name may come from a request
def _has_price(model: str, provider_url: str, provider: str = "") -> bool:
    """Kept also if it has none: the search for a model that is not in the list takes longest."""
    try:
        _published_price(model, provider_url, TokenCounts(0, 0), provider)
    except LookupError:
        return False
    return True


def _configured_price(prices: Prices, usage: TokenCounts) -> float:
    """Tokens of the provider's cache cost what other input costs, unless the prices say otherwise."""
    read = min(usage.cached or 0, usage.input or 0)
    written = min(usage.cache_writes or 0, (usage.input or 0) - read)
    parts = (
        (prices.input, (usage.input or 0) - read - written),
        (prices.input if prices.cache_read is None else prices.cache_read, read),
        (prices.input if prices.cache_write is None else prices.cache_write, written),
        (prices.output, usage.output or 0),
    )
    return float(sum(Decimal(str(price)) * tokens / 1_000_000 for price, tokens in parts))
