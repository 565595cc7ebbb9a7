"""Model calls of workflows (openwop-contract §13.4, §13.9): the mock, a provider's model, or a stored answer by key."""

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec

from assay.checks.schema_validator import validator_for
from assay.errors import Conflict, Fault, InvalidRequest, Problem
from assay.ports import Message, PutDocument, Services, Store, Transaction
from assay.protocol.canonical import canonical
from assay.protocol.json_types import is_list, is_object
from assay.protocol.redaction import safe_name
from assay.workflow.state.effects import AskModel, EffectError

MOCK = "mock"
PROGRAMS = "mock-ai"
ANSWERS = "llm-answer"
Answer = dict[str, Any]  # `value` or `refusal`, and `usage`


async def program_mock(store: Store, tenant: str, node: str, entries: list[dict[str, Any]]) -> int:
    """Set what the mock answers at a node, one entry per call. It replaces the queue of that node."""
    queue = [_read_program(one) for one in entries]
    data = msgspec.json.encode(queue)
    change = PutDocument(tenant=tenant, kind=PROGRAMS, key=node, data=data, version=None)
    await store.commit(Transaction(documents=[change]))
    return len(queue)


async def complete(store: Store, services: Services, tenant: str, ask: AskModel) -> Answer | EffectError:
    if ask.provider == MOCK:
        return await _mock_answer(store, tenant, ask)
    if services.providers is None:
        return EffectError("capability_not_provided", f"this host has no provider {ask.provider!r}")
    try:
        model, question = services.providers.model({"provider_name": ask.provider}, {"model": ask.model})
        messages = tuple(Message(one["role"], one["content"]) for one in ask.messages)
        reply = await model.complete(
            msgspec.structs.replace(question, messages=messages, schema=ask.schema or None)
        )
    except InvalidRequest as refusal:
        return EffectError("capability_not_provided", "; ".join(one.message for one in refusal.problems))
    except Fault as fault:
        return EffectError("model_unreachable", f"the model could not be called: {type(fault).__name__}")
    usage: dict[str, Any] = {
        "provider": safe_name(reply.provider),
        "model": safe_name(reply.model),
        "input_tokens": reply.input_tokens or 0,
        "output_tokens": reply.output_tokens or 0,
    } | ({} if reply.cost_usd is None else {"cost_estimate_usd": reply.cost_usd, "currency": "USD"})
    if reply.refusal is not None or reply.finish_reason == "content_filter":
        return {"refusal": reply.refusal or "", "usage": usage}
    if reply.problem or not _fits(reply.value, ask.schema):
        return EffectError("envelope_invalid", "the model's answer does not match the requested schema")
    return {"value": reply.value, "usage": usage}


async def cached_answer(store: Store, tenant: str, ask: AskModel) -> Answer | None:
    """The stored answer to the same call, if there is one."""
    found = await store.document(tenant, ANSWERS, key_of(ask))
    return None if found is None else msgspec.json.decode(found.data)


def cache_puts(tenant: str, ask: AskModel, answer: Answer) -> list[PutDocument]:
    """The documents that store an answer. Answers of the mock are not stored."""
    if ask.provider == MOCK or not ("value" in answer or "refusal" in answer):
        return []
    data = msgspec.json.encode(
        {name: answer[name] for name in ("value", "refusal", "usage") if name in answer}
    )
    return [PutDocument(tenant=tenant, kind=ANSWERS, key=key_of(ask), data=data, version=None)]


def key_of(ask: AskModel) -> str:
    call: dict[str, Any] = {"provider": ask.provider, "model": ask.model, "messages": ask.messages}
    return cache_key(call | {"responseFormat": ask.schema})


async def _mock_answer(store: Store, tenant: str, ask: AskModel) -> Answer:
    while True:
        found = await store.document(tenant, PROGRAMS, ask.node)
        queue: list[Answer] = [] if found is None else msgspec.json.decode(found.data)
        if found is None or not queue:
            return {"value": minimal_value(ask.schema)}
        rest = msgspec.json.encode(queue[1:])
        change = PutDocument(tenant=tenant, kind=PROGRAMS, key=ask.node, data=rest, version=found.version)
        try:
            await store.commit(Transaction(documents=[change]))
        except Conflict:
            continue  # another call took that entry
        return queue[0]


def _read_program(entry: Mapping[str, Any]) -> Answer:
    """Both dialects: `{content, stopReason, refusalText?}` and `{mode, …}`."""
    if entry.get("stopReason") == "safety" or "refusalText" in entry or entry.get("mode") == "refusal":
        return {"refusal": str(entry.get("refusalText", ""))}
    content = entry.get("content", entry.get("envelope", entry.get("value")))
    if isinstance(content, str):
        with suppress(msgspec.DecodeError):
            content = msgspec.json.decode(content)
    return {"value": content}


def minimal_value(schema: Mapping[str, Any]) -> Any:
    """The smallest value that matches a plain schema."""
    properties: dict[str, Any] = schema.get("properties", {})
    usual: dict[str, Any] = {
        "object": {name: minimal_value(properties.get(name, {})) for name in schema.get("required", ())},
        "array": [],
        "string": "",
        "number": 0,
        "integer": 0,
        "boolean": True,
        "null": None,
    }
    return usual.get(schema.get("type", "object"))


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    return not schema or (is_object(value) and validator_for(msgspec.json.encode(schema)).is_valid(value))


# The cache key of a model call (openwop-contract §13.9, `openwop-semantic-request-v2`): it covers all that
# changes the outcome.

RECIPE = "openwop-semantic-request-v2"
NUMBERS = ("temperature", "topP", "topK", "maxOutputTokens", "seed")
OBJECTS = ("responseFormat", "safetySettings")


def cache_key(call: Mapping[str, Any]) -> str:
    """64 hex digits for a flat request, or an InvalidRequest with every problem."""
    problems = [
        Problem(name, "expected a text")
        for name in ("provider", "model")
        if not isinstance(call.get(name), str)
    ]
    if not is_list(call.get("messages")):
        problems.append(Problem("messages", "expected a list"))
    if problems:
        raise InvalidRequest(problems)
    request: dict[str, Any] = {"messages": call["messages"]}
    tools = call.get("tools")
    if is_list(tools) and tools:
        request["tools"] = sorted(tools, key=_by_name)
    for name in NUMBERS:
        if isinstance(call.get(name), int | float) and not isinstance(call[name], bool):
            request[name] = call[name]
    if is_list(call.get("stop")):
        request["stop"] = call["stop"]
    request |= {name: call[name] for name in OBJECTS if is_object(call.get(name))}
    document = {"recipe": RECIPE, "provider": call["provider"], "model": call["model"], "request": request}
    if is_object(options := call.get("providerOptions")) and options:
        document["providerOptions"] = options
    return sha256(canonical(document).encode("utf-8", "surrogatepass")).hexdigest()


def _by_name(tool: Any) -> bytes:
    name = tool.get("name", "") if is_object(tool) else ""
    return str(name).encode("utf-16-be", "surrogatepass")
