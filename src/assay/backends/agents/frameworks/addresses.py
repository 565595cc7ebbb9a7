"""The address that a model of a framework asks. It decides the price: a server of your own has none."""

import os
from collections.abc import Iterator
from typing import Any

from assay.protocol.json_types import is_object

NAMES = (
    "base_url",
    "api_base",
    "openai_api_base",
    "endpoint_url",
    "azure_endpoint",
)  # of an address, in this order
PLACES = ("client_args", "client_kwargs", "_additional_args")  # of the arguments of a model's client
OPENAI_VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_BASE")  # where the clients of OpenAI look themselves


def address_of(provider: str, *models: Any) -> str:
    """
    The address that these objects and members name, else that of the environment; "": the provider's own.

    A client that exists knows best, then the arguments of which one is made, then the model itself.
    """
    for place in (place for model in models for place in _places(model)):
        for name in NAMES:
            found = place.get(name) if is_object(place) else getattr(place, name, None)
            if found and not callable(found):
                return str(found)
    if "openai" not in provider.lower():
        return ""
    return next((found for name in OPENAI_VARIABLES if (found := os.environ.get(name))), "")


def _places(model: Any) -> Iterator[Any]:
    if is_object(model):
        yield model
        return
    yield getattr(model, "client", None)
    for name in PLACES:
        yield getattr(model, name, None)
    yield model
