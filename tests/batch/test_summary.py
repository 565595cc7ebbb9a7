"""`assay.batch.summarize`: the summary of parts is that of one process, whatever the parts and their order are."""

import pickle
import random

import msgspec
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay import batch
from assay.batch.summary import IdSample
from assay.errors import InvalidRequest


def grade(output):
    return {"score": len(output) / 10, "words": float(len(output.split()))}


CHECKS = [{"contains": "a"}, {"contains": "b", "name": "has b"}, {"regex": "^[ab]*$"}, grade]
SCHEMA = pyarrow.schema(
    [
        (
            "test_case",
            pyarrow.struct(
                [
                    ("id", pyarrow.string()),
                    ("input", pyarrow.string()),
                    ("metadata", pyarrow.struct([("tags", pyarrow.list_(pyarrow.string()))])),
                ]
            ),
        ),
        (
            "output",
            pyarrow.struct(
                [("value", pyarrow.string()), ("metadata", pyarrow.struct([("trial", pyarrow.int64())]))]
            ),
        ),
    ]
)
CASE = st.lists(st.one_of(st.none(), st.text("ab c", max_size=10)), min_size=1, max_size=3)
CASES = st.lists(
    st.tuples(CASE, st.lists(st.sampled_from(["x", "y"]), max_size=2, unique=True)), min_size=1, max_size=12
)


def rows_of(cases):
    """The rows of each case: one for each trial."""
    return [
        [
            {
                "test_case": {"id": f"case-{at}", "input": "q", "metadata": {"tags": tags}},
                "output": {"value": value, "metadata": {"trial": trial}},
            }
            for trial, value in enumerate(values, 1)
        ]
        for at, (values, tags) in enumerate(cases)
    ]


def table_of(rows):
    return pyarrow.Table.from_pylist(rows, SCHEMA)


def contents(summary):
    """All that a summary says."""
    return {
        "counts": (summary.cases, summary.results, summary.bad_rows, dict(summary.statuses), summary.checks),
        "statistics": msgspec.to_builtins(summary.statistics),
        "slices": [msgspec.to_builtins(one) for one in summary.slices],
        "failing": summary.failing,
        "quantiles": [summary.quantile("grade", share, "words") for share in (0.1, 0.5, 0.9)],
    }


def parts_of(cases, chooser, count=4):
    """Some cases in each part, and the parts in some order."""
    parts = [[] for _ in range(count)]
    for rows in cases:
        parts[chooser.randrange(count)].extend(rows)
    chooser.shuffle(parts)
    return [part for part in parts if part]


SCORE = batch.scorer(CHECKS, by="tag")


@given(CASES, st.randoms(use_true_random=False))
def test_the_summary_of_parts_is_that_of_one_process(cases, chooser):
    cases = rows_of(cases)
    whole = [row for rows in cases for row in rows]
    results = [SCORE(table_of(part)) for part in parts_of(cases, chooser)]
    middle = chooser.randrange(len(results) + 1)
    nested = [part for part in (results[:middle], results[middle:]) if part]
    total = pickle.loads(pickle.dumps(batch.summarize(map(batch.summarize, nested))))
    assert contents(total) == contents(batch.summarize([SCORE(table_of(whole))]))

    one = assay.evaluate_sync(table_of(whole), checks=CHECKS)
    assert msgspec.to_builtins(total.statistics) == (one.metadata or {}).get("statistics")
    assert [(each.id, each.trials) for each in total.failing] == [
        (each.id, each.trials) for each in one.failing
    ][: len(total.failing)]
    assert len(total.failing) == min(5, len(one.failing))
    by_tag = [(each.name, each.passed, each.failed, each.case_pass_rate) for each in one.slices("tag")]
    assert [
        (each.name, each.passed, each.failed, each.case_pass_rate and each.case_pass_rate.rate)
        for each in total.slices
    ] == by_tag


NUMBERS = {
    "score": lambda chooser: chooser.random(),  # more values than are counted, of a known range
    "halves": lambda chooser: chooser.choice([0.0, 0.5, 1.0]),
    "ms": lambda chooser: chooser.lognormvariate(3, 1),  # of an unknown range
    "huge": lambda chooser: chooser.choice([1e300, -1e300, 1.0]),  # whose squares exceed a float
}


@pytest.mark.parametrize("name", NUMBERS)
def test_means_and_intervals_of_many_cases_are_those_of_one_process(name):
    chooser = random.Random(7)
    values = {f"case-{at}": NUMBERS[name](chooser) for at in range(1_500)}

    def amount(output):
        return {name: float(output)}

    rows = [{"id": id, "input": "q", "output": repr(value)} for id, value in values.items()]
    score = batch.scorer([amount])
    results = [
        score(pyarrow.Table.from_pylist(part)) for part in parts_of([[row] for row in rows], chooser, 9)
    ]
    total = batch.summarize(results)
    expected = assay.evaluate_sync(rows, checks=[amount]).metadata["statistics"]["checks"]["amount"]["means"][
        name
    ]
    found = msgspec.to_builtins(total.statistics.checks["amount"].means[name])
    assert found["mean"] == expected["mean"]
    assert (found["method"], found["cases"]) == (expected["method"], expected["cases"])
    assert [found["low"], found["high"]] == (
        pytest.approx([expected["low"], expected["high"]], rel=1e-9)
        if expected["low"] is not None
        else [None, None]
    )
    ordered = sorted(values.values())
    for share in (0.05, 0.5, 0.99):
        true = ordered[int(share * (len(ordered) - 1))]
        assert total.quantile("amount", share, name) == pytest.approx(
            true, rel=0.0101
        )  # approximate: within 1%


def test_a_case_in_several_parts_is_refused():
    rows = rows_of([(["a", "b"], [])])[0]
    with pytest.raises(InvalidRequest, match="divide the rows by their ids"):
        batch.summarize(SCORE(table_of([row])) for row in rows)


def test_a_sample_of_ids_finds_one_in_a_thousand_that_is_in_two_parts():
    one, other = IdSample(map(str, range(100_000))), IdSample(map(str, range(99_900, 200_000)))
    assert one.merge(IdSample(map(str, range(200_000, 300_000))))
    assert not one.merge(other)


def test_rows_that_are_no_cases_are_counted_apart():
    bad = pyarrow.table({"id": ["a", None], "input": ["q", "q"], "output": ["a", "a"]})
    total = batch.summarize([batch.scorer(CHECKS[:1], skip_bad_rows=True)(bad)])
    assert (total.cases, total.bad_rows, total.is_measured) == (1, 1, False)
    assert total.pass_rate is not None
    assert total.pass_rate.rate == 1.0


OTHER = batch.scorer(CHECKS[:1])
ONE_ROW = rows_of([(["a"], [])])[0]
REFUSED = [
    ([], "expected results or summaries, got none"),
    ([3], "expected results of assay.batch.scorer or a Summary, got a number"),
    ([pyarrow.table({"id": ["a"]})], "expected results of assay.batch.scorer, got a table with id"),
    (
        [SCORE(table_of(ONE_ROW)), OTHER(table_of(ONE_ROW))],
        "expected results of one list of checks, got contains, has b",
    ),
]


@pytest.mark.parametrize(("parts", "message"), REFUSED)
def test_parts_that_do_not_add_up_are_refused(parts, message):
    with pytest.raises(InvalidRequest, match=message):
        batch.summarize(parts)
