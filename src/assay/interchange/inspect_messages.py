"""The messages of a sample of inspect: what was asked, and what was thought, called and said after it."""

from collections.abc import Iterator
from typing import Any

from assay.interchange.imported import NO_PLACE, ImportReport, listed, members
from assay.protocol.json_types import JSON, is_list, is_object

MOST_MESSAGES = 10_000
_MESSAGE = frozenset(
    [
        "role",
        "content",
        "source",
        "model",
        "tool_calls",
        "tool_call_id",
        "function",
        "error",
        "internal",
    ]
)
_CALL = frozenset(("id", "function", "arguments", "type"))
_CONTENT = frozenset(("text", "reasoning"))
_ROLES = frozenset(("user", "assistant", "tool"))


def note_messages(sample: JSON, place: str, report: ImportReport) -> None:
    """Note what of the messages is no step of a trajectory."""
    messages = listed(sample, "messages")
    if len(messages) > MOST_MESSAGES:
        report.leave(f"{place}.messages", "messages", f"only {MOST_MESSAGES:,} of them are the trajectory")
    _, after = conversation(sample)
    for role in (one.get("role") for one in after if is_object(one)):
        if role not in _ROLES:
            report.leave(f"{place}.messages", f"a message of {role}", "it is no step of an agent")
    for at, message in enumerate(messages):
        if is_object(message):
            report.leave_others(message, _MESSAGE, f"{place}.messages[{at}]", "message.")
            for number, call in enumerate(listed(message, "tool_calls")):
                if is_object(call):
                    here = f"{place}.messages[{at}].tool_calls[{number}]"
                    report.leave_others(call, _CALL, here, "call.")
            for part in listed(message, "content"):
                kind = part.get("type") if is_object(part) else None
                if kind not in _CONTENT:
                    report.leave(f"{place}.messages[{at}].content", f"content {kind}", NO_PLACE)


def input_of(value: Any) -> Any:
    """A text, or messages with their roles and contents."""
    if not is_list(value):
        return value
    return [
        {"role": one.get("role"), "content": one.get("content")} if is_object(one) else one for one in value
    ]


def conversation(sample: JSON) -> tuple[list[Any], list[Any]]:
    """The messages before the first answer, if a solver has changed the input, and those from it on."""
    messages = listed(sample, "messages")[:MOST_MESSAGES]
    answers = ("assistant", "tool")
    roles = [one.get("role") if is_object(one) else None for one in messages]
    first = next((at for at, role in enumerate(roles) if role in answers), len(messages))
    before, asked = input_of(messages[:first]), input_of(sample["input"])
    plain = asked if is_list(asked) else [{"role": "user", "content": asked}]
    return [] if before == plain else before, messages[first:]


def steps_of(messages: list[Any]) -> Iterator[JSON]:
    """What was thought, said, called and answered after the input, as steps of a trajectory."""
    turn = 1
    for one in messages:
        if not is_object(one):
            continue
        role, content = one.get("role"), one.get("content")
        for part in content if is_list(content) else ():
            if is_object(part) and part.get("type") == "reasoning" and part.get("reasoning"):
                yield {"type": "reasoned", "text": str(part["reasoning"])}
        turn += role == "user"
        if role in ("user", "assistant") and (text := _text(content)):
            yield {"type": "said", "role": role, "content": text, "turn": turn}
        for call in listed(one, "tool_calls"):
            if is_object(call):
                yield {
                    "type": "tool-called",
                    "call_id": str(call.get("id")),
                    "tool": str(call.get("function")),
                    **({"inputs": call["arguments"]} if is_object(call.get("arguments")) else {}),
                }
        if role == "tool":
            error = members(one, "error")
            failed = {"code": "tool_error", "message": str(error.get("message", ""))} if error else None
            yield {
                "type": "tool-returned",
                "call_id": str(one.get("tool_call_id")),
                "tool": str(one.get("function")),
                "status": "error" if failed else "ok",
                **({"error": failed} if failed else {"outcome": _text(content)}),
            }


def without_answer(steps: list[JSON], value: Any) -> list[JSON]:
    """The steps without the only message, if it is the output."""
    messages = [one for one in steps if one["type"] == "said"]
    if len(messages) == 1 and steps[-1] is messages[0] and messages[0]["content"] == value:
        return steps[:-1]
    return steps


def _text(content: Any) -> Any:
    """The text of a message, also of one with parts."""
    if not is_list(content):
        return content
    parts = [one.get("text") for one in content if is_object(one) and one.get("type") == "text"]
    return "\n".join(part for part in parts if isinstance(part, str))


def last_text(sample: JSON) -> Any:
    messages = [
        one for one in listed(sample, "messages") if is_object(one) and one.get("role") == "assistant"
    ]
    return _text(messages[-1].get("content")) if messages else None
