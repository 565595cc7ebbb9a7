"""`assay providers`: list the providers of judges and embeddings, and check that they answer (FEP 2.3.6)."""

import asyncio
import os

import msgspec
import typer
from msgspec import Struct

from assay.backends.models.provider_faults import address
from assay.backends.provider_config import REMOTE, VARIABLE, ProviderPolicy
from assay.backends.providers import OFFLINE, ConfiguredProviders
from assay.cli.console.console import echo_json, echo_rows
from assay.errors import Fault, InvalidRequest, Refusal
from assay.errors.exit_codes import ERROR, PASSED
from assay.host import parts
from assay.ports import Message, Provider
from assay.settings import load
from assay.stats.number_text import format_usd

SCHEMA = {
    "type": "object",
    "required": ["ok"],
    "properties": {"ok": {"type": "boolean"}},
    "additionalProperties": False,
}
QUESTION = "This is a test of the connection. Answer with ok set to true."


class ProviderInfo(Struct):
    """A provider in the list."""

    provider: str
    kind: str
    address: str
    key: str
    models: dict[str, str]


class ProviderCheck(Struct):
    """The outcome of calling one model. `works` is None if it was not called."""

    provider: str
    name: str = ""  # under [models]
    model: str = ""
    works: bool | None = None
    why: str = ""
    model_version: str = ""
    seconds: float | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    structured: bool | None = None


def list_providers(*, json: bool) -> None:
    """Print the providers and their models."""
    configured = _configured_providers()
    infos = [
        ProviderInfo(
            provider.name,
            provider.kind,
            address(provider) if provider.kind in REMOTE else "offline",
            _key(provider),
            {
                name: model
                for name, model in configured.models.items()
                if _provider_of(model) == provider.name
            },
        )
        for provider in configured.known.values()
    ]
    if json:
        echo_json(msgspec.json.encode(infos))
        return
    rows = [
        (
            info.provider,
            info.address,
            info.key,
            ", ".join(f"{name} = {model.partition(':')[2]}" for name, model in info.models.items()) or "–",
        )
        for info in infos
    ]
    echo_rows([("provider", "address", "key", "models"), *rows])


def check(*, json: bool) -> None:
    """Call every model once and print the outcomes; exit with 1 unless all work."""
    calls = asyncio.run(_call_all(_configured_providers()))
    if json:
        echo_json(msgspec.json.encode(calls))
    else:
        header = ("provider", "for", "model", "")
        rows = ((call.provider, call.name or "–", call.model or "–", _report(call)) for call in calls)
        echo_rows([header, *rows])
    outcomes = [call.works for call in calls if call.works is not None]
    raise typer.Exit(PASSED if outcomes and all(outcomes) else ERROR)


def _configured_providers() -> ConfiguredProviders:
    settings = load()
    providers = parts.providers(settings, ProviderPolicy(seconds=settings.limits.check_seconds))
    assert isinstance(providers, ConfiguredProviders)
    return providers


async def _call_all(providers: ConfiguredProviders) -> list[ProviderCheck]:
    try:
        calls = [await _call(providers, name, model) for name, model in providers.models.items()]
        if "embedding" not in providers.models:
            calls.append(await _default_embedding(providers))
    finally:
        await providers.close()
    called = {call.provider for call in calls}
    message = "not called: it has no model under [models]"
    return calls + [
        ProviderCheck(provider=name, why=message)
        for name in providers.known
        if name not in called and name != OFFLINE.name
    ]


async def _call(providers: ConfiguredProviders, name: str, model: str) -> ProviderCheck:
    call = ProviderCheck(provider=_provider_of(model), name=name, model=model.partition(":")[2])
    if not call.model:
        call.works, call.why = False, f"expected PROVIDER:MODEL, got {model!r}"
        return call
    purpose = "embedding" if "embed" in name or _offline(providers, call.provider) else "judge"
    try:
        await (_embed if purpose == "embedding" else _judge)(providers, call)
    except InvalidRequest as refusal:
        call.works, call.why = False, "; ".join(problem.message for problem in refusal.problems)
    except (Fault, Refusal) as error:
        call.works, call.why = False, str(error)
    return call


async def _default_embedding(providers: ConfiguredProviders) -> ProviderCheck:
    """The offline embedding. The settings do not name it, so it may be missing."""
    call = await _call(providers, "embedding", "wordllama:wordllama")
    call.works = call.works or None
    return call


async def _judge(providers: ConfiguredProviders, call: ProviderCheck) -> None:
    model, request = providers.model({"provider_name": call.provider}, {"model": call.model})
    reply = await model.complete(
        msgspec.structs.replace(request, messages=(Message("user", QUESTION),), schema=SCHEMA)
    )
    match reply.value:
        case {"ok": bool()} if reply.finish_reason == "stop":
            call.works = True
        case _:
            answer = reply.refusal or reply.problem or reply.text[:100]
            call.works = False
            call.why = f"the model answered, but not in the requested format: {answer}"
    tokens = [reply.input_tokens, reply.output_tokens]
    call.tokens = None if None in tokens else sum(count for count in tokens if count is not None)
    call.model_version, call.structured = reply.model, reply.structured
    call.seconds, call.cost_usd = reply.seconds, reply.cost_usd


async def _embed(providers: ConfiguredProviders, call: ProviderCheck) -> None:
    embed, _ = providers.embedding({"provider_name": call.provider}, {"model": call.model})
    embeddings = await embed([QUESTION])
    call.works = True
    call.model_version, call.tokens = embeddings.model, embeddings.tokens
    call.seconds, call.cost_usd = embeddings.seconds, embeddings.cost_usd


def _report(call: ProviderCheck) -> str:
    if not call.works:
        return call.why if call.works is None else f"does not work: {call.why}"
    cost = "at an unknown cost" if call.cost_usd is None else f"for {format_usd(call.cost_usd)}"
    schema = (
        "" if call.structured is None else ", structured" if call.structured else ", schema in the prompt"
    )
    return f"works: {(call.seconds or 0) * 1000:,.0f} ms, {cost}{schema}"


def _key(provider: Provider) -> str:
    """Where the key comes from."""
    if provider.api_key is None:
        return "–"
    variable = VARIABLE.fullmatch(provider.api_key.reveal())
    if variable is None:
        return "in the settings"
    return f"${{{variable[1]}}}" + ("" if os.environ.get(variable[1]) else " (not set)")


def _provider_of(model: str) -> str:
    return model.partition(":")[0]


def _offline(providers: ConfiguredProviders, provider: str) -> bool:
    return provider in providers.known and providers.known[provider].kind == "wordllama"
