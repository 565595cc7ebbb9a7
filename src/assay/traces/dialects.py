"""
What a span says about an agent, in four dialects, told apart span by span.

GenAI attributes (`gen_ai.input.messages`), the deprecated events (`gen_ai.user.message`, `gen_ai.choice`),
OpenInference (`openinference.span.kind`) and `gcp.vertex.agent.*`. The conventions are not stable: every name stands in
this file.
"""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import UNSET, Struct

from assay.protocol.json_types import JSON, is_list, is_object
from assay.traces.messages import (
    CONTENT_EVENTS,
    CutValue,
    Message,
    content_of,
    event_message,
    gemini_messages,
    genai_messages,
    message,
    openinference_messages,
    parsed,
)
from assay.traces.spans import ERROR, Span

Kind = Literal["model", "tool", "agent", "chain", "other"]
Dialect = Literal["gen_ai", "gen_ai events", "openinference", "gcp.vertex.agent"]

_OPERATIONS: dict[str, Kind] = {
    "chat": "model", "text_completion": "model", "generate_content": "model", "execute_tool": "tool",
    "invoke_agent": "agent", "invoke_workflow": "agent",
}  # fmt: skip
_SPAN_KINDS: dict[str, Kind] = {"LLM": "model", "TOOL": "tool", "AGENT": "agent", "CHAIN": "chain"}
_CONTENT = (
    "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result", "gen_ai.tool.definitions", "gen_ai.prompt", "gen_ai.completion", "input.value",
    "output.value", "llm.input_messages", "llm.output_messages", "llm.tools", "llm.prompt", "llm.invocation_parameters",
    "tool.parameters", "tool.json_schema", "gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response",
    "gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response", "gcp.vertex.agent.data",
    "pydantic_ai.all_messages", "final_result", "all_messages_events", "logfire.", "model_request_parameters",
    "retrieval.documents", "embedding.", "metadata", "tag.tags",
)  # fmt: skip


class Facts(Struct, kw_only=True):
    """What a span says. A member that is UNSET or None is not in the span; `cut` names attributes that were cut."""

    span: Span
    kind: Kind = "other"
    dialect: Dialect | None = None
    inputs: list[Message] = []
    outputs: list[Message] = []
    system: str | None = None
    tool: str | None = None
    call_id: str | None = None
    arguments: Any = UNSET
    result: Any = UNSET
    provider: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    cost: float | None = None
    response_id: str | None = None
    cut: list[str] = []
    is_partial: bool = (
        False  # the messages are several attributes or events, of which the sender left out some
    )

    @property
    def failed(self) -> bool:
        return self.span.status == ERROR

    @property
    def error(self) -> str | None:
        """The message of a failure."""
        if not self.failed:
            return None
        kind = _text(self.span.attributes, "error.type")
        return self.span.message or kind or "the span has the status ERROR"


def facts_of(span: Span) -> Facts:
    """Read a span in the dialect that it speaks."""
    facts = Facts(span=span)
    attributes = span.attributes
    _read_genai(facts, attributes)
    _read_events(facts)
    if isinstance(attributes.get("openinference.span.kind"), str):
        _read_openinference(facts, attributes)
    if any(name.startswith("gcp.vertex.agent.") for name in attributes):
        _read_gcp(facts, attributes)
    return facts


def metadata_of(span: Span) -> JSON:
    """The attributes of a span and of its resource that are not the content of a conversation."""
    found: JSON = {}
    for attributes in (span.resource, span.attributes):
        found |= {name: value for name, value in attributes.items() if not name.startswith(_CONTENT)}
    extra = _maybe(parsed, span.attributes.get("metadata"))
    if is_object(extra):
        found = extra | found
    tags = span.attributes.get("tag.tags")
    return found | ({"tags": tags} if is_list(tags) else {})


