"""Providers that are created at the first use: most runs call no model and need not load the clients."""

from collections.abc import Callable

from assay.ports import CompletionRequest, Config, Embed, Model, Providers


class LazyProviders:
    def __init__(self, make: Callable[[], Providers]) -> None:
        self._make = make
        self._made: Providers | None = None

    @property
    def exist(self) -> bool:
        """Whether they have been created, so that `close` has work to do."""
        return self._made is not None

    @property
    def remote(self) -> bool:
        return self._made is not None and self._made.remote

    def model(self, provider_config: Config, model_config: Config) -> tuple[Model, CompletionRequest]:
        return self._providers().model(provider_config, model_config)

    def embedding(self, provider_config: Config, model_config: Config) -> tuple[Embed, str]:
        return self._providers().embedding(provider_config, model_config)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()

    def _providers(self) -> Providers:
        if self._made is None:
            self._made = self._make()
        return self._made
