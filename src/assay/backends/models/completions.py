"""What the protocols of models share: names of tools, a schema in the prompt, and what is read of an answer."""

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

import msgspec

from assay.backends.models.json_reply import read_value
from assay.backends.models.key_scrubbing import content_key, without_key
from assay.backends.models.prices import TokenCounts, cost
from assay.backends.models.provider_client import ProviderResponse
from assay.errors import ForeignFault, ValueFault
from assay.ports import RESERVED_PARAMETERS, Completion, CompletionRequest, Message, Provider, ToolCall
from assay.protocol.agents import MAX_TOKENS, ToolSpec
from assay.protocol.json_types import is_object

LONGEST = 64  # characters of the name of a function
Tokens = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKENS)]
T = TypeVar("T")
IN_PROMPT = (
    "Answer with exactly one JSON value that fits this JSON Schema, and with nothing before or after it:\n"
)


class ToolNames:
    """Maps tool ids to function names and back: `shop:orders` is `shop_orders`, unless another tool has that name."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self.of: dict[str, str] = {}
        self.back: dict[str, str] = {}
        for tool in tools:
            name = plain = re.sub(r"[^a-zA-Z0-9_-]", "_", tool.id)[:LONGEST]
            count = 1
            while name in self.back:
                count += 1
                name = f"{plain[: LONGEST - 4]}_{count}"
            self.of[tool.id], self.back[name] = name, tool.id


def require_unreserved(ask: CompletionRequest, reserved: frozenset[str] = RESERVED_PARAMETERS) -> None:
    if taken := reserved & ask.parameters.keys():
        raise ValueFault(f"a model's parameters may not set {', '.join(sorted(taken))}")


def schema_in_prompt(messages: tuple[Message, ...], schema: dict[str, Any]) -> tuple[Message, ...]:
    """Put the schema into the system message, before any content of an output."""
    text = IN_PROMPT + json.dumps(schema)
    if messages and messages[0].role == "system":
        return (Message("system", f"{messages[0].content}\n\n{text}"), *messages[1:])
    return (Message("system", text), *messages)


def decode_answer(provider: Provider, body: bytes, decoder: msgspec.json.Decoder[T], expected: str) -> T:
    """The answer of a provider; a ForeignFault if it is not what was expected."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as wrong:
        raise ForeignFault(f"provider {provider.name!r} answered 200 without {expected}: {wrong}") from None


def tool_call(
    id: str | None, index: int, name: str, arguments: str | dict[str, Any] | None, names: ToolNames
) -> ToolCall:
    """
    A requested call. An unknown name stays as it is; the call will be refused.

    Arguments are a text with JSON; some endpoints send an object.
    """
    value, problem = read_value(arguments or "{}") if isinstance(arguments, str) else (arguments or {}, None)
    if problem is None and not is_object(value):
        problem = "is not an object"
    return ToolCall(
        id=id or f"call-{index}",
        tool=names.back.get(name, name),
        arguments=value if problem is None else {},
        problem=problem,
    )


def completion_of(
    ask: CompletionRequest,
    response: ProviderResponse,
    provider: Provider,
    *,
    text: str,
    calls: tuple[ToolCall, ...],
    finish_reason: str | None,
    refusal: str | None,
    model: str | None,
    usage: TokenCounts,
    structured: bool,
    batch: bool,
) -> Completion:
    """The key of the provider is taken out of what was parsed: a reply is shown and kept."""
    value, problem = (msgspec.UNSET, None) if ask.schema is None or calls else read_value(text)
    hidden = content_key(provider)
    return Completion(
        text=without_key(text, hidden),
        value=without_key(value, hidden),
        problem=without_key(problem, hidden),
        finish_reason=without_key(finish_reason, hidden) or "unknown",
        refusal=without_key(refusal, hidden) or None,
        tool_calls=_without_key(calls, hidden),
        structured=structured,
        model=without_key(model, hidden) or ask.model,
        provider=provider.name,
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cached,
        cache_write_tokens=usage.cache_writes,
        cost_usd=cost(provider, (model, ask.model) if model else (ask.model,), usage, batch=batch),
        seconds=response.seconds,
        attempts=response.attempts,
    )


def _without_key(calls: tuple[ToolCall, ...], key: str) -> tuple[ToolCall, ...]:
    if not key:
        return calls
    return tuple(msgspec.convert(without_key(msgspec.to_builtins(call), key), ToolCall) for call in calls)
