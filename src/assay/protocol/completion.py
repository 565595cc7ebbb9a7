"""Requests to models and their completions, independent of the transport (FEP 2.3.6)."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from assay.protocol.agents import ToolSpec


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that a model requests. `problem` is set if its arguments are not a JSON object."""

    id: str
    tool: str  # `<scope>:<tool-id>`
    arguments: dict[str, Any] = {}
    problem: str | None = None


class Message(msgspec.Struct, frozen=True):
    """A message of a conversation. An assistant's may request tool calls; a `tool` message answers one."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    fixed: int = 0  # characters at its beginning that are the same for all cases: a provider may cache them


# Parameters that `CompletionRequest` sets itself, or that would return something other than one completion.
RESERVED_PARAMETERS = frozenset(
    {"messages", "model", "n", "response_format", "stream", "stream_options", "tools"}
)


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model. `check_version` and `repeat` are not sent; they only select the cached completion."""

    messages: tuple[Message, ...]
    model: str
    schema: dict[str, Any] | None = None  # for the completion; the caller validates it
    parameters: dict[str, Any] = {}  # temperature, max_tokens, seed, …: sent as they are
    tools: tuple[ToolSpec, ...] = ()  # that it may call
    timeout: float | None = None  # seconds for the whole call; None: the provider's deadline
    may_wait: bool = False  # the answer may come hours later: a batch may ask
    check_version: str = ""
    repeat: int = 0
    accepts: "Callable[[Completion], bool] | None" = (
        None  # whether a completion may be cached; None: if it is complete
    )


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """
    A model's answer, unchanged.

    An answer that is cut off (`finish_reason` "length"), filtered or refused is a completion too.

    If the request had a schema, `value` is the parsed JSON, or unset with a `problem`. An unknown cost is None. A
    cached completion costs 0.0; `saved_usd` is what it cost originally.
    """

    text: str
    finish_reason: str
    model: str
    provider: str
    value: Any = msgspec.UNSET
    problem: str | None = None
    refusal: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    structured: bool = False  # the endpoint enforced the schema
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None  # of the input, from the provider's cache; None: it does not say
    cache_write_tokens: int | None = None
    cost_usd: float | None = None
    saved_usd: float | None = None
    seconds: float = 0.0
    attempts: int = 1
    cached: bool = False
    batch: bool = False  # answered in a batch


class Embeddings(msgspec.Struct, frozen=True, kw_only=True):
    """One vector per text, in their order. Vectors are not normalised."""

    vectors: tuple[tuple[float, ...], ...]
    model: str
    provider: str
    tokens: int | None = None
    cost_usd: float | None = None
    saved_usd: float | None = None
    seconds: float = 0.0
    attempts: int = 1
    cached: bool = False
