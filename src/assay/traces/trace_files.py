"""
Files of OTLP as contexts: export requests in JSON, one a file or one a line, and in protobuf, plain or gzipped.

The spans of a trace may stand anywhere in a file. They are kept in a temporary SQLite database, in memory while they
are few and on disk beyond, so that memory does not grow with the file.
"""

import glob
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from assay.errors import BadLine, InvalidRequest, Problem, UsageError
from assay.inputs.context import not_json, too_long
from assay.inputs.files import SourceItem, document_of, lines_of, open_file
from assay.ports import Limits
from assay.traces.dialects import conversation_of
from assay.traces.otlp import Item, items_of_json, items_of_protobuf
from assay.traces.spans import LogRecord, Span, SpanEvent, with_events
from assay.traces.trace_case import Price, SpanGroup, context_of_traces

FORMATS = ".json", ".jsonl", ".ndjson", ".pb", ".binpb", ".otlp"
_WANTED = f"{', '.join(FORMATS)}, or in one of these and .gz"
KEPT = "kept:"  # begins the name of the spans that a server keeps for a project
ReadKept = Callable[[str, Callable[[Iterable[Item]], None]], None]
CACHE_KIB = 32 * 1024  # of the database, in memory
MAX_SPANS = 10_000  # of one trace; more are counted
MAX_TRACES = 1_000  # of one conversation
_PREFIX = 4  # bytes before each request of a file of several: its length, as the collector writes it
_SCHEMA = """
CREATE TABLE span (trace TEXT, root INTEGER, conversation TEXT, body BLOB, size INTEGER);
CREATE TABLE log (trace TEXT, span TEXT, body BLOB);
"""


class TraceSpool:
    """Spans until all of them are read. Then it yields one context for each conversation or trace."""

    def __init__(self, limits: Limits, price: Price | None = None) -> None:
        self._limits, self._price = limits, price
        self._database = sqlite3.connect(
            "", isolation_level=None
        )  # a temporary database, removed when it is closed
        self._database.executescript(
            f"PRAGMA journal_mode=OFF; PRAGMA cache_size=-{CACHE_KIB};{_SCHEMA}BEGIN;"
        )
        self._encode = msgspec.msgpack.Encoder().encode

    def close(self) -> None:
        self._database.close()

    def add(self, items: Iterable[Item]) -> None:
        """Keep the items of one request: all of them, or none if it cannot be read."""
        spans: list[tuple[Any, ...]] = []
        logs: list[tuple[Any, ...]] = []
        for item in items:
            if isinstance(item, LogRecord):
                logs.append((item.trace_id, item.span_id, self._encode(item.event)))
                continue
            body = self._encode(item)
            spans.append((item.trace_id, not item.parent, conversation_of(item), body, len(body)))
        self._database.executemany("INSERT INTO span VALUES (?, ?, ?, ?, ?)", spans)
        self._database.executemany("INSERT INTO log VALUES (?, ?, ?)", logs)

    def contexts(self) -> Iterator[tuple[str, bytes]]:
        """The id and the JSON of each context, in the order in which the traces came."""
        self._database.executescript(
            """
            CREATE INDEX span_trace ON span (trace, root);
            CREATE INDEX log_span ON log (trace, span);
            CREATE TABLE trace AS SELECT trace, min(rowid) AS first, min(conversation) AS conversation,
                count(DISTINCT conversation) AS conversations FROM span GROUP BY trace;
            UPDATE trace SET conversation = NULL WHERE conversations > 1;
            CREATE INDEX trace_conversation ON trace (conversation);
            CREATE TABLE unit AS SELECT min(first) AS first, min(trace) AS trace, conversation FROM trace
                GROUP BY coalesce('c' || conversation, 't' || trace) ORDER BY 1;
            """
        )
        for trace, conversation in self._database.execute(
            "SELECT trace, conversation FROM unit ORDER BY first"
        ):
            budget = _Budget(self._limits.max_request_bytes)
            case_id = trace if conversation is None else conversation
            groups = (
                [self._group(trace, budget)] if conversation is None else self._groups(conversation, budget)
            )
            yield case_id, msgspec.json.encode(context_of_traces(case_id, groups, self._price))

    def _groups(self, conversation: str, budget: "_Budget") -> list[SpanGroup]:
        """The traces of a conversation. Those beyond the limit are one group without spans."""
        traces = self._database.execute(
            "SELECT trace FROM trace WHERE conversation = ? ORDER BY first LIMIT ?",
            (conversation, MAX_TRACES),
        )
        groups = [self._group(trace, budget) for (trace,) in traces.fetchall()]
        (over,) = self._database.execute(
            """
            SELECT count(*) FROM span WHERE trace IN
                (SELECT trace FROM trace WHERE conversation = ? ORDER BY first LIMIT -1 OFFSET ?)
            """,
            (conversation, MAX_TRACES),
        ).fetchone()
        return [*groups, SpanGroup([], over)] if over else groups

    def _group(self, trace: str, budget: "_Budget") -> SpanGroup:
        """The spans of a trace, its roots first, as many as the limits allow."""
        (total,) = self._database.execute("SELECT count(*) FROM span WHERE trace = ?", (trace,)).fetchone()
        rows = self._database.execute(
            "SELECT body, size FROM span WHERE trace = ? ORDER BY root DESC, rowid LIMIT ?",
            (trace, MAX_SPANS),
        )
        spans: list[Span] = []
        over = 0  # log records
        for body, size in rows:
            if not budget.takes(size):
                break
            span, more = self._with_logs(msgspec.msgpack.decode(body, type=Span), budget)
            spans.append(span)
            over += more
        return SpanGroup(spans, total - len(spans) + over)

    def _with_logs(self, span: Span, budget: "_Budget") -> tuple[Span, int]:
        """The span with its log records, and how many of them are over the limit."""
        rows = self._database.execute(
            "SELECT body FROM log WHERE trace = ? AND span = ? ORDER BY rowid", (span.trace_id, span.span_id)
        )
        events: list[SpanEvent] = []
        over = 0
        for (body,) in rows:
            if len(events) < MAX_SPANS and budget.takes(len(body)):
                events.append(msgspec.msgpack.decode(body, type=SpanEvent))
            else:
                over += 1
        return with_events(span, events), over


