"""
Parses a provider's configuration: `[providers.NAME]` in assay.toml, or `provider_config` of a check.

Messages quote no value except the provider's kind, redacted: any other value may be a key.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from assay.backends.models.transport import base_url
from assay.ports import CompletionRequest, Config, Embed, Model, Provider, Providers, Secret
from assay.protocol.json_types import preview
from assay.protocol.redaction import redact_text
from assay.protocol.validation_messages import message_of, path_in

VARIABLE = re.compile(r"\$\{(\w+)\}")
REMOTE = ("openai_compatible", "anthropic")  # the kinds that are reached over the network
KEYS = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
}  # of the providers that a key alone defines
FIELDS = tuple(name for name in Provider.__struct_fields__ if name != "name")


class ProviderPolicy(NamedTuple):
    """What a caller may configure, and its limits."""

    seconds: float = 60.0  # for one answer, including its repair
    trusted: bool = True  # False: a request, which may only name a configured provider
    share: int = 1  # processes that share a provider's limits


class InvalidProviderConfig(ValueError):
    """An invalid member of a provider's configuration; an empty `member` means all of it."""

    def __init__(self, member: str, message: str) -> None:
        self.member = member
        super().__init__(message)


def read(name: str, table: Mapping[str, Any], base: Provider | None = None) -> Provider:
    """
    Parse a table, as changes to `base` if there is one. `${VARIABLES}` are not expanded.

    A key is sent only to the URL it was configured for: another address drops the key of `base`.
    """
    for member in table:
        if member not in FIELDS:
            raise InvalidProviderConfig(
                member, f"no such setting of a provider; there are {', '.join(FIELDS)}"
            )
    try:
        settings = msgspec.convert({**table, "name": name}, Provider, dec_hook=_secret)
    except msgspec.ValidationError as wrong:
        member, message = path_in(wrong).lstrip("."), message_of(wrong, Provider, include_value=False)
        if member == "kind" and isinstance(kind := table.get("kind"), str):
            message += f", got {preview(redact_text(kind))}"
        raise InvalidProviderConfig(member, message) from None
    if base is None:
        return settings
    members = {member: getattr(settings, member) for member in table}
    changed = msgspec.structs.replace(base, **members)
    if base_url(changed) != base_url(base) and "api_key" not in members:  # the kind changes it too
        return msgspec.structs.replace(changed, api_key=None)
    return changed


def ready(provider: Provider, environment: Mapping[str, str]) -> Provider:
    """Expand its `${VARIABLES}` and check its URL."""
    key = provider.api_key and Secret(expand(provider.api_key.reveal(), environment, "api_key"))
    url = provider.base_url and expand(provider.base_url, environment, "base_url").rstrip("/")
    if provider.kind in REMOTE:
        published = base_url(msgspec.structs.replace(provider, base_url=None))
        _check_address(url or published)
        if key is None and (url or published) == published:
            raise InvalidProviderConfig(
                "", f"provider {provider.name!r} has no key; {_advice(provider.name)}"
            )
    return msgspec.structs.replace(provider, api_key=key, base_url=url or None)


def host_of(url: str) -> str:
    """A name for a provider without one."""
    try:
        return urlsplit(url).hostname or "unnamed"
    except ValueError:
        return "unnamed"


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise InvalidProviderConfig(
            "base_url", "expected an address such as https://api.example.com/v1"
        ) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidProviderConfig("base_url", "expected an address such as https://api.example.com/v1")
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidProviderConfig(
            "base_url", "expected an address without user, query or fragment; a key goes into api_key"
        )


def expand(text: str, environment: Mapping[str, str], member: str) -> str:
    def value(match: re.Match[str]) -> str:
        if not (value := environment.get(match[1])):
            raise InvalidProviderConfig(member, f"${{{match[1]}}}: the environment has no {match[1]}")
        return value

    return VARIABLE.sub(value, text)


def _advice(name: str) -> str:
    table = f"api_key under [providers.{name}] in assay.toml"
    variable = KEYS.get(name)
    return f"set {variable}, or {table}" if variable else f"set {table}"


def _secret(kind: type, value: Any) -> Any:
    if kind is Secret and isinstance(value, str) and value:
        return Secret(value)
    raise ValueError("expected a key, which is a string")


# Providers that are created at the first use: most runs call no model and need not load the clients.


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
