"""Windows of traces: their bounds, their names and what they say; which traces are complete, and when."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.fep.trace_windows.pending import PendingTraces
from assay.fep.trace_windows.window import (
    Window,
    WindowCounts,
    WindowPlan,
    bounds_of,
    title_of,
    window_in,
    window_line,
    window_metadata,
)
from assay.ports import Run
from assay.traces.span_inbox import entry_of, is_sampled

NOON = datetime(2026, 11, 18, 12, 34, 56, tzinfo=UTC)
HOUR, DAY = 3_600, 86_400


@pytest.mark.parametrize(
    ("seconds", "start", "title"),
    [
        (DAY, datetime(2026, 11, 18, tzinfo=UTC), "support 2026-11-18"),
        (7 * DAY, datetime(2026, 11, 16, tzinfo=UTC), "support 2026-11-16"),  # a Monday
        (HOUR, datetime(2026, 11, 18, 12, tzinfo=UTC), "support 2026-11-18 12.00"),
        (20, datetime(2026, 11, 18, 12, 34, 40, tzinfo=UTC), "support 2026-11-18 12.34.40"),
    ],
)
def test_windows_are_aligned_in_utc_and_named_by_their_start(seconds, start, title):
    assert bounds_of(NOON, seconds) == (start, start + timedelta(seconds=seconds))
    assert title_of("support", *bounds_of(NOON, seconds)) == title


@given(st.integers(1, 4 * 10**9), st.integers(1, 10**7))
def test_each_moment_is_in_one_window_and_windows_follow_each_other(second, seconds):
    moment = datetime.fromtimestamp(second, UTC)
    start, end = bounds_of(moment, seconds)
    assert start <= moment < end
    assert bounds_of(end, seconds)[0] == end


def plan(**more):
    start, end = bounds_of(NOON, DAY)
    usual = WindowPlan(
        project="support", start=start, end=end, sample=1.0, filter={}, case="trace", settle=5, quiet=60,
        retention=0, digest="d",
    )  # fmt: skip
    return msgspec.structs.replace(usual, **more)


def test_a_window_says_what_it_counts():
    run = Run(id="r", tenant="t", kind="evaluation", created=NOON)
    assert window_in(run) is None
    counts = WindowCounts(seen=1_200, sampled=120, scored=100, filtered=20, late_spans=3)
    metadata = window_metadata(plan(sample=0.1), counts, 7)
    window = window_in(msgspec.structs.replace(run, metadata=metadata))
    assert window == Window(run=window.run, plan=plan(sample=0.1), counts=counts, not_measured=7)
    assert window_line(window) == (
        "traces from 2026-11-18 00:00 to 2026-11-19 00:00 UTC: 1,200 seen, 120 sampled (0.1 of all), 100 scored,"
        " 20 left out by the filter, 3 late spans"
    )


SECOND = 1_000_000
AT = 1_780_000_000 * SECOND


def key(trace, seconds, flag="s", conversation=""):
    return f"support/{AT + seconds * SECOND:014x}{0:08x}/{trace}/{flag}1.10/{conversation}"


@pytest.mark.parametrize(
    ("case", "keys", "seconds", "complete"),
    [
        ("trace", [key("a", 0)], 59, []),
        ("trace", [key("a", 0)], 60, ["a"]),  # quiet
        ("trace", [key("a", 0, "r")], 4, []),
        ("trace", [key("a", 0, "r")], 5, ["a"]),  # settled
        ("trace", [key("a", 0, "r"), key("a", 4)], 5, ["a"]),
        ("trace", [key("a", 0), key("a", 50), key("b", 0)], 60, ["b"]),
        ("conversation", [key("a", 0, "r", "c")], 59, []),
        ("conversation", [key("a", 0, "r"), key("a", 1, "s", "c"), key("b", 30, "r", "c")], 89, []),
        ("conversation", [key("a", 0, "r"), key("a", 1, "s", "c"), key("b", 30, "r", "c")], 90, ["c"]),
    ],
)
def test_a_trace_is_complete_after_its_root_or_the_quiet_time(case, keys, seconds, complete):
    pending = PendingTraces("t", plan(case=case))
    for one in keys:
        pending._add(entry_of(one))
    now = AT + seconds * SECOND
    found = list(pending.take_complete(now, now + 10 * SECOND))
    assert [one.name for one in found] == complete
    assert not complete or sum(len(one.keys) for one in found) == sum(
        entry_of(one).trace in ("a", "b") if case == "conversation" else entry_of(one).trace in complete
        for one in keys
    )


def test_a_trace_that_is_complete_after_the_end_belongs_to_the_next_window():
    pending = PendingTraces("t", plan())
    pending._add(entry_of(key("a", 0, "r")))
    assert not list(pending.take_complete(AT + 100 * SECOND, AT + 5 * SECOND))
    assert list(pending.take_complete(AT + 100 * SECOND, AT + 6 * SECOND))


@given(st.uuids())
def test_a_larger_rate_takes_all_that_a_smaller_one_takes(trace):
    rates = [0.001, 0.1, 0.5, 0.9, 1.0]
    taken = [is_sampled(trace.hex, rate) for rate in rates]
    assert taken == sorted(taken)
    assert taken[-1]
