"""Asking every provider once: what `assay providers` does, and how it tells of it."""

import asyncio
import os

import msgspec
from msgspec import Struct

from assay import app
from assay.backends.models.faults import address
from assay.backends.provider_config import VARIABLE, ProviderPolicy
from assay.backends.providers import OFFLINE, ConfiguredProviders
from assay.cli.say import give, tell_rows
from assay.errors import Fault, InvalidRequest, Refusal
from assay.fep.spending import dollars
from assay.ports import Message, Provider
from assay.settings import load

SCHEMA = {
    "type": "object",
    "required": ["ok"],
    "properties": {"ok": {"type": "boolean"}},
    "additionalProperties": False,
}
QUESTION = "This is a test of the connection. Answer with ok set to true."
WORKS, DOES_NOT = 0, 1


class ProviderInfo(Struct):
    """A provider as it is listed."""

    provider: str
    kind: str
    address: str
    key: str
    models: dict[str, str]


class ProviderCheck(Struct):
    """What came of asking one model. `works` is None where nobody was asked."""

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


def show(*, json: bool) -> None:
    known = _providers()
    told = [
        ProviderInfo(
            one.name,
            one.kind,
            address(one) if one.kind == "openai_compatible" else "offline",
            _key(one),
            {name: model for name, model in known.models.items() if _whose(model) == one.name},
        )
        for one in known.known.values()
    ]
    if json:
        give(msgspec.json.encode(told))
        return
    rows = [
        (
            one.provider,
            one.address,
            one.key,
            ", ".join(f"{name} = {model.partition(':')[2]}" for name, model in one.models.items()) or "–",
        )
        for one in told
    ]
    tell_rows([("provider", "address", "key", "models"), *rows])


def check(*, json: bool) -> int:
    calls = asyncio.run(_call_all(_providers()))
    if json:
        give(msgspec.json.encode(calls))
    else:
        header = ("provider", "for", "model", "")
        tell_rows(
            [header, *((call.provider, call.name or "–", call.model or "–", _told(call)) for call in calls)]
        )
    answers = [call.works for call in calls if call.works is not None]
    return WORKS if answers and all(answers) else DOES_NOT


def _providers() -> ConfiguredProviders:
    settings = load()
    known = app.providers(settings, ProviderPolicy(seconds=settings.limits.check_seconds))
    assert isinstance(known, ConfiguredProviders)
    return known


async def _call_all(known: ConfiguredProviders) -> list[ProviderCheck]:
    try:
        calls = [await _call(known, name, model) for name, model in known.models.items()]
        if "embedding" not in known.models:
            calls.append(await _default_embedding(known))
    finally:
        await known.close()
    asked = {call.provider for call in calls}
    silent = "nothing was asked: no model of it is named under [models]"
    return calls + [
        ProviderCheck(provider=name, why=silent)
        for name in known.known
        if name not in asked and name != OFFLINE.name
    ]


async def _call(known: ConfiguredProviders, name: str, model: str) -> ProviderCheck:
    call = ProviderCheck(provider=_whose(model), name=name, model=model.partition(":")[2])
    if not call.model:
        call.works, call.why = False, f"expected PROVIDER:MODEL, got {model!r}"
        return call
    purpose = "embedding" if "embed" in name or _offline(known, call.provider) else "judge"
    try:
        await (_embed if purpose == "embedding" else _judge)(known, call)
    except InvalidRequest as refusal:
        call.works, call.why = False, "; ".join(problem.message for problem in refusal.problems)
    except (Fault, Refusal) as wrong:
        call.works, call.why = False, str(wrong)
    return call


async def _default_embedding(known: ConfiguredProviders) -> ProviderCheck:
    """Nobody asked for it, so that it may be missing."""
    call = await _call(known, "embedding", "wordllama:wordllama")
    call.works = call.works or None
    return call


async def _judge(known: ConfiguredProviders, call: ProviderCheck) -> None:
    model, ask = known.model({"provider_name": call.provider}, {"model": call.model})
    reply = await model.complete(
        msgspec.structs.replace(ask, messages=(Message("user", QUESTION),), schema=SCHEMA)
    )
    match reply.value:
        case {"ok": bool()} if reply.finish_reason == "stop":
            call.works = True
        case _:
            said = reply.refusal or reply.problem or reply.text[:100]
            call.works, call.why = False, f"it answers, and not as it was asked to: {said}"
    spent = [reply.input_tokens, reply.output_tokens]
    call.tokens = None if None in spent else sum(one for one in spent if one is not None)
    call.model_version, call.structured = reply.model, reply.structured
    call.seconds, call.cost_usd = reply.seconds, reply.cost_usd


async def _embed(known: ConfiguredProviders, call: ProviderCheck) -> None:
    embed, _ = known.embedding({"provider_name": call.provider}, {"model": call.model})
    embedded = await embed([QUESTION])
    call.works = True
    call.model_version, call.tokens = embedded.model, embedded.tokens
    call.seconds, call.cost_usd = embedded.seconds, embedded.cost_usd


def _told(call: ProviderCheck) -> str:
    if not call.works:
        return call.why if call.works is None else f"does not work: {call.why}"
    cost = "at an unknown cost" if call.cost_usd is None else f"for {dollars(call.cost_usd)}"
    how = (
        "" if call.structured is None else ", structured" if call.structured else ", the schema in the prompt"
    )
    return f"works: {(call.seconds or 0) * 1000:,.0f} ms, {cost}{how}"


def _key(provider: Provider) -> str:
    """Where it comes from."""
    if provider.api_key is None:
        return "–"
    named = VARIABLE.fullmatch(provider.api_key.reveal())
    if named is None:
        return "given"
    return f"${{{named[1]}}}" + ("" if os.environ.get(named[1]) else " (not set)")


def _whose(model: str) -> str:
    return model.partition(":")[0]


def _offline(known: ConfiguredProviders, provider: str) -> bool:
    return provider in known.known and known.known[provider].kind == "wordllama"
