"""A model behind an endpoint with OpenAI's chat protocol (FEP 2.3.6, `llm_judge`)."""

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, cast

import msgspec

from assay.backends.models.json_reply import read_value
from assay.backends.models.key_scrubbing import content_key, without_key
from assay.backends.models.prices import TokenCounts, cost, need_prices
from assay.backends.models.provider_client import ProviderClient, ProviderResponse
from assay.backends.models.provider_faults import Rejected
from assay.backends.models.transport import to_json
from assay.errors import ForeignFault, ValueFault
from assay.ports import RESERVED_PARAMETERS, Completion, CompletionRequest, Message, ToolCall
from assay.protocol.agents import MAX_TOKENS, ToolSpec
from assay.protocol.json_types import is_object

# Tools in OpenAI's protocol: definitions, calls and answers.

LONGEST = 64  # characters of a function's name


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
    """The requested tool calls. An unknown name stays as it is; the call will be refused."""
    return tuple(_call(call, at, names) for at, call in enumerate(calls, 1))


def _call(call: RawToolCall, index: int, names: ToolNames) -> ToolCall:
    arguments = call.function.arguments
    value, problem = (
        (arguments or {}, None) if not isinstance(arguments, str) else read_value(arguments or "{}")
    )
    if problem is None and not is_object(value):
        problem = "is not an object"
    return ToolCall(
        id=call.id or f"call-{index}",
        tool=names.back.get(call.function.name, call.function.name),
        arguments=value if problem is None else {},
        problem=problem,
    )


PATH = "/chat/completions"
REMEMBERED = 1000  # refusals; names and schemas may come from a request
IN_PROMPT = (
    "Answer with exactly one JSON value that fits this JSON Schema, and with nothing before or after it:\n"
)


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
        return self.read(request, again, earlier=refusal)

    async def close(self) -> None:
        await self._line.close()

    def encode(self, ask: CompletionRequest, *, structured: bool) -> bytes:
        if taken := RESERVED_PARAMETERS & ask.parameters.keys():
            raise ValueFault(f"a model's parameters may not set {', '.join(sorted(taken))}")
        return request_body(ask, structured=structured)

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
        earlier: Rejected | None = None,
    ) -> Completion:
        provider = self._line.provider
        try:
            completion = _completion.decode(response.body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as wrong:
            raise ForeignFault(
                f"provider {provider.name!r} answered 200 without a chat completion: {wrong}"
            ) from None
        choice = completion.choices[0]
        text = _text(choice.message.content)
        calls = calls_of(choice.message.tool_calls or [], ToolNames(ask.tools)) if ask.tools else ()
        plain = ask.schema is None or bool(calls)
        value, problem = (msgspec.UNSET, None) if plain else read_value(text)
        usage = _usage(completion.usage)
        hidden = content_key(provider)  # taken out of what was parsed: a reply is shown and kept
        return Completion(
            text=without_key(text, hidden),
            value=without_key(value, hidden),
            problem=without_key(problem, hidden),
            finish_reason=without_key(choice.finish_reason, hidden) or "unknown",
            refusal=without_key(choice.message.refusal, hidden) or None,
            tool_calls=scrub_calls(calls, hidden),
            structured=structured,
            model=without_key(completion.model, hidden) or ask.model,
            provider=provider.name,
            input_tokens=usage.input,
            output_tokens=usage.output,
            cache_read_tokens=usage.cached,
            cost_usd=cost(
                provider,
                (completion.model, ask.model) if completion.model else (ask.model,),
                usage,
                batch=batch,
            ),
            seconds=response.seconds + (earlier.seconds if earlier else 0.0),
            attempts=response.attempts + (earlier.attempts if earlier else 0),
        )


def request_body(ask: CompletionRequest, *, structured: bool) -> bytes:
    """The body of the request, with the schema as `response_format` or in the prompt."""
    messages = ask.messages
    body: dict[str, Any] = {"model": ask.model, **ask.parameters}
    if ask.schema is not None and structured:
        asked = {"name": "reply", "schema": ask.schema, "strict": is_strict(ask.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": asked}
    elif ask.schema is not None:
        messages = schema_in_prompt(messages, ask.schema)
    if ask.tools:
        names = ToolNames(ask.tools)
        body["tools"] = tool_definitions(ask.tools, names)
        body["messages"] = [tool_messages(message, names) for message in messages]
    else:
        body["messages"] = [{"role": message.role, "content": message.content} for message in messages]
    return to_json(body)


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


def scrub_calls(calls: tuple[ToolCall, ...], key: str) -> tuple[ToolCall, ...]:
    if not key:
        return calls
    return tuple(msgspec.convert(without_key(msgspec.to_builtins(call), key), ToolCall) for call in calls)


def schema_in_prompt(messages: tuple[Message, ...], schema: dict[str, Any]) -> tuple[Message, ...]:
    """Put the schema into the system message, before any content of an output."""
    text = IN_PROMPT + json.dumps(schema)
    if messages and messages[0].role == "system":
        return (Message("system", f"{messages[0].content}\n\n{text}"), *messages[1:])
    return (Message("system", text), *messages)


def _memory(ask: CompletionRequest) -> tuple[str, str]:
    return ask.model, json.dumps(ask.schema, sort_keys=True)


Tokens = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKENS)]


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
