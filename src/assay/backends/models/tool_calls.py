"""Tools on OpenAI's wire: what is offered, what was called, and what came of it."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from assay.backends.models.json_reply import read_value
from assay.ports import Message, ToolCall
from assay.protocol.agents import ToolSpec
from assay.protocol.json_types import is_object

LONGEST = 64  # characters of a function's name


class ToolNames:
    """A tool's id as a function may be called there, and back: `shop:orders` is `shop_orders`, as long as no other is."""

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


def offered(tools: Iterable[ToolSpec], names: ToolNames) -> list[dict[str, Any]]:
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
    """What it wants called. A name nobody offered stays as it is: whoever calls will refuse it."""
    return tuple(_call(call, at, names) for at, call in enumerate(calls, 1))


def _call(call: RawToolCall, at: int, names: ToolNames) -> ToolCall:
    arguments = call.function.arguments
    value, problem = (
        (arguments or {}, None) if not isinstance(arguments, str) else read_value(arguments or "{}")
    )
    if problem is None and not is_object(value):
        problem = "is no object"
    return ToolCall(
        id=call.id or f"call-{at}",
        tool=names.back.get(call.function.name, call.function.name),
        arguments=value if problem is None else {},
        problem=problem,
    )
