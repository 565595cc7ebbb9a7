"""What a model is asked and what it says back, whatever wire it goes over (FEP 2.3.6)."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from assay.protocol.agents import ToolSpec


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a model wants called; where its arguments are no JSON object, `problem` says so."""

    id: str
    tool: str  # `<scope>:<tool-id>`
    arguments: dict[str, Any] = {}
    problem: str | None = None


class Message(msgspec.Struct, frozen=True):
    """An assistant's may ask for tools; a `tool` message answers the call that it names."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


# What `Ask` says itself, or what would make the answer something else than one reply.
RESERVED_PARAMETERS = frozenset(
    {"messages", "model", "n", "response_format", "stream", "stream_options", "tools"}
)


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One question to a model. `check_version` and `repeat` change no request, only which cached reply answers it."""

    messages: tuple[Message, ...]
    model: str
    schema: dict[str, Any] | None = None  # what the reply should fit; nobody has checked that it does
    parameters: dict[str, Any] = {}  # temperature, max_tokens, seed, …: sent as they are
    tools: tuple[ToolSpec, ...] = ()  # those it may ask for
    timeout: float | None = None  # seconds for the whole call; None: the provider's deadline
    check_version: str = ""
    repeat: int = 0
    accepts: "Callable[[Completion], bool] | None" = (
        None  # whether a reply is worth keeping; None: whatever came whole
    )


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a model said, as it said it: cut off (`finish_reason` "length"), filtered or refused is still a reply.

    Where a schema was asked for, `value` is the JSON value of the text, or unset with the `problem` that kept it from
    being one. A cost nobody knows is None. A cached reply costs 0.0 and says in `saved_usd` what it cost when it was new.
    """

    text: str
    finish_reason: str
    model: str
    provider: str
    value: Any = msgspec.UNSET
    problem: str | None = None
    refusal: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    structured: bool = False  # the endpoint was asked to enforce the schema
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    saved_usd: float | None = None
    seconds: float = 0.0
    attempts: int = 1
    cached: bool = False


class Embeddings(msgspec.Struct, frozen=True, kw_only=True):
    """One vector a text, in their order and as the model gives them: nothing is normalised."""

    vectors: tuple[tuple[float, ...], ...]
    model: str
    provider: str
    tokens: int | None = None
    cost_usd: float | None = None
    saved_usd: float | None = None
    seconds: float = 0.0
    attempts: int = 1
    cached: bool = False
