"""Chooses models and embedders by name (FEP 2.3.6, FEP-39)."""

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, Literal

import msgspec

from assay.backends import provider_config as provider_tables
from assay.backends.embedders.cached import CachedEmbedder
from assay.backends.embedders.openai_compatible import OpenAICompatibleEmbedder
from assay.backends.embedders.wordllama import MODEL as WORDLLAMA
from assay.backends.embedders.wordllama import NAMES as WORDLLAMA_NAMES
from assay.backends.embedders.wordllama import SIZES, WordLlamaEmbedder
from assay.backends.models.anthropic import AnthropicModel
from assay.backends.models.cached import CachedModel, DiskCache
from assay.backends.models.openai_compatible import OpenAICompatibleModel
from assay.backends.models.provider_client import ProviderClient, load_transport
from assay.backends.models.scripted import ScriptedProvider
from assay.backends.provider_config import InvalidProviderConfig, ProviderPolicy, host_of
from assay.errors import Fault, InvalidRequest, Problem
from assay.extras import require
from assay.ports import (
    RESERVED_PARAMETERS,
    Completion,
    CompletionRequest,
    Config,
    Embed,
    Embedder,
    Model,
    Provider,
)
from assay.ports.batches import BatchOptions
from assay.ports.telemetry import telemetry

OFFLINE = Provider(name="wordllama", kind="wordllama")
CHOICES = 4_096  # in the cache; requests may contain any number
Purpose = Literal["judge", "embedding"]


