"""Models and embedders: the providers a host is configured with, and what they answer."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol

import msgspec

from assay.protocol.completion import Completion, CompletionRequest, Embeddings

# A text that is not shown by accident.


class Secret:
    """A key. Only `reveal()` gives its text; printed, formatted or put in a record it is `[REDACTED]`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "[REDACTED]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """US dollars per million tokens."""

    input: Annotated[float, msgspec.Meta(ge=0)]
    output: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    cache_read: Annotated[float, msgspec.Meta(ge=0)] | None = None  # None: as other input
    cache_write: Annotated[float, msgspec.Meta(ge=0)] | None = None


Positive = Annotated[float, msgspec.Meta(gt=0)]


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One configured provider (`[providers.NAME]`, FEP-39)."""

    name: str
    kind: Literal["openai_compatible", "anthropic", "wordllama", "scripted"] = "openai_compatible"
    base_url: str | None = None  # None: that of OpenAI, or of Anthropic
    api_key: Secret | None = None
    timeout: Positive = 60.0  # seconds for one attempt
    deadline: Positive = 180.0  # seconds for one call: all attempts and waits, without the time in the queue
    queue_timeout: Positive = (
        600.0  # seconds that one call may queue: for a slot, and as long as a 429 demands
    )
    max_retries: Annotated[int, msgspec.Meta(ge=0)] = 3  # after the first attempt
    max_concurrency: Annotated[int, msgspec.Meta(ge=1)] = 64
    requests_per_minute: Positive | None = None
    batch_poll: Positive = 30.0  # seconds between two looks at a batch
    batch_requests: Annotated[int, msgspec.Meta(ge=1, le=50_000)] = 10_000  # of one batch
    structured: bool = (
        True  # False: the endpoint does not support `response_format`; the schema goes into the prompt
    )
    script: str | None = None  # for kind scripted: the file with its answers
    prices: Prices | None = None  # instead of the published ones


class Model(Protocol):
    """A chat model. A failure is a TimeFault, or a ForeignFault that says whether a retry may help (FEP-26)."""

    async def complete(self, request: CompletionRequest) -> Completion: ...

    async def close(self) -> None: ...


class Embedder(Protocol):
    """An embedding model. It fails as a Model does."""

    async def embed(
        self, texts: Sequence[str], *, model: str, dimensions: int | None = None
    ) -> Embeddings: ...

    async def close(self) -> None: ...


Config = Mapping[str, Any] | None
Embed = Callable[[Sequence[str]], Awaitable[Embeddings]]


class Providers(Protocol):
    """
    The models a host offers, chosen by a check's `provider_config` and `model_config` (FEP-39).

    A choice that is not possible is an InvalidRequest whose place is the check's argument. Repeating a choice is cheap.
    """

    @property
    def remote(self) -> bool:
        """Whether any model chosen so far is reached over the network."""
        ...

    def model(self, provider_config: Config, model_config: Config) -> tuple[Model, CompletionRequest]:
        """Return the model and a request without messages. Its `timeout` covers an answer and its repair."""
        ...

    def embedding(self, provider_config: Config, model_config: Config) -> tuple[Embed, str]:
        """Return the embedding function and the name of the model."""
        ...

    async def close(self) -> None:
        """Close this event loop's connections."""
        ...


class RepeatCounter:
    """Counts equal requests of one run: a cached completion answers only the first (`CompletionRequest.repeat`)."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def of(self, question: Any) -> int:
        """Return how many equal requests came before this one."""
        key = hash(question)
        self._counts[key] = count = self._counts.get(key, -1) + 1
        return count
