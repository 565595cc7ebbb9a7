"""Conversations of Ragas: messages of a person, an agent and its tools."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from assay.interchange.imported import ImportReport, listed
from assay.interchange.inspect_messages import without_answer
from assay.protocol.json_types import JSON, is_list, is_object

_ROLES = {"human": "user", "ai": "assistant", "tool": "tool"}
_MESSAGE = ("content", "type", "tool_calls")


def is_conversation(value: Any) -> bool:
    """Whether the input of a row is a conversation."""
    return (
        is_list(value)
        and bool(value)
        and all(
            is_object(one) and isinstance(one.get("type"), str) and one["type"] in _ROLES for one in value
        )
    )


def conversation(messages: list[JSON], place: str, report: ImportReport) -> tuple[list[JSON], JSON | None]:
    """The messages before the first answer, and the output with what the agent did."""
    for at, one in enumerate(messages):
        report.leave_others(one, _MESSAGE, f"{place}.user_input[{at}]", "message.")
        for number, call in enumerate(listed(one, "tool_calls")):
            if is_object(call):
                here = f"{place}.user_input[{at}].tool_calls[{number}]"
                report.leave_others(call, ("name", "args"), here, "call.")
    first = next((at for at, one in enumerate(messages) if one["type"] != "human"), len(messages))
    asked = [{"role": _ROLES[one["type"]], "content": one.get("content")} for one in messages[:first]]
    answers = [one.get("content") for one in messages[first:] if one["type"] == "ai"]
    if not answers:
        return asked, None
    steps = without_answer(list(_steps(messages[first:])), answers[-1])
    return asked, {"value": answers[-1], **({"metadata": {"trajectory": steps}} if steps else {})}


def _steps(messages: list[JSON]) -> Iterator[JSON]:
    """Answers of tools have no id: each belongs to the first call that has none."""
    waiting: deque[JSON] = deque()
    turn = number = 1
    for one in messages:
        content = one.get("content")
        if one["type"] == "tool":
            call = waiting.popleft() if waiting else {"call_id": "", "tool": ""}
            yield {"type": "tool-returned", **call, "status": "ok", "outcome": content}
            continue
        turn += one["type"] == "human"
        if content:
            yield {"type": "said", "role": _ROLES[one["type"]], "content": content, "turn": turn}
        for made in listed(one, "tool_calls"):
            if is_object(made):
                call = {"call_id": str(number), "tool": str(made.get("name"))}
                waiting.append(call)
                number += 1
                yield {"type": "tool-called", **call, "inputs": made.get("args") or {}}