class ConfiguredProviders:
    """
    The providers and models of the settings, and those that checks configure. Each provider has one client.

        providers = ConfiguredProviders({"local": Provider(name="local", base_url=…)}, {"judge": "local:llama3:8b"})
        model, ask = providers.model(None, {"temperature": 0})
    """

    def __init__(
        self,
        providers: Mapping[str, Provider],
        models: Mapping[str, str] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        policy: ProviderPolicy | None = None,
        cache: DiskCache | None = None,
        batch: BatchOptions | None = None,
    ) -> None:
        """`batch`: requests that may wait go into batches."""
        self.known = {OFFLINE.name: OFFLINE, **providers}
        self.models = dict(models or {})
        self._environment, self._policy, self._cache = environment or {}, policy or ProviderPolicy(), cache
        self._batch = batch
        self._choices: dict[tuple[str, bytes], Any] = {}
        self._lines: dict[Provider, ProviderClient] = {}
        self._models: dict[Provider, Model] = {}
        self._embedders: dict[Provider, Embedder] = {}

    @property
    def remote(self) -> bool:
        """Whether any model chosen so far is reached over the network."""
        return bool(self._lines)

    def model(self, provider_config: Config, model_config: Config) -> tuple[Model, CompletionRequest]:
        def choose() -> tuple[Model, CompletionRequest]:
            provider, name, rest = self._choice("judge", provider_config or {}, model_config or {})
            if provider.kind == "wordllama":
                raise _refusal(
                    "provider_config", f"provider {provider.name!r} has only embeddings; it cannot judge"
                )
            if taken := sorted(RESERVED_PARAMETERS & rest.keys()):
                raise _refusal(
                    f"model_config.{taken[0]}", "this parameter is reserved; a caller cannot set it"
                )
            return self._model(provider), CompletionRequest(
                messages=(), model=name, parameters=rest, timeout=provider.deadline
            )

        return self._cached_choice("judge", provider_config, model_config, choose)

    def embedding(self, provider_config: Config, model_config: Config) -> tuple[Embed, str]:
        def choose() -> tuple[Embed, str]:
            provider, name, rest = self._choice("embedding", provider_config or {}, model_config or {})
            size = _dimensions(rest)
            if provider.kind in ("scripted", "anthropic"):
                reason = (
                    "is scripted; it" if provider.kind == "scripted" else "is of the kind anthropic, which"
                )
                raise _refusal("provider_config", f"provider {provider.name!r} {reason} has no embeddings")
            if provider.kind == "wordllama":
                _check_offline(provider.name, name, size)
            return partial(self._embedder(provider).embed, model=name, dimensions=size), name

        return self._cached_choice("embedding", provider_config, model_config, choose)

    async def close(self) -> None:
        for each in (*self._models.values(), *self._embedders.values()):
            await each.close()

    def _cached_choice(
        self, purpose: Purpose, provider_config: Config, model_config: Config, choose: Any
    ) -> Any:
        key = purpose, msgspec.json.encode([provider_config, model_config])
        found = self._choices.get(key)
        if found is None:
            found = choose()
            if len(self._choices) >= CHOICES:
                self._choices.clear()
            self._choices[key] = found
        return found

    def _choice(
        self, purpose: Purpose, provider: Mapping[str, Any], model: Mapping[str, Any]
    ) -> tuple[Provider, str, dict[str, Any]]:
        """The provider, the model's name, and the rest of `model_config`."""
        rest = dict(model)
        model_name, named = rest.pop("model", None), provider.get("provider_name")
        for place, value in (("model_config.model", model_name), ("provider_config.provider_name", named)):
            if value is not None and not (isinstance(value, str) and value):
                raise _refusal(place, "expected a name, which is a string")
        whose, name = self._provider_and_model(purpose, model_name, named)
        described = {member: value for member, value in provider.items() if member != "provider_name"}
        if not self._policy.trusted and described:
            raise _refusal(
                f"provider_config.{next(iter(described))}",
                "a request may only name a provider that this host has configured, by provider_name",
            )
        chosen = self._provider(purpose, named or (None if "base_url" in described else whose), described)
        if name is None:
            message = (
                f"expected a model of {chosen.name!r}; set it here, or {purpose} under [models] in assay.toml"
            )
            raise _refusal("model_config.model", message)
        return chosen, name, rest

    def _provider_and_model(
        self, purpose: Purpose, model_name: str | None, provider_name: str | None
    ) -> tuple[str | None, str | None]:
        """Resolve names to a provider and a model; `model_name`: a model, a class of `[models]`, or provider:model."""
        usual = self._of_class(purpose) or (("wordllama", WORDLLAMA) if purpose == "embedding" else None)
        if model_name is None:
            if provider_name is None or (usual and usual[0] == provider_name):
                return usual or (self._default(purpose), None)
            return provider_name, WORDLLAMA if self._kind(provider_name) == "wordllama" else None
        if provider_name is None:
            whose, colon, name = model_name.partition(":")
            if found := self._of_class(model_name):
                return found
            if colon and whose in self.known:
                return whose, name
            if model_name in WORDLLAMA_NAMES and purpose == "embedding":
                return OFFLINE.name, model_name
        return self._default(purpose), model_name

    def _of_class(self, name: str) -> tuple[str, str] | None:
        if (entry := self.models.get(name)) is None:
            return None
        provider, _, model = entry.partition(":")
        if provider not in self.known or not model:
            raise _refusal(
                "model_config",
                f"[models] {name} = {entry!r}: expected PROVIDER:MODEL of a provider that is configured",
            )
        return provider, model

    def _default(self, purpose: Purpose) -> str | None:
        """The default provider: that of `[models]`, or the only one."""
        if found := self._of_class(purpose):
            return found[0]
        configured = [name for name in self.known if name != OFFLINE.name]
        if len(configured) > 1:  # keys of the environment may be there for other programs
            configured = [name for name in configured if name != "anthropic"]
        return configured[0] if len(configured) == 1 else None

    def _kind(self, name: str) -> str | None:
        return self.known[name].kind if name in self.known else None

    def _provider(self, purpose: Purpose, name: str | None, config: dict[str, Any]) -> Provider:
        base = self.known.get(name) if name else None
        if base is None and "base_url" not in config:
            raise self._no_provider(purpose, name)
        url = config.get("base_url")
        try:
            provider = provider_tables.read(
                name or host_of(url if isinstance(url, str) else ""), config, base
            )
            provider = provider_tables.ready(provider, self._environment)
        except InvalidProviderConfig as wrong:
            theirs = wrong.member.partition(".")[0] in config or not base or not wrong.member
            place = f"provider_config.{wrong.member}".rstrip(".") if theirs else "provider_config"
            raise _refusal(
                place, str(wrong) if theirs else f"[providers.{name}] {wrong.member}: {wrong}"
            ) from None
        return msgspec.structs.replace(
            provider,
            deadline=min(provider.deadline, self._policy.seconds),
            max_concurrency=max(1, provider.max_concurrency // self._policy.share),
            requests_per_minute=provider.requests_per_minute
            and provider.requests_per_minute / self._policy.share,
        )

    def _no_provider(self, purpose: Purpose, name: str | None) -> InvalidRequest:
        there = ", ".join(self.known)
        if name is not None:
            key = f"; set {provider_tables.KEYS[name]}" if name in provider_tables.KEYS else ""
            return _refusal("provider_config.provider_name", f"no provider {name!r}; there are {there}{key}")
        if len(self.known) > 1:
            return _refusal("provider_config", f"expected provider_name, one of {there}")
        return _refusal(
            "provider_config",
            f"there is no provider for {'a judgement' if purpose == 'judge' else 'that model'}: set OPENAI_API_KEY or"
            " ANTHROPIC_API_KEY, or"
            f" [providers.NAME] and {purpose} under [models] in assay.toml",
        )

    def _model(self, provider: Provider) -> Model:
        model = self._models.get(provider)
        if model is None:
            scripted = provider.kind == "scripted"
            model = ScriptedProvider(provider) if scripted else self._remote_model(provider)
            model = MeteredModel(model, provider.name) if telemetry.on else model
            model = CachedModel(model, self._cache, provider) if self._cache and not scripted else model
            self._models[provider] = model
        return model

    def _remote_model(self, provider: Provider) -> Model:
        line = self._line(provider)
        anthropic = provider.kind == "anthropic"
        model = AnthropicModel(line) if anthropic else OpenAICompatibleModel(line)
        if self._batch is None:
            return model
        from assay.backends.models.batches.open import batched  # deferred import: few runs use batches

        return batched(model, provider, self._batch)

    def _embedder(self, provider: Provider) -> Embedder:
        embedder = self._embedders.get(provider)
        if embedder is None:
            if provider.kind == "wordllama":
                embedder = WordLlamaEmbedder(provider.name)
            else:
                embedder = OpenAICompatibleEmbedder(self._line(provider))
                embedder = CachedEmbedder(embedder, self._cache, provider) if self._cache else embedder
            self._embedders[provider] = embedder
        return embedder

    def _line(self, provider: Provider) -> ProviderClient:
        """Load the transport now, before anything is timed."""
        line = self._lines.get(provider)
        if line is None:
            load_transport()
            line = self._lines[provider] = ProviderClient(provider)
            if provider.prices is None:
                require("the price of a model", "judges", package="genai-prices")
                import_module("genai_prices")
        return line


def _dimensions(rest: dict[str, Any]) -> int | None:
    """Read the other members of an embedding's `model_config`."""
    size = rest.pop("dimensions", None)
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
        raise _refusal("model_config.dimensions", "expected a whole number above 0")
    if rest.pop("encoding_format", "float") != "float":
        raise _refusal("model_config.encoding_format", "expected 'float'")
    if rest:
        name = next(iter(rest))
        raise _refusal(f"model_config.{name}", "embeddings take model, dimensions and encoding_format")
    return size


def _check_offline(provider: str, model: str, size: int | None) -> None:
    if model not in WORDLLAMA_NAMES:
        names = ", ".join(sorted(WORDLLAMA_NAMES))
        raise _refusal("model_config.model", f"provider {provider!r} has no model {model!r}; it has {names}")
    if size is not None and size not in SIZES:
        sizes = ", ".join(map(str, SIZES))
        raise _refusal("model_config.dimensions", f"provider {provider!r} has vectors of {sizes} numbers")


def _refusal(path: str, message: str) -> InvalidRequest:
    return InvalidRequest(Problem(path, message))


# A model that records metrics by provider: calls, durations, costs.


class MeteredModel:
    def __init__(self, inner: Model, provider: str) -> None:
        self._inner, self._provider = inner, provider

    async def complete(self, request: CompletionRequest) -> Completion:
        try:
            reply = await self._inner.complete(request)
        except Fault as fault:
            telemetry.add("assay_model_calls", 1, self._provider, fault.type)
            raise
        telemetry.add("assay_model_calls", 1, self._provider, "ok")
        telemetry.observe("assay_model_seconds", reply.seconds, self._provider)
        for direction, many in (("input", reply.input_tokens), ("output", reply.output_tokens)):
            telemetry.add("assay_model_tokens", many or 0, self._provider, direction)
        telemetry.add("assay_model_cost_usd", reply.cost_usd or 0, self._provider)
        return reply

    async def close(self) -> None:
        await self._inner.close()
