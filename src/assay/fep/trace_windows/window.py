"""
A window of a project: the traces that became complete in a span of time, scored as one stored evaluation.

The run of a window is an evaluation with the name of its project. Its own name is that of the project with the start of
the window, and the member `traces` of its metadata says what it holds. `windows_of` reads them.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
from msgspec import Struct

from assay.fep.records.run_header import KIND
from assay.ports import CLOSED, Run, RunQuery, Store
from assay.ports.config import AttributeValue
from assay.runs.run_names import name_of

WindowStatus = Literal["open", "complete", "stopped", "erased"]
TRACES = "traces"  # in the metadata of the run of a window
DAY = 86_400
PAGE = 100
_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)


class WindowPlan(Struct, frozen=True, kw_only=True):
    """What is fixed when a window opens."""

    project: str
    start: datetime
    end: datetime
    sample: float
    filter: dict[str, AttributeValue | list[AttributeValue]]
    case: Literal["trace", "conversation"]
    settle: int  # seconds
    quiet: int
    retention: int
    digest: str  # of the settings of the project
    to: tuple[str, ...] = ()  # where its verdicts go


class WindowCounts(Struct, frozen=True, kw_only=True):
    """What came until now. A sampled trace is scored, or the filter left it out, or it has log records only."""

    seen: int = 0  # traces, sampled or not
    sampled: int = 0
    scored: int = 0
    filtered: int = 0  # left out by the filter
    without_spans: int = 0
    late_spans: int = 0  # spans and log records of traces that were scored before

    def plus(self, other: "WindowCounts") -> "WindowCounts":
        names = self.__struct_fields__
        return WindowCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})


_ROW_NAMES = {"run": "runId", "late_spans": "lateSpans", "not_measured": "notMeasured"}


class WindowRow(Struct, frozen=True, kw_only=True, rename=_ROW_NAMES):
    """A window in a list of windows, with its names over REST."""

    run: str
    name: str
    start: datetime
    end: datetime
    state: WindowStatus
    sample: float
    seen: int
    sampled: int
    scored: int
    filtered: int
    late_spans: int
    not_measured: int


class Window(Struct, frozen=True, kw_only=True):
    """A window as it is stored. `not_measured`: scored traces of which a check could not be measured."""

    run: Run
    plan: WindowPlan
    counts: WindowCounts
    not_measured: int

    @property
    def is_open(self) -> bool:
        return self.run.status not in CLOSED

    @property
    def state(self) -> WindowStatus:
        if self.is_open:
            return "open"
        if self.run.erased:
            return "erased"
        return "complete" if self.run.status == "completed" else "stopped"

    @property
    def title(self) -> str:
        return name_of(self.run.metadata) or self.run.id

    @property
    def row(self) -> WindowRow:
        plan, counts = self.plan, self.counts
        return WindowRow(
            run=self.run.id,
            name=self.title,
            start=plan.start,
            end=plan.end,
            state=self.state,
            sample=plan.sample,
            seen=counts.seen,
            sampled=counts.sampled,
            scored=counts.scored,
            filtered=counts.filtered,
            late_spans=counts.late_spans,
            not_measured=self.not_measured,
        )


def bounds_of(moment: datetime, seconds: int) -> tuple[datetime, datetime]:
    """
    The window of a moment, aligned in UTC: days begin at midnight, weeks on Monday.

    >>> bounds_of(datetime(2026, 11, 18, 15, tzinfo=UTC), 7 * DAY)[0].isoformat()
    '2026-11-16T00:00:00+00:00'
    """
    since = int((moment - _MONDAY).total_seconds()) // seconds * seconds
    start = _MONDAY + timedelta(seconds=since)
    return start, start + timedelta(seconds=seconds)


def title_of(project: str, start: datetime, end: datetime) -> str:
    """The name of the run of a window: `support 2026-11-18`, with the time if it is shorter than a day."""
    seconds = (end - start).total_seconds()
    form = (
        "%Y-%m-%d" if seconds % DAY == 0 else "%Y-%m-%d %H.%M" if seconds % 60 == 0 else "%Y-%m-%d %H.%M.%S"
    )
    return f"{project} {start.strftime(form)}"


def window_line(window: Window) -> str:
    """What a window counts, in one line."""
    plan, counts = window.plan, window.counts
    form = "%Y-%m-%d %H:%M:%S" if plan.start.second or plan.end.second else "%Y-%m-%d %H:%M"
    more = {
        "left out by the filter": counts.filtered,
        "without spans": counts.without_spans,
        "late spans": counts.late_spans,
    }
    rate = "" if plan.sample == 1 else f" ({plan.sample:.3g} of all)"
    return (
        f"traces from {plan.start.strftime(form)} to {plan.end.strftime(form)} UTC: {counts.seen:,} seen,"
        f" {counts.sampled:,} sampled{rate}, {counts.scored:,} scored"
        + "".join(f", {many:,} {name}" for name, many in more.items() if many)
    )


def window_metadata(plan: WindowPlan, counts: WindowCounts, not_measured: int) -> dict[str, Any]:
    members = msgspec.to_builtins(plan) | msgspec.to_builtins(counts) | {"not_measured": not_measured}
    return {TRACES: members}


def plan_in(metadata: Mapping[str, Any]) -> WindowPlan:
    return msgspec.convert(metadata[TRACES], WindowPlan)


def window_in(run: Run) -> Window | None:
    """The window that a run is; None for another evaluation."""
    if TRACES not in run.metadata:
        return None
    members = run.metadata[TRACES]
    return Window(
        run=run,
        plan=msgspec.convert(members, WindowPlan),
        counts=msgspec.convert(members, WindowCounts),
        not_measured=members["not_measured"],
    )


async def windows_of(store: Store, tenant: str, project: str, *, limit: int = 10) -> list[Window]:
    """The newest windows of a project, the newest first. The first may be open: its numbers still grow."""
    found: list[Window] = []
    query = RunQuery(tenant=tenant, kind=KIND, name=project, limit=PAGE)
    while len(found) < limit and (page := await store.runs(query)):
        found += [window for run in page if (window := window_in(run)) is not None]
        query = msgspec.structs.replace(query, before=(page[-1].created, page[-1].id))
    return found[:limit]
