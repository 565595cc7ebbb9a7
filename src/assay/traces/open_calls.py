"""The tool calls that models asked for, and the spans of tools that answer them."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from assay.protocol.json_types import JSON
from assay.traces.dialects import Facts
from assay.traces.span_tree import SKEW

_encode = msgspec.json.Encoder(order="deterministic").encode


def calls_of(models: Sequence[Facts]) -> tuple[dict[str, tuple[int, JSON]], dict[str, Any]]:
    """The tool calls that models asked for, by id, with the time; and the results that later calls show."""
    asked: dict[str, tuple[int, JSON]] = {}
    answered: dict[str, Any] = {}
    for one in models:
        for output in one.outputs:
            for call in output.get("tool_calls", ()):
                if isinstance(call.get("id"), str):
                    asked.setdefault(call["id"], (one.span.end, call))
        for given in one.inputs:
            if given["role"] == "tool" and "tool_call_id" in given:
                answered.setdefault(given["tool_call_id"], given["content"])
    return asked, answered


class OpenCalls:
    """The tool calls that models asked for and that no tool span without an id of its own has answered."""

    def __init__(self, asked: dict[str, tuple[int, JSON]]) -> None:
        self._asked = asked
        self._ids: dict[
            tuple[str, bytes], deque[str]
        ] = {}  # by tool and arguments, those asked for first in front
        for call_id, (_, call) in asked.items():
            for arguments in (b"", _encode(call["arguments"])):
                self._ids.setdefault((call["name"], arguments), deque()).append(call_id)

    def take(self, facts: Facts, tool: str) -> str:
        """The id of the first call before a tool span, with its arguments if it has some; empty if there is none."""
        ids = self._ids.get((tool, b"" if facts.arguments is UNSET else _encode(facts.arguments)), deque())
        while ids and ids[0] not in self._asked:  # a span has answered it
            ids.popleft()
        return ids[0] if ids and self._asked[ids[0]][0] <= facts.span.start + SKEW else ""
