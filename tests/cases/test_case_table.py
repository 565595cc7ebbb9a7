"""The table of cases: its rows say what the results say, and a page of it is what the plain form makes."""

import json
from collections import Counter

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from assay.cases.fold import CaseFold
from assay.cases.outcomes import OutcomeColumns, outcomes_of
from assay.cases.pages import PageRequest, page_of, plain_page
from assay.cases.table import CaseFilter, CheckFilter, cells_of, check_counts, entries, read_columns
from assay.ports.cases import CaseBlock

NUMBERS = st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0])
RESULTS = st.tuples(
    st.sampled_from("pfues"),
    st.text("pfues-", max_size=3),
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.none() | st.sampled_from([-1.0, 0.0, 2.0]),
)


def rows(results, sizes, bar=None):
    """The rows of these results, cut into blocks of these sizes."""
    table, blocks, first = CaseFold(), [], 0
    while first < len(results):
        size = sizes[len(blocks) % len(sizes)]
        columns = OutcomeColumns()
        for status, cells, score, cost, latency, findings in results[first : first + size]:
            labelled = [(f"check {at}", cell) for at, cell in enumerate(cells) if cell != "-"]
            numbers = {"score": score, "cost": cost, "latency": latency, "bar": bar, "findings": findings}
            columns.add(status, labelled, **numbers)
        blocks += table.add(first, columns.outcomes())
        first += size
    return blocks, table


@settings(max_examples=60, deadline=None, phases=[Phase.generate])
@given(
    results=st.lists(RESULTS, max_size=24),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    trials=st.integers(1, 3),
    bar=st.none() | st.just(0.5),
    statuses=st.text("pfues", max_size=2),
    checks=st.lists(st.builds(CheckFilter, st.integers(0, 2), st.sampled_from("pf")), max_size=2).map(tuple),
    order=st.sampled_from(["position", "score", "cost", "latency", "status"]),
    descending=st.booleans(),
    offset=st.integers(0, 6),
    limit=st.integers(1, 6),
)
def test_a_page_equals_that_of_the_plain_implementation(
    results, sizes, trials, bar, statuses, checks, order, descending, offset, limit
):
    blocks, table = rows(results, sizes, bar)
    filter = CaseFilter(statuses=statuses, checks=checks)
    request = PageRequest(filter, order, descending, offset, limit)
    page, plain = page_of(blocks, trials, request), plain_page(blocks, trials, request)
    assert page == plain
    assert page.matching == len(list(entries(blocks, trials, filter)))
    counts = Counter(block for one in results for block in one[0])
    totals = table.totals
    assert [totals.passed, totals.failed, totals.ungraded, totals.error, totals.skipped] == [
        counts[outcome] for outcome in "pfues"
    ]
    assert totals.results == len(results)


def line(checks, status="completed", output=None, metadata=None):
    results = [
        {"check_type": kind, "status": "completed", "results": found, "evaluated_at": "2026-01-01T00:00:00Z"}
        | ({"metadata": {"check_name": name}} if name else {})
        for kind, name, found in checks
    ]
    for one in results:
        if one["results"] in ("error", "skip"):
            one |= {"status": one["results"], "results": {}}
    context = {"test_case": {"id": "c", "input": "SECRET"}, "output": {"value": "SECRET", "metadata": output}}
    result = {"status": status, "execution_context": context, "check_results": results, "metadata": metadata}
    return json.dumps(result).encode()


@pytest.mark.parametrize(
    ("checks", "status", "pattern", "score"),
    [
        ([("exact_match", "", {"passed": True}), ("regex", "", {"passed": False})], "completed", "fpf", 0.5),
        ([("exact_match", "", {"passed": True, "score": 0.25})], "completed", "pp", 0.25),
        ([("llm_judge", "", {"response": {"passed": False, "score": 0.5}})], "completed", "ff", 0.5),
        ([("similarity", "", {"response": {"score": 0.75}})], "completed", "uu", 0.75),
        ([("custom", "", {"words": 3})], "completed", "uu", None),
        ([("regex", "", {"passed": True}), ("custom", "", "error")], "error", "epe", None),
        ([("regex", "", "skip")], "skip", "ss", None),
        ([], "completed", "u", None),
    ],
)
def test_a_row_agrees_with_its_result(checks, status, pattern, score):
    outcomes = outcomes_of([line(checks, status)])
    (block,) = CaseFold().add(0, outcomes)
    (case,) = entries([block], 1, CaseFilter())
    assert (case.patterns, case.status, case.score) == ((pattern,), pattern[0], score)
    assert b"SECRET" not in block.data


