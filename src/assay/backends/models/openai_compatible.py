"""A model behind an endpoint with OpenAI's chat protocol (FEP 2.3.6, `llm_judge`)."""

import json
from collections.abc import Iterable
from typing import Annotated, Any, cast

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
from assay.backends.models.provider_faults import Rejected
from assay.backends.models.transport import to_json
from assay.ports import Completion, CompletionRequest, Message, ToolCall
from assay.protocol.agents import ToolSpec


class _Function(msgspec.Struct):
    name: str
    arguments: str | dict[str, Any] | None = None


class RawToolCall(msgspec.Struct):
    function: _Function
    id: str | None = None


def tool_definitions(tools: Iterable[ToolSpec], names: ToolNames) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": names.of[tool.id],
                "description": tool.description,
                "parameters": tool.input_schema or {"type": "object", "properties": {}},
            },
        }
        for tool in tools
    ]


def tool_messages(message: Message, names: ToolNames) -> dict[str, Any]:
    """A message of a conversation with tools."""
    body: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "tool":
        return body | {"tool_call_id": message.tool_call_id}
    if message.tool_calls:
        body["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": names.of.get(call.tool, call.tool),
                    "arguments": msgspec.json.encode(call.arguments).decode(),
                },
            }
            for call in message.tool_calls
        ]
    return body


def calls_of(calls: list[RawToolCall], names: ToolNames) -> tuple[ToolCall, ...]:
    """The requested tool calls."""
    return tuple(
        tool_call(call.id, at, call.function.name, call.function.arguments, names)
        for at, call in enumerate(calls, 1)
    )


PATH = "/chat/completions"
REMEMBERED = 1000  # refusals; names and schemas may come from a request


class OpenAICompatibleModel:
    """
    Asks for structured output; where the endpoint refuses it, puts the schema in the prompt and remembers.

    What comes back is reported, not judged: whether `value` fits the schema is the check's to say.
    """

    path = PATH

    def __init__(self, line: ProviderClient) -> None:
        need_prices(line.provider)
        self._line = line
        # (model, schema): a refusal may mean this schema alone
        self._unsupported: set[tuple[str, str]] = set()

    async def complete(self, request: CompletionRequest) -> Completion:
        timeout = self._line.provider.deadline if request.timeout is None else request.timeout
        if not self.structures(request):
            return self.read(
                request, await self._line.post(PATH, self.encode(request, structured=False), timeout=timeout)
            )
        try:
            delivered = await self._line.post(PATH, self.encode(request, structured=True), timeout=timeout)
        except Rejected as rejected:
            if not rejected.schema:
                raise
            refusal = rejected
        else:
            return self.read(request, delivered, structured=True)
        if len(self._unsupported) >= REMEMBERED:
            self._unsupported.clear()
        self._unsupported.add(_memory(request))
        again = await self._line.post(
            PATH, self.encode(request, structured=False), timeout=timeout - refusal.seconds
        )
        seconds, attempts = again.seconds + refusal.seconds, again.attempts + refusal.attempts
        return self.read(request, ProviderResponse(again.body, seconds, attempts))

    async def close(self) -> None:
        await self._line.close()

    def encode(self, ask: CompletionRequest, *, structured: bool) -> bytes:
        """The body of the request, with the schema as `response_format` or in the prompt."""
        require_unreserved(ask)
        messages = ask.messages
        body: dict[str, Any] = {"model": ask.model, **ask.parameters}
        if ask.schema is not None and structured:
            reply = {"name": "reply", "schema": ask.schema, "strict": is_strict(ask.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": reply}
        elif ask.schema is not None:
            messages = schema_in_prompt(messages, ask.schema)
        if ask.tools:
            names = ToolNames(ask.tools)
            body["tools"] = tool_definitions(ask.tools, names)
            body["messages"] = [tool_messages(message, names) for message in messages]
        else:
            body["messages"] = [{"role": message.role, "content": message.content} for message in messages]
        return to_json(body)

    def structures(self, ask: CompletionRequest) -> bool:
        if ask.schema is None or not self._line.provider.structured:
            return False
        return not self._unsupported or _memory(ask) not in self._unsupported

    def read(
        self,
        ask: CompletionRequest,
        response: ProviderResponse,
        *,
        structured: bool = False,
        batch: bool = False,
    ) -> Completion:
        provider = self._line.provider
        completion = decode_answer(provider, response.body, _completion, "a chat completion")
        choice = completion.choices[0]
        return completion_of(
            ask,
            response,
            provider,
            text=_text(choice.message.content),
            calls=calls_of(choice.message.tool_calls or [], ToolNames(ask.tools)) if ask.tools else (),
            finish_reason=choice.finish_reason,
            refusal=choice.message.refusal,
            model=completion.model,
            usage=_usage(completion.usage),
            structured=structured,
            batch=batch,
        )


def is_strict(schema: object) -> bool:
    """OpenAI's strict mode accepts a schema only if every object is closed and all its members are required."""
    if isinstance(schema, list):
        return all(map(is_strict, cast("list[object]", schema)))
    if not isinstance(schema, dict):
        return True
    here = cast("dict[str, Any]", schema)
    properties: dict[str, Any] = here.get("properties", {})
    if here.get("type") == "object" or properties:
        closed = here.get("additionalProperties") is False
        if not closed or set(here.get("required", ())) != set(properties):
            return False
    below = [*properties.values(), *here.get("$defs", {}).values(), here.get("items"), here.get("anyOf")]
    return all(map(is_strict, below))


def _memory(ask: CompletionRequest) -> tuple[str, str]:
    return ask.model, json.dumps(ask.schema, sort_keys=True)


class _Piece(msgspec.Struct):
    text: str = ""


class _Message(msgspec.Struct):
    content: str | list[_Piece] | None = None
    refusal: str | None = None
    tool_calls: list[RawToolCall] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    model: str | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")


class _Details(msgspec.Struct):
    cached_tokens: Tokens | None = None


class _TokenUsage(msgspec.Struct):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    prompt_tokens_details: _Details | None = None


_completion = msgspec.json.Decoder(_Completion)
_used = msgspec.json.Decoder(_TokenUsage | None)


def _usage(raw: msgspec.Raw) -> TokenCounts:
    """The token counts, if the answer has valid ones; else unknown."""
    try:
        used = _used.decode(raw)
    except msgspec.DecodeError:
        used = None
    if used is None:
        return TokenCounts()
    details = used.prompt_tokens_details
    cached = details.cached_tokens if details else None
    return TokenCounts(used.prompt_tokens, used.completion_tokens, cached)


def _text(content: str | list[_Piece] | None) -> str:
    """The text of a message, which some endpoints send in parts."""
    if not isinstance(content, list):
        return content or ""
    return "".join(part.text for part in content)
