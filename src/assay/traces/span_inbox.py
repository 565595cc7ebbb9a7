"""
The spans that a server has acknowledged and that are not scored yet: documents of their tenant.

A document has the items of one trace in one request. Its key tells what a window must know before it reads the spans:
when they came, the trace, whether its root is among them, their number and their bytes. Keys are not encrypted, so a
conversation stands there as a digest. Documents of one project are in the order in which they came.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from assay.ports import PutDocument
from assay.traces.dialects import conversation_of
from assay.traces.otlp import Item
from assay.traces.spans import LogRecord, Span, with_events
from assay.traces.trace_case import SpanGroup

KIND = "trace-spans"
ROOT, PART, UNSAMPLED = "r", "s", "u"
_NO_TRACE = "-"
_random = random.SystemRandom()


class InboxEntry(NamedTuple):
    """What the key of a document says. `items`: their number; without a trace, the traces that were not sampled."""

    key: str
    received: int  # microseconds since 1970
    trace: str
    items: int
    size: int  # bytes of the data, which the store may compress
    has_root: bool
    conversation: str  # a digest; "": none is named


class StoredItems(Struct, frozen=True):
    """The data of a document."""

    spans: list[Span]
    logs: list[LogRecord]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredItems).decode


def is_sampled(id: str, rate: float) -> bool:
    """Whether a trace is taken: the same for each of its spans, and independent of the sampling of its sender."""
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=7).digest()) < rate * (1 << 56)


def prefix_of(project: str, received: int = 0) -> str:
    """The beginning of the keys of a project, or of those that came at this time."""
    return f"{project}/{received:014x}" if received else f"{project}/"


def entry_of(key: str) -> InboxEntry:
    _, moment, trace, counts, conversation = key.split("/")
    count, size = counts[1:].split(".")
    return InboxEntry(
        key=key,
        received=int(moment[:14], 16),
        trace="" if trace == _NO_TRACE else trace,
        items=int(count),
        size=int(size),
        has_root=counts.startswith(ROOT),
        conversation=conversation,
    )


def inbox_documents(
    tenant: str, project: str, items: Iterable[Item], rate: float, now: int
) -> list[PutDocument]:
    """The documents of one request: one a sampled trace, and one that counts the roots of the others."""
    request = f"{prefix_of(project, now)}{_random.getrandbits(32):08x}"
    traces: dict[str, StoredItems] = {}
    unsampled = 0
    for item in items:
        if not is_sampled(item.trace_id, rate):
            unsampled += isinstance(item, Span) and not item.parent
            continue
        found = traces.get(item.trace_id)
        if found is None:
            found = traces[item.trace_id] = StoredItems([], [])
        if isinstance(item, Span):
            found.spans.append(item)
        else:
            found.logs.append(item)
    documents: list[PutDocument] = []
    for trace, found in traces.items():
        data = _encode(found)
        key = _key(request, trace, found, len(data))
        documents.append(PutDocument(tenant=tenant, kind=KIND, key=key, data=data))
    if unsampled:
        key = f"{request}/{_NO_TRACE}/{UNSAMPLED}{unsampled}.0/"
        documents.append(PutDocument(tenant=tenant, kind=KIND, key=key, data=b""))
    return documents


def _key(request: str, trace: str, items: StoredItems, size: int) -> str:
    root = ROOT if any(not span.parent for span in items.spans) else PART
    named = {name for span in items.spans if (name := conversation_of(span)) is not None}
    conversation = case_digest(named.pop()) if len(named) == 1 else ""
    return f"{request}/{trace}/{root}{len(items.spans) + len(items.logs)}.{size}/{conversation}"


def case_digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def within_limits(keys: Iterable[str], most: int, most_bytes: int) -> tuple[list[str], list[str]]:
    """
    The documents of a case that are read, and those that are left out: `most` items of a trace, and so many bytes.

    Roots come first, then what came first. The first document is read whatever its size.
    """
    read: list[str] = []
    left_out: list[str] = []
    items = Counter[str]()
    size = 0
    for entry in sorted(map(entry_of, keys), key=lambda one: (not one.has_root, one.key)):
        size += entry.size
        is_over = items[entry.trace] >= most or (size > most_bytes and bool(read))
        items[entry.trace] += entry.items
        (left_out if is_over else read).append(entry.key)
    return read, left_out


def read_items(data: Sequence[bytes]) -> StoredItems:
    """The items of some documents of one case, in their order."""
    parts = [_decode(one) for one in data]
    return StoredItems(
        [span for part in parts for span in part.spans], [log for part in parts for log in part.logs]
    )


def groups_of(items: StoredItems, most: int, left_out: Iterable[str] = ()) -> list[SpanGroup]:
    """
    The spans by trace, with the log records that belong to them. Of a trace, `most` spans are taken.

    `left_out`: keys of documents that were not read. A trace of which none was read is a group without spans.
    """
    logs: dict[tuple[str, str], list[LogRecord]] = {}
    for log in items.logs:
        logs.setdefault((log.trace_id, log.span_id), []).append(log)
    traces: dict[str, list[Span]] = {}
    for span in sorted(items.spans, key=lambda one: bool(one.parent)):  # roots first
        traces.setdefault(span.trace_id, []).append(span)
    over = Counter({trace: max(0, len(spans) - most) for trace, spans in traces.items()})
    for entry in map(entry_of, left_out):
        over[entry.trace] += entry.items
        traces.setdefault(entry.trace, [])
    return [
        SpanGroup([_with_logs(span, logs) for span in spans[:most]], over[trace])
        for trace, spans in traces.items()
    ]


def conversation_in(groups: Iterable[SpanGroup]) -> str | None:
    """The conversation that the spans name, if it is one."""
    named = {name for group in groups for span in group.spans if (name := conversation_of(span)) is not None}
    return named.pop() if len(named) == 1 else None


def _with_logs(span: Span, logs: dict[tuple[str, str], list[LogRecord]]) -> Span:
    return with_events(span, [log.event for log in logs.get((span.trace_id, span.span_id), ())])