FOUND = st.sampled_from(
    [{"passed": True}, {"passed": False}, {"passed": True, "score": 0.25}, {"passed": 1}, {"response": {"passed": True}}, "error", "skip"]
)  # fmt: skip
LINES = st.builds(
    line,
    st.lists(st.tuples(st.sampled_from(["regex", "contains"]), st.sampled_from(["", "regex", "named"]), FOUND), max_size=3),
    st.sampled_from(["completed", "error", "skip"]),
    st.sampled_from([None, {}, {"latency_ms": 20}, {"cost_usd": 0.5}, {"latency_ms": "fast"}]),
    st.sampled_from([None, {"cost_usd": 0.25}]),
)  # fmt: skip


@settings(max_examples=60, deadline=None, phases=[Phase.generate])
@given(st.lists(LINES, max_size=12))
def test_rows_of_results_together_equal_those_of_each_alone(lines):
    """Results with the same outcomes share what follows from them."""
    together, alone = CaseFold(), CaseFold()
    shared = together.add(0, outcomes_of(lines)) if lines else []
    single = [block for at, one in enumerate(lines) for block in alone.add(at, outcomes_of([one]))]
    assert list(entries(shared, 1, CaseFilter())) == list(entries(single, 1, CaseFilter()))
    assert together.metadata == alone.metadata
    assert together.totals == alone.totals


def test_labels_numbers_and_costs():
    lines = [
        line([("regex", "", {"passed": True}), ("regex", "", {"passed": False})], output={"latency_ms": 20, "cost_usd": 0.5}),
        line([("contains", "has price", {"passed": True})], metadata={"cost_usd": 0.25}),
    ]  # fmt: skip
    table = CaseFold(["regex #2"])
    (block,) = table.add(0, outcomes_of(lines))
    assert table.metadata == {"checks": ["regex #2", "regex #1", "has price"]}
    first, second = entries([block], 1, CaseFilter())
    assert (first.patterns, first.cost, first.latency) == (("ffp",), 0.5, 20.0)
    assert (second.patterns, second.cost, second.latency) == (("p--p",), 0.25, None)
    assert cells_of(second.patterns, 3) == [None, None, Counter("p")]
    assert check_counts([block], 3) == [Counter("f"), Counter("p"), Counter("p")]


def test_a_run_with_more_checks_and_patterns_than_a_row_has_room_for():
    table = CaseFold()
    columns = OutcomeColumns()
    for number in range(300):
        columns.add("f", [(f"check {number}", "f")], score=number / 300)
    (block,) = table.add(0, columns.outcomes())
    assert len(table.metadata["checks"]) == 64
    assert (block.first, block.last, block.failed) == (0, 299, 300)
    page = page_of([block], 1, PageRequest(CaseFilter(checks=(CheckFilter(5),))))
    assert [case.position for case in page.cases] == [5]
    best = page_of([block], 1, PageRequest(CaseFilter(), "score", True, 0, 2))
    assert [case.position for case in best.cases] == [299, 298]
    assert read_columns(block.data).patterns[0] == "ff"


def test_a_row_survives_its_encoding():
    block = CaseBlock(first=0, last=0, passed=1, data=b"x")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(block), type=CaseBlock) == block


@pytest.mark.parametrize("many", [3, 300])
def test_a_row_counts_its_results_by_outcome(many):
    """With more than 256 patterns an index has two octets."""
    statuses = [["p", "f", "u", "e", "s"][at % 5] for at in range(many)]
    results = [(status, [(f"check {at}", status)]) for at, status in enumerate(statuses)]
    columns = OutcomeColumns()
    for status, cells in [*results, results[0]]:
        columns.add(status, cells)
    (block,) = CaseFold().add(0, columns.outcomes())
    found = block.passed, block.failed, block.ungraded, block.error, block.skipped
    assert found == tuple(statuses.count(one) + (one == "p") for one in ["p", "f", "u", "e", "s"])
