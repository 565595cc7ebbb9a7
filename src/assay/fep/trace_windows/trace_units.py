"""Units of a window: some traces that are complete. One is scored in any process, from the spans in the store."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from assay.checks.missing_parts import MISSING
from assay.concurrency.threads import off_loop
from assay.fep.execution.execute import ExecutionOptions
from assay.fep.records.run_header import PlannedRequest, ShardUnit, UnitResult
from assay.fep.trace_windows.window import WindowCounts, WindowPlan
from assay.inputs.context import NotAContext, context_of
from assay.ports import DeleteDocument, Limits, PutDocument, Store
from assay.protocol.json_types import JSON, is_list
from assay.traces import span_inbox
from assay.traces.span_inbox import conversation_in, groups_of, is_sampled, read_items
from assay.traces.trace_case import PARTS, Price, context_of_traces
from assay.traces.trace_files import MAX_SPANS

SCORED = "trace-scored"  # the kind of documents that remember which traces were scored
KEPT = "trace-kept/"  # and of spans that are kept for `retention`; the name of the project follows
MARK = b"T"  # the first byte of such a unit; those of other evaluations begin with that of a MessagePack map
MAX_ID = 1_000  # characters of the id of a case that cannot be read, which the sender chose


class CaseDocuments(Struct, frozen=True, array_like=True):
    """The documents of one case. `name` is the trace, or the digest of a conversation. `left_out` are not read."""

    name: str
    keys: list[str]
    left_out: list[str] = []


class TraceUnit(Struct, frozen=True, kw_only=True):
    run: str
    number: int
    tenant: str
    plan: WindowPlan
    cases: list[CaseDocuments]
    counted: list[str] = []  # keys of documents that only count
    unsampled: int = 0


class TraceUnitResult(Struct, frozen=True, kw_only=True):
    """The results of a unit; None if it has no case. The rest is written with them in one transaction."""

    number: int
    result: UnitResult | None
    counts: WindowCounts
    deleted: list[str]
    scored: list[str]  # the names of the cases
    kept: dict[str, bytes]


_pack = msgspec.msgpack.encode
_unit = msgspec.msgpack.Decoder(TraceUnit).decode
_result = msgspec.msgpack.Decoder(TraceUnitResult).decode


def pack_unit(unit: TraceUnit) -> bytes:
    return MARK + _pack(unit)


def read_unit(data: bytes) -> TraceUnit | None:
    """The unit, or None if it is one of another evaluation."""
    return _unit(data[1:]) if data.startswith(MARK) else None


def read_result(data: bytes) -> TraceUnitResult:
    return _result(data)


async def perform(
    unit: TraceUnit, store: Store, work: PlannedRequest, options: ExecutionOptions, price: Price | None
) -> bytes:
    """Score the traces of a unit. Spans of a trace that was scored before are late: they are counted."""
    tenant, plan = unit.tenant, unit.plan
    keys = [key for case in unit.cases for key in case.keys]
    found = {one.key: one.data for one in await store.find_documents(tenant, span_inbox.KIND, keys)}
    names = [scored_key(plan.project, case.name) for case in unit.cases]
    before = {one.key for one in await store.find_documents(tenant, SCORED, names)}
    cases: list[tuple[CaseDocuments, list[bytes]]] = []
    late = 0
    for case, name in zip(unit.cases, names, strict=True):
        data = [found[key] for key in case.keys if key in found]
        if name in before:
            there = [*(key for key in case.keys if key in found), *case.left_out]
            late += sum(span_inbox.entry_of(key).items for key in there)
        elif data:
            cases.append((case, data))
    limits = work.plan.services.limits
    size = sum(len(one) for _, data in cases for one in data)
    made = await off_loop(size, lambda: [_line(*one, plan, limits, price) for one in cases])
    lines = [line for line in made if isinstance(line, bytes)]
    result = None
    if lines:
        result = await work.perform(ShardUnit(unit.run, unit.number, 0, lines), options)
        if len(result.lines) < len(lines):
            raise RuntimeError("a unit of traces was not scored as a whole")
    sampled = sum(line is not UNSAMPLED for line in made)
    counts = WindowCounts(
        seen=unit.unsampled + len(made),
        sampled=sampled,
        scored=len(lines),
        filtered=made.count(FILTERED),
        without_spans=made.count(EMPTY),
        late_spans=late,
    )
    kept = found if plan.retention else {}
    left_out = [key for case in unit.cases for key in case.left_out]
    return _pack(
        TraceUnitResult(
            number=unit.number,
            result=result,
            counts=counts,
            deleted=[*found, *left_out, *unit.counted],
            scored=[case.name for case, _ in cases],
            kept=kept,
        )
    )


def changes_of(result: TraceUnitResult, tenant: str, project: str) -> list[PutDocument | DeleteDocument]:
    """
    What is written with the results: the spans go, and each case is marked as scored.

    A case that is marked already is a conflict, so nothing of the transaction is written: no case is scored twice.
    """
    gone: list[PutDocument | DeleteDocument] = [
        DeleteDocument(tenant=tenant, kind=span_inbox.KIND, key=key, version=None) for key in result.deleted
    ]
    marks = [
        PutDocument(tenant=tenant, kind=SCORED, key=scored_key(project, name), data=b"")
        for name in result.scored
    ]
    kept = [
        PutDocument(tenant=tenant, kind=f"{KEPT}{project}", key=key, data=data, version=None)
        for key, data in result.kept.items()
    ]
    return [*gone, *marks, *kept]


def scored_key(project: str, name: str) -> str:
    return f"{project}/{name}"


EMPTY, FILTERED, UNSAMPLED = "empty", "filtered", "unsampled"


def _line(
    case: CaseDocuments, data: Sequence[bytes], plan: WindowPlan, limits: Limits, price: Price | None
) -> bytes | str:
    """The context of a case, or why it is not scored."""
    groups = groups_of(read_items(data), MAX_SPANS, case.left_out)
    traces = sorted(group.spans[0].trace_id for group in groups if group.spans)
    if not traces:
        return EMPTY
    case_id = traces[0]
    if plan.case == "conversation":
        case_id = conversation_in(groups) or case_id
        if not is_sampled(case_id, plan.sample):
            return UNSAMPLED
    document = context_of_traces(case_id, groups, price)
    if not _matches(document["test_case"].get("metadata", {}), plan.filter):
        return FILTERED
    line = msgspec.json.encode(document)
    try:
        if len(line) > limits.max_line_bytes:
            why = f"the case has {len(line)} bytes; {limits.max_line_bytes} are the limit"
            return _unreadable(document, why)
        context_of(line, document, limits)
    except NotAContext as wrong:
        return _unreadable(document, str(wrong))
    return line


def _matches(metadata: JSON, wanted: Mapping[str, Any]) -> bool:
    return all(
        metadata.get(name) in value if is_list(value) else metadata.get(name) == value
        for name, value in wanted.items()
    )


def _unreadable(document: JSON, reason: str) -> bytes:
    """A case that cannot be scored: each part is missing, so no check is measured, and its span gets that verdict."""
    trace = document["output"]["metadata"]["trace"]
    ids = {"trace_ids": trace["trace_ids"][-1:], "span_id": trace.get("judged_span_id", trace["span_id"])}
    return msgspec.json.encode(
        {
            "test_case": {"id": document["test_case"]["id"][:MAX_ID], "input": None},
            "output": {"value": None, "metadata": {"trace": ids, MISSING: dict.fromkeys(PARTS, reason)}},
        }
    )
