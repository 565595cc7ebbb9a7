"""Frames of remote agents (docs/agent-protocol.md): the result, and the calls before it."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.errors import Refusal
from assay.ports.agents import AgentContext, ToolFailure
from assay.protocol.agents import InvocationResult, Outcome, ToolSpec, Usage
from assay.protocol.duplicates import TWICE, duplicate_member
from assay.protocol.json_types import is_finite, is_list, is_object
from assay.protocol.validation_messages import message_of, path_in

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class ProtocolError(ValueError):
    """A frame that the protocol does not allow."""


class UsageFrame(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    provider: str
    model: str
    input_tokens: Count
    output_tokens: Count
    cost_usd: Annotated[float, msgspec.Meta(ge=0)] | None = None
    cached: bool = False

    def usage(self) -> Usage:
        return Usage(**msgspec.structs.asdict(self))


class FinishFrame(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`{"result": …}`, `{"error": "why"}` or `{"refused": "why"}`, with usage and reasoning."""

    result: Any = UNSET
    error: str | dict[str, Any] | UnsetType = UNSET
    refused: str | UnsetType = UNSET
    escalated: str | UnsetType = UNSET
    confidence: Share | None = None
    usage: UsageFrame | list[UsageFrame] | None = None
    reasoning: str | list[str] | None = None


def parse_end(value: Any) -> tuple[FinishFrame, list[str]]:
    """Parse the final frame; return it and the names of its outcomes. An invalid frame is a ProtocolError."""
    end: FinishFrame = _read(value, FinishFrame, "expected result, error, refused or escalated")
    names = [name for name in ("result", "error", "refused", "escalated") if getattr(end, name) is not UNSET]
    if len(names) != 1 and names != ["result", "escalated"]:
        raise ProtocolError(
            f"expected exactly one of result, error, refused and escalated, got {names or 'none'}"
        )
    return end, names


def read_end(value: Any, context: AgentContext) -> InvocationResult:
    """Parse the final frame, and record its usage and reasoning. An invalid frame is a ProtocolError."""
    end, names = parse_end(value)
    for text in _as_list(end.reasoning):
        context.reason(text)
    for frame in _as_list(end.usage):
        context.record_usage(frame.usage())
    if not isinstance(end.error, UnsetType):
        return InvocationResult(outcome="failed", error=_words(end.error), confidence=end.confidence)
    outcomes: dict[str, Outcome] = {"refused": "refused", "escalated": "escalated"}
    why = end.refused if isinstance(end.refused, str) else end.escalated
    return InvocationResult(
        outcome=outcomes.get(names[-1], "completed"),
        result=end.result,
        confidence=end.confidence,
        error=why if isinstance(why, str) else None,
    )


class _Tool(Struct, frozen=True, kw_only=True, tag="tool", tag_field="type", forbid_unknown_fields=True):
    tool: str
    arguments: dict[str, Any] = {}
    id: Any = None


class _List(
    Struct, frozen=True, kw_only=True, tag="memory.list", tag_field="type", forbid_unknown_fields=True
):
    tag: str | None = None
    limit: Count = 100
    id: Any = None


class _Get(
    Struct,
    frozen=True,
    kw_only=True,
    tag="memory.get",
    tag_field="type",
    rename="camel",
    forbid_unknown_fields=True,
):
    memory_id: str
    id: Any = None


class _Write(
    Struct, frozen=True, kw_only=True, tag="memory.write", tag_field="type", forbid_unknown_fields=True
):
    content: str
    tags: list[str] = []
    ttl: Annotated[float, msgspec.Meta(gt=0)] | None = None
    id: Any = None


class _Usage(
    UsageFrame, frozen=True, kw_only=True, tag="usage", tag_field="type", forbid_unknown_fields=True
):
    id: Any = None

    def usage(self) -> Usage:
        members = msgspec.structs.asdict(self)
        return Usage(**{name: members[name] for name in Usage.__struct_fields__})


class _Reason(Struct, frozen=True, kw_only=True, tag="reason", tag_field="type", forbid_unknown_fields=True):
    text: str
    full: bool = False
    id: Any = None


Frame = _Tool | _List | _Get | _Write | _Usage | _Reason
FRAMES = "tool, memory.list, memory.get, memory.write, usage and reason"


def read_frame(value: Any) -> Frame:
    return _read(value, Frame, f"there are the frames {FRAMES}")


async def handle(frame: Frame, context: AgentContext) -> dict[str, Any]:
    """Execute a frame; the answer is `{"result": …}` or `{"error": {"code", "message"}}`, with the frame's `id`."""
    try:
        answer: dict[str, Any] = {"result": await _act(frame, context)}
    except ToolFailure as failure:
        answer = {"error": {"code": failure.code, "message": str(failure)}}
    except Refusal as refusal:  # memory is not available: the agent still waits for an answer
        answer = {"error": {"code": refusal.code, "message": str(refusal)}}
    return answer | ({} if frame.id is None else {"id": frame.id})


def apply_note(frame: Frame, context: AgentContext) -> bool:
    """Record a frame that needs no answer (usage, reasoning); False for any other frame."""
    if isinstance(frame, _Usage):
        context.record_usage(frame.usage())
    elif isinstance(frame, _Reason):
        context.reason(frame.text, full=frame.full)
    else:
        return False
    return True


async def _act(frame: Frame, context: AgentContext) -> Any:
    match frame:
        case _Tool():
            return await context.call(frame.tool, frame.arguments)
        case _List():
            entries = await context.memory.list(tag=frame.tag, limit=frame.limit)
            return msgspec.to_builtins(entries)
        case _Get():
            return msgspec.to_builtins(await context.memory.get(frame.memory_id))
        case _Write():
            return msgspec.to_builtins(
                await context.memory.write(frame.content, tags=frame.tags, ttl=frame.ttl)
            )
        case _:
            apply_note(frame, context)
            return None


def tool_specs(tools: Any) -> list[dict[str, Any]]:
    """Tools as they are described to an agent."""
    specs: list[ToolSpec] = list(tools)
    return [
        {"id": spec.id, "description": spec.description, "inputSchema": spec.input_schema} for spec in specs
    ]


def read_json(text: bytes | str) -> Any:
    try:
        value = msgspec.json.decode(text)
        twice = duplicate_member(text if isinstance(text, bytes) else text.encode(), value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise ProtocolError(f"expected JSON: {wrong}") from None
    if twice is not None:
        raise ProtocolError(f"{twice}: {TWICE}")
    if not is_finite(value):
        raise ProtocolError("expected JSON: a number is not finite")
    return value


def _read(value: Any, kind: Any, expected: str) -> Any:
    if not is_object(value):
        raise ProtocolError(f"expected an object: {expected}")
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as wrong:
        place = path_in(wrong).lstrip(".")
        message = f"{place}: {message_of(wrong, kind)}".removeprefix(": ")
        raise ProtocolError(f"{message}; {expected}") from None


def _words(error: str | dict[str, Any]) -> str:
    if isinstance(error, str):
        return error
    message = error.get("message")
    return message if isinstance(message, str) else msgspec.json.encode(error).decode()


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if is_list(value) else [value]
