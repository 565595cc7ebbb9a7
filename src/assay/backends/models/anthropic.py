"""A model behind Anthropic's messages protocol. A structured answer is the call of one tool, `reply`."""

from typing import Any

import msgspec

from assay.backends.models.completions import (
    Tokens,
    ToolNames,
    completion_of,
    decode_answer,
    require_unreserved,
    schema_in_prompt,
    tool_call,
)
from assay.backends.models.prices import TokenCounts, need_prices
from assay.backends.models.provider_client import ProviderClient, ProviderResponse
from assay.backends.models.transport import to_json
from assay.ports import RESERVED_PARAMETERS, Completion, CompletionRequest, Message

PATH = "/messages"
REPLY = "reply"  # the tool that takes a structured answer
OUTPUT_TOKENS = 4096  # the protocol requires a limit; `max_tokens` of the parameters changes it
RESERVED = RESERVED_PARAMETERS | {"system", "tool_choice"}
ENDS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class AnthropicModel:
    """
    Asks for a structured answer as the only tool that may be called. The beginning of a prompt that is the same for all
    cases ends in a mark, so that the provider reads it from its cache.
    """

    path = PATH

    def __init__(self, line: ProviderClient) -> None:
        need_prices(line.provider)
        self._line = line

    async def complete(self, request: CompletionRequest) -> Completion:
        structured = self.structures(request)
        timeout = self._line.provider.deadline if request.timeout is None else request.timeout
        body = self.encode(request, structured=structured)
        return self.read(request, await self._line.post(PATH, body, timeout=timeout), structured=structured)

    async def close(self) -> None:
        await self._line.close()

    def structures(self, ask: CompletionRequest) -> bool:
        """Whether the answer is asked for as a tool call: only an object can be one."""
        schema = ask.schema
        return (
            schema is not None and self._line.provider.structured and schema.get("type", "object") == "object"
        )

    def encode(self, ask: CompletionRequest, *, structured: bool) -> bytes:
        require_unreserved(ask, RESERVED)
        messages = ask.messages
        if ask.schema is not None and not structured:
            messages = schema_in_prompt(messages, ask.schema)
        names = ToolNames(ask.tools)
        tools: list[dict[str, Any]] = [
            {
                "name": names.of[tool.id],
                "description": tool.description,
                "input_schema": tool.input_schema or {"type": "object", "properties": {}},
            }
            for tool in ask.tools
        ]
        body: dict[str, Any] = {"model": ask.model, "max_tokens": OUTPUT_TOKENS, **ask.parameters}
        if structured:
            described = "Takes the answer."
            schema: dict[str, Any] = {"type": "object", **(ask.schema or {})}
            tools.append({"name": REPLY, "description": described, "input_schema": schema})
            body["tool_choice"] = {"type": "any"} if ask.tools else {"type": "tool", "name": REPLY}
        if tools:
            body["tools"] = tools
        if system := "\n\n".join(one.content for one in messages if one.role == "system"):
            body["system"] = system
        body["messages"] = [_message(one, names) for one in messages if one.role != "system"]
        return to_json(body)

    def read(
        self, ask: CompletionRequest, response: ProviderResponse, *, structured: bool, batch: bool = False
    ) -> Completion:
        provider = self._line.provider
        message = decode_answer(provider, response.body, _answer, "a message")
        replies = [
            one for one in message.content if one.type == "tool_use" and one.name == REPLY and structured
        ]
        names = ToolNames(ask.tools)
        calls = tuple(
            tool_call(one.id, at, one.name, bytes(one.input).decode(), names)
            for at, one in enumerate(message.content, 1)
            if one.type == "tool_use" and one not in replies and ask.tools
        )
        text = bytes(replies[0].input).decode() if replies else "".join(one.text for one in message.content)
        end = ENDS.get(message.stop_reason or "", message.stop_reason)
        return completion_of(
            ask,
            response,
            provider,
            text=text,
            calls=calls,
            finish_reason="stop" if replies and end == "tool_calls" else end,
            refusal=(text or "it gave no reason") if end == "content_filter" else None,
            model=message.model,
            usage=_usage(message.usage),
            structured=structured,
            batch=batch,
        )


def _message(message: Message, names: ToolNames) -> dict[str, Any]:
    if message.role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content}
        return {"role": "user", "content": [result]}
    blocks: list[dict[str, Any]] = []
    if message.fixed:
        fixed = {"type": "text", "text": message.content[: message.fixed]}
        blocks.append(fixed | {"cache_control": {"type": "ephemeral"}})
    if rest := message.content[message.fixed :]:  # an empty block is refused
        blocks.append({"type": "text", "text": rest})
    blocks += [
        {
            "type": "tool_use",
            "id": call.id,
            "name": names.of.get(call.tool, call.tool),
            "input": call.arguments,
        }
        for call in message.tool_calls
    ]
    return {"role": message.role, "content": blocks}


class _Block(msgspec.Struct):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class _Answer(msgspec.Struct):
    content: list[_Block]
    model: str | None = None
    stop_reason: str | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")


class _TokenUsage(msgspec.Struct):
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    cache_read_input_tokens: Tokens | None = None
    cache_creation_input_tokens: Tokens | None = None


_answer = msgspec.json.Decoder(_Answer)
_used = msgspec.json.Decoder(_TokenUsage | None)


def _usage(raw: msgspec.Raw) -> TokenCounts:
    """The token counts, if they are valid; else unknown. Its input tokens do not count those of the cache."""
    try:
        used = _used.decode(raw)
    except msgspec.DecodeError:
        used = None
    if used is None:
        return TokenCounts()
    read, written = used.cache_read_input_tokens, used.cache_creation_input_tokens
    sent = None if used.input_tokens is None else used.input_tokens + (read or 0) + (written or 0)
    return TokenCounts(sent, used.output_tokens, read, written)