def _read_genai(facts: Facts, attributes: JSON) -> None:
    operation = _text(attributes, "gen_ai.operation.name")
    facts.kind = _OPERATIONS.get(operation or "", "other")
    if facts.kind == "other" and operation is None:
        if "gen_ai.tool.name" in attributes and "gen_ai.request.model" not in attributes:
            facts.kind = "tool"
        elif "gen_ai.request.model" in attributes:
            facts.kind = "model"
    facts.provider = _text(attributes, "gen_ai.provider.name") or _text(attributes, "gen_ai.system")
    facts.model = _text(attributes, "gen_ai.response.model") or _text(attributes, "gen_ai.request.model")
    facts.response_id = _text(attributes, "gen_ai.response.id")
    facts.input_tokens = _count(attributes, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
    facts.output_tokens = _count(attributes, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
    facts.cached_tokens = _count(attributes, "gen_ai.usage.cache_read.input_tokens") or 0
    facts.cost = _number(attributes, "gen_ai.usage.cost", "operation.cost")
    facts.tool, facts.call_id = (
        _text(attributes, "gen_ai.tool.name"),
        _text(attributes, "gen_ai.tool.call.id"),
    )
    if any(name.startswith("gen_ai.") for name in attributes):
        facts.dialect = "gen_ai"
    _read_genai_content(facts, attributes)
    for event in facts.span.events:  # the same attributes on an event, for senders that keep spans small
        if event.name == "gen_ai.client.inference.operation.details":
            body = event.body if is_object(event.body) else {}
            _read_genai_content(facts, {**event.attributes, **body})


def _read_genai_content(facts: Facts, attributes: JSON) -> None:
    if "gen_ai.input.messages" in attributes:
        facts.inputs = _messages(facts, attributes, "gen_ai.input.messages", genai_messages)
    if "gen_ai.output.messages" in attributes:
        facts.outputs = _messages(facts, attributes, "gen_ai.output.messages", genai_messages)
    if "pydantic_ai.all_messages" in attributes and not facts.inputs:
        every = _messages(facts, attributes, "pydantic_ai.all_messages", genai_messages)
        facts.inputs, facts.outputs = every[:-1], every[-1:]
    if "gen_ai.system_instructions" in attributes:
        found = _maybe(parsed, attributes["gen_ai.system_instructions"])
        facts.system = _joined(found) if is_list(found) else found if isinstance(found, str) else None
    if "gen_ai.tool.call.arguments" in attributes:
        facts.arguments = _json(facts, attributes, "gen_ai.tool.call.arguments")
    if "gen_ai.tool.call.result" in attributes:
        facts.result = _json(facts, attributes, "gen_ai.tool.call.result")


def _joined(parts: list[Any]) -> str | None:
    content = content_of(parts)
    if isinstance(content, str):
        return content
    texts = [part["text"] for part in content or () if is_object(part) and isinstance(part.get("text"), str)]
    return "\n".join(texts) or None


def _read_events(facts: Facts) -> None:
    """The messages of deprecated events, on the span or in log records."""
    if facts.inputs or facts.outputs:
        return
    for event in facts.span.events:
        if CONTENT_EVENTS.get(event.name) in event.attributes:
            facts.dialect = "gen_ai events"
            messages = _messages(facts, event.attributes, CONTENT_EVENTS[event.name], genai_messages)
            if event.name == "gen_ai.content.completion":
                facts.outputs += [{**one, "role": "assistant"} for one in messages]
            else:
                facts.inputs += messages
            continue
        body: JSON = dict(event.attributes)
        if is_object(event.body):
            body |= event.body
        elif isinstance(event.body, str):
            body.setdefault("message" if event.name == "gen_ai.choice" else "content", event.body)
        inner = _maybe(parsed, body.get("gen_ai.event.content"))
        body |= inner if is_object(inner) else {}
        try:
            found = event_message(event.name, body)
        except CutValue:
            facts.cut, facts.dialect = [*facts.cut, event.name], "gen_ai events"
            continue
        if found is None:
            continue
        facts.dialect = "gen_ai events"
        (facts.outputs if event.name == "gen_ai.choice" else facts.inputs).append(found)
    lacks = bool(facts.span.dropped_events or facts.cut)
    facts.is_partial = facts.dialect == "gen_ai events" and lacks
    if facts.kind == "tool" and facts.dialect == "gen_ai events":
        _read_tool_events(facts)


def _read_tool_events(facts: Facts) -> None:
    """A tool span whose arguments are a tool message and whose result is a choice, as Strands writes it."""
    given = next((one for one in facts.inputs if one["role"] == "tool"), None)
    if given is not None and facts.arguments is UNSET:
        facts.arguments = given["content"]
        facts.call_id = facts.call_id or given.get("tool_call_id")
    if facts.outputs and facts.result is UNSET:
        facts.result = facts.outputs[0]["content"]
    facts.inputs, facts.outputs = [], []


def _read_openinference(facts: Facts, attributes: JSON) -> None:
    facts.dialect = "openinference"
    facts.kind = _SPAN_KINDS.get(attributes["openinference.span.kind"].upper(), "other")
    asked, answered = (
        openinference_messages(attributes, f"llm.{side}_messages") for side in ("input", "output")
    )
    facts.inputs, facts.outputs = asked or facts.inputs, answered or facts.outputs
    facts.is_partial = facts.is_partial or bool((asked or answered) and facts.span.dropped_attributes)
    if facts.kind in ("agent", "chain", "model"):
        facts.inputs = facts.inputs or _plain(facts, attributes, "input", "user")
        facts.outputs = facts.outputs or _plain(facts, attributes, "output", "assistant")
    facts.model = _text(attributes, "llm.model_name") or facts.model
    facts.provider = _text(attributes, "llm.provider") or _text(attributes, "llm.system") or facts.provider
    facts.input_tokens = _first(_count(attributes, "llm.token_count.prompt"), facts.input_tokens)
    facts.output_tokens = _first(_count(attributes, "llm.token_count.completion"), facts.output_tokens)
    facts.cached_tokens = (
        _count(attributes, "llm.token_count.prompt_details.cache_read") or facts.cached_tokens
    )
    facts.cost = _first(_number(attributes, "llm.cost.total"), facts.cost)
    if facts.kind == "tool":
        facts.tool = _text(attributes, "tool.name") or facts.tool or facts.span.name
        facts.call_id = _text(attributes, "tool_call.id") or facts.call_id
        for name in ("input.value", "tool.parameters"):
            if facts.arguments is UNSET and name in attributes:
                facts.arguments = _json(facts, attributes, name)
        if facts.result is UNSET and "output.value" in attributes:
            facts.result = _json(facts, attributes, "output.value")


def _plain(facts: Facts, attributes: JSON, side: str, role: str) -> list[Message]:
    """`input.value` or `output.value` of a span: a text, or an object with messages."""
    value = attributes.get(f"{side}.value")
    if not isinstance(value, str):
        return []
    try:
        found = parsed(value)
    except CutValue:
        facts.cut = [*facts.cut, f"{side}.value"]
        return []
    if isinstance(found, str) or not (is_object(found) or is_list(found)):
        return [message(role, value)]
    inner = found.get("messages") if is_object(found) else found
    if is_list(inner) and inner and all(is_object(one) and ("role" in one or "type" in one) for one in inner):
        return genai_messages([{"role": one.get("type"), **one} for one in inner if is_object(one)])
    return []


def _read_gcp(facts: Facts, attributes: JSON) -> None:
    facts.dialect = "gcp.vertex.agent"
    request, response = (_gcp(facts, attributes, name) for name in ("llm_request", "llm_response"))
    is_cut = any(f"gcp.vertex.agent.{name}" in facts.cut for name in ("llm_request", "llm_response"))
    if is_cut or is_object(request) or is_object(response):
        facts.kind = "model"
    if is_object(request):
        facts.inputs = gemini_messages(request.get("contents") or []) or facts.inputs
        facts.model = facts.model or _text(request, "model")
        config = request.get("config")
        system = config.get("system_instruction") if is_object(config) else None
        facts.system = system if isinstance(system, str) else facts.system
    if is_object(response):
        facts.outputs = gemini_messages(response.get("content") or []) or facts.outputs
        usage = response.get("usage_metadata")
        if is_object(usage):
            facts.input_tokens = _first(facts.input_tokens, _count(usage, "prompt_token_count"))
            facts.output_tokens = _first(facts.output_tokens, _count(usage, "candidates_token_count"))
    arguments = _gcp(facts, attributes, "tool_call_args")
    if arguments is not UNSET and facts.kind != "model":
        facts.kind, facts.arguments = "tool", arguments
    result = _gcp(facts, attributes, "tool_response")
    if result is not UNSET and facts.kind == "tool":
        facts.result = result


def _gcp(facts: Facts, attributes: JSON, name: str) -> Any:
    """An attribute of Google's agents; UNSET if it is absent, cut, or `{}` in place of content that is not sent."""
    full = f"gcp.vertex.agent.{name}"
    value = attributes.get(full)
    if value is None or value in ("{}", "<not serializable>", "<not specified>", "N/A"):
        return UNSET
    return _json(facts, attributes, full)


def _messages(
    facts: Facts, attributes: JSON, name: str, read: Callable[[Any], list[Message]]
) -> list[Message]:
    try:
        return read(attributes[name])
    except CutValue:
        facts.cut = [*facts.cut, name]
        return []


def _json(facts: Facts, attributes: JSON, name: str) -> Any:
    try:
        return parsed(attributes[name])
    except CutValue:
        facts.cut = [*facts.cut, name]
        return UNSET


def _maybe(read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except CutValue:
        return None


def _text(attributes: JSON, name: str) -> str | None:
    found = attributes.get(name)
    return found if isinstance(found, str) and found else None


def _count(attributes: JSON, *names: str) -> int | None:
    found = (attributes.get(name) for name in names)
    whole = (one for one in found if isinstance(one, int) and not isinstance(one, bool))
    return next((one for one in whole if 0 <= one <= 10**12), None)


def _number(attributes: JSON, *names: str) -> float | None:
    found = (attributes.get(name) for name in names)
    numbers = (float(one) for one in found if isinstance(one, int | float) and not isinstance(one, bool))
    return next((one for one in numbers if 0 <= one <= 10**9), None)


def _first(*values: Any) -> Any:
    return next((one for one in values if one is not None), None)


def conversation_of(span: Span) -> str | None:
    """The id of the conversation that a span names."""
    attributes = span.attributes
    named = _text(attributes, "gen_ai.conversation.id") or _text(attributes, "gcp.vertex.agent.session_id")
    if named is None and "openinference.span.kind" in attributes:
        named = _text(attributes, "session.id")
    return named
