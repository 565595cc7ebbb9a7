"""
The messages of a conversation in one form, whatever the dialect of the trace.

    {"role": "assistant", "content": "…", "tool_calls": [{"id": "1", "name": "search", "arguments": {…}}]}
    {"role": "tool", "content": …, "tool_call_id": "1"}

`content` is a text if the message has one text part. Otherwise it is the list of its parts.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from assay.protocol.json_types import JSON, is_list, is_object

Message = JSON
_ROLES = {"model": "assistant", "ai": "assistant", "human": "user", "developer": "system", "function": "tool"}
_decode = msgspec.json.Decoder().decode
_CUT = (
    "Input data was truncated",
    "JSON is malformed: invalid number",
)  # a number may end at its sign or its point


class CutValue(Exception):
    """An attribute that should hold JSON does not: the sender cut it."""


def parsed(value: Any) -> Any:
    """The JSON in a text, or the value itself. Raises CutValue for a text that starts as JSON and does not end."""
    if not isinstance(value, str):
        return value
    try:
        return _decode(value.encode("utf-8", "replace"))
    except RecursionError:
        raise CutValue from None
    except msgspec.DecodeError as wrong:
        if value.lstrip()[:1] in ("{", "[") and str(wrong).startswith(_CUT):
            raise CutValue from None
        return value


def is_cut(text: str) -> bool:
    """Whether a text starts as JSON and does not end."""
    try:
        _maybe_json(text)
    except CutValue:
        return True
    return False


def message(role: Any, content: Any, calls: Iterable[JSON] = (), call_id: Any = None) -> Message:
    """A message. The content of a tool's message is read as JSON, if it is."""
    given = role if isinstance(role, str) else "user"
    name = _ROLES.get(given, given)
    if name == "tool":
        with suppress(CutValue):  # one that was cut stays a text
            content = _maybe_json(content)
    found: Message = {"role": name, "content": content}
    if calls := list(calls):
        found["tool_calls"] = calls
    if isinstance(call_id, str) and call_id:
        found["tool_call_id"] = call_id
    return found


def call(name: Any, arguments: Any, call_id: Any = None) -> JSON:
    """A tool call of a message. Arguments in a text are read as JSON, if they are."""
    with suppress(CutValue):  # one that was cut stays a text
        arguments = parsed(arguments)
    found: JSON = {"id": call_id} if isinstance(call_id, str) and call_id else {}
    return found | {"name": name if isinstance(name, str) else "", "arguments": arguments}


def genai_messages(value: Any) -> list[Message]:
    """`gen_ai.input.messages` and `gen_ai.output.messages`, structured or as JSON. Raises CutValue."""
    value = parsed(value)
    items = value if is_list(value) else [value]
    return [one for item in items for one in _genai_message(item)]


def _genai_message(item: Any) -> Iterable[Message]:
    if not is_object(item):
        yield message("user", item)
        return
    role, parts = item.get("role"), item.get("parts", item.get("content"))
    if not is_list(parts):
        yield _openai_message(item)
        return
    rest: list[Any] = []
    calls: list[JSON] = []
    for part in parts:
        kind = part.get("type") if is_object(part) else None
        if is_object(part) and kind == "tool_call":
            calls.append(call(part.get("name"), part.get("arguments"), part.get("id")))
        elif is_object(part) and kind == "tool_call_response":
            result = part.get("response", part.get("result"))
            yield message("tool", result, call_id=part.get("id"))
        elif kind not in ("reasoning", "thinking"):
            rest.append(part)
    if rest or calls or not parts:
        yield message(role, content_of(rest), calls)


def content_of(parts: list[Any]) -> Any:
    """A text for one text part, None for no part, else the parts."""
    texts = [_text_of(part) for part in parts]
    if len(parts) == 1 and texts[0] is not None:
        return texts[0]
    if not parts:
        return None
    return [
        part if text is None else {"type": "text", "text": text}
        for part, text in zip(parts, texts, strict=True)
    ]


