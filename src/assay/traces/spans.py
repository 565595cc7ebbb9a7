"""A span and an event of OpenTelemetry, as far as assay reads them, whatever the encoding was."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from assay.protocol.json_types import JSON

OK, ERROR = 1, 2  # the status codes of a span
SERVER, CONSUMER = 2, 5  # the kinds of spans whose parent may be in another service
KNOWN_PARENT, REMOTE_PARENT = (
    0x100,
    0x200,
)  # bits of `flags`: whether it is known where the parent is; it is in another


class SpanEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of a span, or a log record that belongs to one. `body` is that of a log record."""

    name: str
    attributes: JSON = {}
    body: Any = None
    time: int = 0  # nanoseconds


class Span(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A span. Ids are hexadecimal; times are nanoseconds since 1970; `parent` is empty for a root."""

    trace_id: str
    span_id: str
    parent: str = ""
    name: str = ""
    kind: int = 0
    flags: int = 0
    start: int = 0
    end: int = 0
    attributes: JSON = {}
    resource: JSON = {}
    events: tuple[SpanEvent, ...] = ()
    status: int = 0
    message: str = ""  # of the status
    dropped_attributes: int = 0  # that the sender left out
    dropped_events: int = 0
    probability: float | None = None  # with which the sender sampled the trace, if it says so

    @property
    def has_remote_parent(self) -> bool:
        return self.kind in (SERVER, CONSUMER) or bool(self.flags & REMOTE_PARENT)

    @property
    def has_local_parent(self) -> bool:
        """Whether the sender says that the parent is a span of its own process."""
        return bool(self.parent) and bool(self.flags & KNOWN_PARENT) and not self.has_remote_parent


class LogRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A log record with the span that it belongs to. `service` is the name of the service that sent it."""

    trace_id: str
    span_id: str
    event: SpanEvent
    service: str = ""


def with_events(span: Span, events: Sequence[SpanEvent]) -> Span:
    """The span with events that came as log records, in the order of time."""
    if not events:
        return span
    return replace(span, events=tuple(sorted((*span.events, *events), key=lambda event: event.time)))