class _Budget:
    """The bytes that the spans of one case may have. The first one has room whatever its size."""

    def __init__(self, size: int) -> None:
        self._left, self._is_empty = size, True

    def takes(self, size: int) -> bool:
        fits = size <= self._left or self._is_empty
        self._left, self._is_empty = self._left - size, False
        return fits


def trace_items(
    names: Sequence[str], limits: Limits, price: Price | None = None, read_kept: ReadKept | None = None
) -> Iterator[SourceItem]:
    """
    The contexts of some files as items with places. A request that cannot be read is an item with its problems.

    `read_kept` reads the spans that a server keeps, of a name such as `kept:support`.
    """
    spool = TraceSpool(limits, price)
    try:
        for name in names:
            if name.startswith(KEPT) and read_kept is not None:
                read_kept(name.removeprefix(KEPT), spool.add)
            else:
                yield from _read_file(name, limits, spool)
        place = names[0] if len(names) == 1 else "traces"
        for at, (_, raw) in enumerate(spool.contexts()):
            problems = (Problem("", too_long(limits)),) if len(raw) > limits.max_line_bytes else ()
            yield SourceItem(f"{place}[", at, b"" if problems else raw, problems=problems)
    finally:
        spool.close()


def files_of(names: Iterable[str]) -> list[str]:
    """
    The files that these names stand for: a file, a folder with files of traces, or a pattern such as `week/*.jsonl`. A
    name such as `kept:support` stays as it is.

    A file of another kind is refused before anything is read.
    """
    found: dict[str, None] = {}
    for name in names:
        found |= dict.fromkeys(_files_of(name))
    return list(found)


def _files_of(name: str) -> list[str]:
    if name.startswith(KEPT):
        return [name]
    path = Path(name)
    if path.is_dir():
        inside = sorted(str(one) for one in path.iterdir() if one.is_file() and _form(one.name)[0] in FORMATS)
        if not inside:
            raise UsageError(
                f"{name}: expected files of traces in this folder, got none that ends in {_WANTED}"
            )
        return inside
    if glob.has_magic(name) and not path.exists():
        inside = sorted(one for one in glob.glob(name) if Path(one).is_file())
        if not inside:
            raise UsageError(f"{name}: expected files of traces, and no file has such a name")
        return [one for each in inside for one in _files_of(each)]
    if _form(name)[0] not in FORMATS:
        raise UsageError(f"{name}: expected a file of traces that ends in {_WANTED}, or a folder of them")
    return [name]


def _form(name: str) -> tuple[str, bool]:
    path = Path(name.lower())
    compressed = path.suffix == ".gz"
    return (Path(path.stem).suffix if compressed else path.suffix), compressed


def _read_file(name: str, limits: Limits, spool: TraceSpool) -> Iterator[SourceItem]:
    """Keep the spans of a file. Yields an item for each request that cannot be read."""
    form, compressed = _form(name)
    if form == ".json":
        try:
            spool.add(items_of_json(document_of(name, limits)))
        except InvalidRequest as refusal:
            problems = [
                Problem(f"{name}: {one.place}" if one.place else name, one.message)
                for one in refusal.problems
            ]
            raise InvalidRequest(problems) from None
        return
    with open_file(name, compressed=compressed) as file:
        if form in (".jsonl", ".ndjson"):
            prefix = f"{name}:"
            requests = ((number, _items_of_line(line, limits)) for number, line, _ in lines_of(file, limits))
        else:
            prefix = f"{name}: request "
            requests = (
                (at, items_of_protobuf(one)) for at, one in enumerate(_requests(file, name, limits), 1)
            )
        for number, items in requests:
            try:
                spool.add(items)
            except InvalidRequest as refusal:
                yield SourceItem(prefix, number, b"", problems=tuple(refusal.problems))


def _items_of_line(line: bytes, limits: Limits) -> Iterator[Item]:
    if len(line) > limits.max_line_bytes:
        raise InvalidRequest(Problem("", too_long(limits)))
    try:
        document = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidRequest(Problem("", not_json(line, wrong))) from None
    yield from items_of_json(document)


def _requests(file: IO[bytes], name: str, limits: Limits) -> Iterator[bytes]:
    """The requests of a file of protobuf: one, or several with their length before each."""
    limit = limits.max_request_bytes
    head = file.read(_PREFIX)
    if head[:1] != b"\0":  # the first byte of a request is the tag of its first member
        data = head + file.read(limit)
        if len(data) > limit:
            raise UsageError(f"{name}: more than {limit} bytes, which is the limit for one request")
        yield data
        return
    number = 0
    while head:
        number += 1
        size = int.from_bytes(head, "big")
        data = file.read(size) if len(head) == _PREFIX and size <= limit else b""
        if len(data) != size:
            wrong = f"expected a request of {size} bytes (at most {limit}), got {len(data)}"
            raise BadLine(f"{name}: request {number}", [Problem("", wrong)])
        yield data
        head = file.read(_PREFIX)
