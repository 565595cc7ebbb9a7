"""Tools in OpenAI's protocol: definitions, calls and answers."""

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
    """
    Maps tool ids to valid function names and back: `shop:orders` is `shop_orders`, unless another tool has that name.
    """

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