def _text_of(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    if not is_object(part):
        return None
    kind = part.get("type", "text")
    found = part.get("content", part.get("text"))
    return found if kind in ("text", "input_text", "output_text") and isinstance(found, str) else None


def _openai_message(item: JSON) -> Message:
    """A message of the chat format: `content`, `tool_calls[].function`, `tool_call_id`."""
    content = item.get("content")
    calls = item.get("tool_calls")
    found = [_openai_call(one) for one in calls if is_object(one)] if is_list(calls) else []
    call_id = item.get("tool_call_id", item.get("id") if item.get("role") == "tool" else None)
    return message(item.get("role"), content_of(content) if is_list(content) else content, found, call_id)


def _openai_call(item: JSON) -> JSON:
    function = item.get("function")
    inner = function if is_object(function) else item
    return call(inner.get("name"), inner.get("arguments"), item.get("id"))


CONTENT_EVENTS = {  # event: its attribute with messages as JSON, or a text
    "gen_ai.content.prompt": "gen_ai.prompt",
    "gen_ai.content.completion": "gen_ai.completion",
}


def event_message(name: str, body: Mapping[str, Any]) -> Message | None:
    """
    A message of a deprecated event, such as `gen_ai.user.message` or `gen_ai.choice`; None for another event. Raises
    CutValue.
    """
    role = {
        "gen_ai.system.message": "system",
        "gen_ai.user.message": "user",
        "gen_ai.assistant.message": "assistant",
        "gen_ai.tool.message": "tool",
        "gen_ai.choice": "assistant",
    }.get(name)
    if role is None:
        return None
    inner: Any = body.get("message") if name == "gen_ai.choice" else body
    inner = _maybe_json(inner)
    if not is_object(inner):
        inner = {"content": inner}
    item = {"role": role, **{key: _maybe_json(value) for key, value in inner.items()}}
    if "tool_calls" in body:
        item.setdefault("tool_calls", _maybe_json(body["tool_calls"]))
    content = item.get("content")
    if is_list(content) and any(
        is_object(one) and ("toolUse" in one or "toolResult" in one) for one in content
    ):
        return _bedrock_message(role, content)
    if is_list(content):
        item["content"] = [
            one if not is_object(one) or "type" in one else {"type": "text", **one} for one in content
        ]
    return _openai_message(item)


def _bedrock_message(role: str, content: list[Any]) -> Message:
    """Content blocks with `toolUse` and `toolResult`, as Bedrock and Strands write them."""
    blocks = [one for one in content if is_object(one)]
    calls = [
        call(use.get("name"), use.get("input"), use.get("toolUseId"))
        for use in (one.get("toolUse") for one in blocks)
        if is_object(use)
    ]
    result = next((one["toolResult"] for one in blocks if is_object(one.get("toolResult"))), None)
    if result is not None:
        return message("tool", result.get("content"), call_id=result.get("toolUseId"))
    texts = [{"type": "text", "text": one["text"]} for one in blocks if isinstance(one.get("text"), str)]
    return message(role, content_of(texts), calls)


def _maybe_json(value: Any) -> Any:
    """The JSON of a text that starts as an object or a list. Raises CutValue."""
    return parsed(value) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value


def openinference_messages(attributes: JSON, prefix: str) -> list[Message]:
    """`llm.input_messages.N.message.…`: lists and objects as flat attributes."""
    found: list[Message] = []
    for entry in _numbered(unflatten(attributes, prefix)):
        item = entry.get("message", entry)
        if not is_object(item):
            continue
        parts = [_openinference_part(one) for one in _numbered(item.get("contents"))]
        calls = [_openinference_call(one) for one in _numbered(item.get("tool_calls"))]
        content = content_of(parts) if parts else item.get("content")
        found.append(message(item.get("role"), content, calls, item.get("tool_call_id")))
    return found


def _openinference_part(entry: JSON) -> Any:
    part = entry.get("message_content", entry)
    if is_object(part) and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    return part


def _openinference_call(entry: JSON) -> JSON:
    item = entry.get("tool_call", entry)
    function = item.get("function") if is_object(item) else None
    inner = function if is_object(function) else {}
    return call(inner.get("name"), inner.get("arguments"), item.get("id") if is_object(item) else None)


def unflatten(attributes: JSON, prefix: str) -> JSON:
    """The object that attributes `prefix.0.a.b` describe. Numbers are keys: a hostile index reserves nothing."""
    root: JSON = {}
    start = f"{prefix}."
    for name, value in attributes.items():
        if not name.startswith(start):
            continue
        *path, last = name[len(start) :].split(".", 16)
        node = root
        for key in path:
            below = node.setdefault(key, {})
            if not is_object(below):
                break
            node = below
        else:
            node.setdefault(last, value)
    return root


def _numbered(value: Any) -> list[JSON]:
    """The members of an object with numbers as keys, in their order."""
    if not is_object(value):
        return []
    keys = sorted((key for key in value if key.isascii() and key.isdigit()), key=lambda key: (len(key), key))
    return [value[key] for key in keys if is_object(value[key])]


def gemini_messages(contents: Any) -> list[Message]:
    """`contents` of a Gemini request, or the `content` of its response."""
    items = contents if is_list(contents) else [contents]
    return [one for item in items if is_object(item) for one in _gemini_message(item)]


def _gemini_message(item: JSON) -> Iterable[Message]:
    given = item.get("parts")
    parts = [part for part in given if is_object(part)] if is_list(given) else []
    rest: list[Any] = []
    calls: list[JSON] = []
    for part in parts:
        use, response = (_either(part, *names) for names in (_CALL, _RESPONSE))
        if is_object(use):
            calls.append(call(use.get("name"), use.get("args"), use.get("id")))
        elif is_object(response):
            yield message(
                "tool", response.get("response"), call_id=response.get("id") or response.get("name")
            )
        elif isinstance(part.get("text"), str):
            if not part.get("thought"):
                rest.append({"type": "text", "text": part["text"]})
        else:
            rest.append(part)
    if rest or calls or not parts:
        yield message(item.get("role"), content_of(rest), calls)


_CALL, _RESPONSE = ("function_call", "functionCall"), ("function_response", "functionResponse")


def _either(part: JSON, first: str, second: str) -> Any:
    return part.get(first, part.get(second))
