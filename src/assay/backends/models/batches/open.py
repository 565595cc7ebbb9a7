"""The batches of a provider by its kind."""

import msgspec

from assay.backends.models.batches.anthropic import AnthropicBatches
from assay.backends.models.batches.model import BatchableModel, BatchedModel
from assay.backends.models.batches.openai import OpenAIBatches
from assay.backends.models.provider_client import ProviderClient
from assay.ports import Provider
from assay.ports.batches import BatchOptions, BatchProvider

LARGEST = 512 * 1024 * 1024  # bytes of the answers of a batch
MIN_TIMEOUT = 600.0  # seconds for a file


def batched(model: BatchableModel, provider: Provider, options: BatchOptions) -> BatchedModel:
    """The model with batches. They have connections of their own, with more time and for larger answers."""
    timeout = max(provider.timeout, MIN_TIMEOUT)
    line = ProviderClient(
        msgspec.structs.replace(provider, timeout=timeout, deadline=2 * timeout), max_bytes=LARGEST
    )

    def backend() -> BatchProvider:
        return AnthropicBatches(line) if provider.kind == "anthropic" else OpenAIBatches(line)

    return BatchedModel(model, provider, backend, options, line.close)
