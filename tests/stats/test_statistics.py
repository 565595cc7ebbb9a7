"""How sure a number of one run is (FEP-52): a case has one value, whatever it was asked and however a run was done."""

import gc
import json
import math
import weakref
from collections import Counter, defaultdict
from contextlib import contextmanager
from fractions import Fraction
from itertools import combinations
from statistics import NormalDist, fmean, stdev

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import assay
from assay.agenteval.results.eval_statistics import interval_of
from assay.checks import STANDARD
from assay.checks.arguments import bind
from assay.protocol.evaluation import Check
from assay.results import columns as clusters
from assay.results import tally as tallies
from assay.results.number_ranges import declared_ranges
from assay.results.statistics import totals
from assay.results.tally import Tally, TallyRecord
from assay.stats.gaffke import Z
from assay.stats.intervals import CONFIDENCE, counted_rate, mean_of, t_quantile, wilson
from support.stats import gaffke_reference

MATCH = {
    "type": "exact_match",
    "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"},
}
LOOSE = {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["a"]}}


def test_the_quantile_of_the_normal_distribution_is_that_of_the_standard_library():
    assert NormalDist().inv_cdf((1 + CONFIDENCE) / 2) == Z


@pytest.mark.parametrize(
    ("df", "p", "quantile"),
    [  # published tables, to the digits they have
        (1, 0.975, 12.7062), (2, 0.975, 4.30265), (3, 0.975, 3.18245), (4, 0.975, 2.77645), (5, 0.975, 2.57058),
        (9, 0.975, 2.26216), (10, 0.975, 2.22814), (29, 0.975, 2.04523), (30, 0.975, 2.04227),
        (60, 0.975, 2.00030), (120, 0.975, 1.97993), (1, 0.95, 6.31375), (10, 0.95, 1.81246), (10, 0.995, 3.16927),
        (1_000, 0.975, 1.96234), (10**9, 0.975, 1.95996),
    ],
)  # fmt: skip
def test_quantiles_of_t(df, p, quantile):
    assert t_quantile(p, df) == pytest.approx(quantile, abs=1e-5)


@settings(deadline=None)
@given(p=st.floats(0.6, 0.999))
def test_quantiles_of_t_have_closed_forms_for_one_and_two_degrees(p):
    assert t_quantile(p, 1) == pytest.approx(math.tan(math.pi * (p - 0.5)), rel=1e-11)
    assert t_quantile(p, 2) == pytest.approx((2 * p - 1) / math.sqrt(2 * p * (1 - p)), rel=1e-11)


def test_both_forms_of_a_quantile_meet():
    assert t_quantile(0.975, 999.999) == pytest.approx(t_quantile(0.975, 1_000), rel=1e-8)


def plain_rate(cases):
    """FEP-52, word by word, from (passed, answers) of every case."""
    answers, count = sum(of for _, of in cases), len(cases)
    rates = [Fraction(passed, of) for passed, of in cases]
    rate = float(sum(rates) / count)
    if answers == count:
        return rate, plain_wilson(rate, count), answers, count
    return rate, gaffke_reference.limits([float(one) for one in rates]), answers, count


def plain_wilson(p, n):
    z = NormalDist().inv_cdf(0.975)
    middle, reach = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = (middle - reach) / (1 + z * z / n), (middle + reach) / (1 + z * z / n)
    if 10 <= n <= 17 and round(p * n) == 1:
        low = -math.log(0.95) / n
    if 10 <= n <= 17 and round(p * n) == n - 1:
        high = 1 + math.log(0.95) / n
    return low, high


some_cases = st.lists(
    st.integers(1, 6).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))), min_size=1, max_size=30
)


@settings(deadline=None)
@given(cases=some_cases)
def test_a_rate_is_the_plain_formula(cases):
    counted = defaultdict(int)
    for case in cases:
        counted[case] += 1
    found = counted_rate(counted)
    rate, (low, high), answers, count = plain_rate(cases)
    assert (found.of, found.cases) == (answers, count)
    assert (found.rate, found.low, found.high) == pytest.approx((rate, low, high), abs=1e-5)
    assert 0 <= found.low <= found.rate <= found.high <= 1
    assert found.low < found.high


@settings(deadline=None)
@given(means=st.lists(st.floats(-1e6, 1e6), min_size=30, max_size=40))
def test_a_mean_of_numbers_without_a_range_is_that_of_t(means):
    found = mean_of(means, len(means), None)
    reach = t_quantile(0.975, len(means) - 1) * stdev(means) / math.sqrt(len(means))
    if not any((one - found.mean) ** 2 for one in means):  # equal, or with squares below the smallest float
        assert (found.low, found.high, found.method) == (None, None, "none")
        return
    expected = fmean(means) - reach, fmean(means) + reach
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_at_the_edges():
    few = mean_of([3.0, 4.0] * 14, 28, None)
    assert (few.mean, few.low, few.high, few.of, few.cases) == (3.5, None, None, 28, 28)
    assert few.method == "too-few"
    equal = mean_of([2.0] * 30, 30, None)
    assert (equal.low, equal.high, equal.method) == (None, None, "none")
    large = mean_of([1.7e308, 1.7e308, -1.7e308] * 10, 30, None)
    assert large.mean == pytest.approx(1.7e308 / 3)
    assert large.low is None  # its squares are beyond a float
    assert wilson(0.0, 10)[0] == 0
    assert wilson(1.0, 10)[1] == 1
    assert counted_rate({}) is None


@settings(deadline=None)
@given(
    size=st.integers(5, 70),
    codes=st.lists(st.integers(0, 2**141 - 1), max_size=20),
)
def test_both_ways_to_count_bits_agree(size, codes):
    """The one for few outcomes, and the one for many."""
    counts = Counter(code % 2 ** (2 * size + 1) for code in codes)
    few = totals(counts, size)
    many = totals(counts + Counter(range(300)), size)
    extra = totals(Counter(range(256)), size), totals(Counter(range(256, 300)), size)
    for at in range(size):
        for which in (0, 1):
            assert many[which][at] == few[which][at] + extra[0][which][at] + extra[1][which][at]


# a tally against the plain formula, in memory and put aside, in one and in parts

cases = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", "d10", "d9", "é"]),
        st.lists(st.sampled_from([True, False, None, 0.25, 1.5]), min_size=2, max_size=2),
    ),
    min_size=1,
    max_size=25,
)


def result(found):
    """A check's result: passed, failed, a number, or None for an error."""
    if found is None:
        return "error", {}
    return "completed", {"passed": found} if isinstance(found, bool) else {"score": found}


def counted(rows, *, part=False):
    tally = Tally(part=part)
    for at, (id, found) in enumerate(rows):
        answers = tally.answers(("one", "two") if at % 3 else ("two", "one"))
        code = 0
        for number, one in enumerate(found if at % 3 else found[::-1]):
            code |= answers.record(number, *result(one), id)
        answers.close(id, code)
        tally.count_case("error" if None in found else "completed")
        if at % 4 == 0:
            tally.fold()
    return tally


@settings(deadline=None)
@given(rows=cases, cut=st.integers(0, 25))
def test_a_tally_is_the_plain_formula_however_it_was_made(rows, cut):
    whole = counted(rows).statistics()
    joined = Tally()
    for some in (rows[:cut], rows[cut:]):
        record = read_again(counted(some, part=True).record())
        joined.add(record)
    assert joined.statistics() == whole
    with small_blocks():
        assert counted(rows).statistics() == whole
    by_id, numbers, trials = defaultdict(list), defaultdict(list), defaultdict(list)
    for id, found in rows:
        by_id[id] += [one for one in found if isinstance(one, bool)]
        if isinstance(found[0], float):
            numbers[id].append(found[0])
        decided = [one for one in found if isinstance(one, bool)]
        if decided and None not in found:
            trials[id].append(all(decided))
    answered = [(sum(found), len(found)) for found in by_id.values() if found]
    if answered:
        rate, (low, high), answers, count = plain_rate(answered)
        got = whole.pass_rate
        assert (got.of, got.cases) == (answers, count)
        assert (got.rate, got.low, got.high) == pytest.approx((rate, low, high), abs=1e-5)
    else:
        assert whole is None or whole.pass_rate is None
    if numbers:
        score = whole.checks["one"].means["score"]
        assert (score.of, score.cases) == (sum(map(len, numbers.values())), len(numbers))
        assert score.mean == pytest.approx(fmean(map(fmean, numbers.values())))
    most = max(map(len, trials.values()), default=0)
    if most > 1:
        assert list(whole.pass_k) == [str(k) for k in range(1, most + 1)]
        for k in range(1, most + 1):
            chances = [
                fmean(all(some) for some in combinations(found, k))
                for found in trials.values()
                if len(found) >= k
            ]
            assert whole.pass_k[str(k)].rate == pytest.approx(fmean(chances))
            assert whole.pass_k[str(k)].cases == len(chances)
            any_pass = [
                fmean(any(some) for some in combinations(found, k))
                for found in trials.values()
                if len(found) >= k
            ]
            assert whole.pass_at_k[str(k)].rate == pytest.approx(fmean(any_pass))
            assert whole.pass_at_k[str(k)].cases == len(any_pass)


@contextmanager
def small_blocks():
    """So small that cases are put aside, and read again."""
    before, loose = clusters.BLOCK, tallies.PACK_AFTER
    clusters.BLOCK = tallies.BLOCK = 4
    tallies.PACK_AFTER = 1
    try:
        yield
    finally:
        clusters.BLOCK = tallies.BLOCK = before
        tallies.PACK_AFTER = loose


def read_again(record):
    return msgspec.json.decode(msgspec.json.encode(record), type=TallyRecord)


def of_codes(labels, ids, codes):
    tally = Tally()
    answers = tally.answers(labels)
    for id, code in zip(ids, codes, strict=True):
        answers.close(id, code)
        tally.count_case("completed")
    return tally


# a bit a check for those that passed, only where the bit above says that it passed or failed
three_codes = st.builds(
    lambda decided, good, odd: decided << 3 | decided & good | odd << 6,
    st.integers(0, 7),
    st.integers(0, 7),
    st.integers(0, 1),
)


@given(codes=st.lists(three_codes, min_size=1, max_size=40), repeats=st.booleans())
def test_a_few_cases_come_to_what_columns_come_to(codes, repeats):
    ids = [str(at % 7 if repeats else at) for at in range(len(codes))]
    for labels in (("a", "b", "c"), ("a", "b", "a")):
        small = of_codes(labels, ids, codes)
        with small_blocks():
            large = of_codes(labels, ids, codes)
            assert (large.rows, large.statistics()) == (small.rows, small.statistics())
            assert large.summary() == small.summary()


def test_a_tally_goes_without_the_garbage_collector():
    """In a cycle, all that a request brought would stay until the next collection, and each request would take fresh memory."""
    tally = counted([("a", [True, 0.5]), ("b", [None, False])])
    assert tally.statistics() is not None
    gone = weakref.ref(tally.spill_file)
    gc.disable()
    try:
        del tally
        assert gone() is None
    finally:
        gc.enable()


# as users meet it


def case(id, value):
    return {"id": id, "input": "?", "expected": "a"}, {"value": value}


def evaluated(pairs, checks):
    return assay.evaluate_sync([one for one, _ in pairs], [two for _, two in pairs], checks)


def test_a_check_listed_a_hundred_times_makes_nothing_surer():
    pairs = [case(f"c{at}", "a" if at % 2 else "b") for at in range(10)]
    rate = evaluated(pairs, [MATCH] * 100).metadata["statistics"]["pass_rate"]
    assert (rate["rate"], rate["of"], rate["cases"]) == (0.5, 1_000, 10)
    assert (round(rate["low"], 3), round(rate["high"], 3)) == (
        0.187,
        0.813,
    )  # Clopper and Pearson's, of ten cases


class Stars(assay.Checker):
    """A check that declares the range of its number, and not that of another."""

    type = "stars"
    results_schema = {  # noqa: RUF012  # declared a ClassVar in Checker
        "type": "object",
        "properties": {
            "stars": {"type": "integer", "minimum": 1, "maximum": 5},
            "words": {"type": "integer"},
        },
    }
    value: int

    def run(self, services):
        return {"stars": self.value, "words": self.value, "score": self.value / 5}


def test_a_number_has_the_range_that_its_check_declares():
    found = assay.evaluate_sync(
        [{"id": f"c{at}", "input": "?"} for at in range(3)],
        [{"value": value} for value in (5, 5, 4)],
        [{"type": "stars", "arguments": {"value": "$.output.value"}}],
        registry=STANDARD.with_checks([Stars]),
    ).metadata["statistics"]["checks"]["stars"]["means"]
    low, high = gaffke_reference.limits([1.0, 1.0, 0.75])
    assert (found["stars"]["low"], found["stars"]["high"]) == pytest.approx(
        (1 + 4 * low, 1 + 4 * high), abs=1e-4
    )
    assert {name: one["method"] for name, one in found.items()} == {
        "stars": "gaffke", "words": "too-few", "score": "gaffke"
    }  # fmt: skip
    assert found["words"]["low"] is None


@pytest.mark.parametrize(
    ("schema", "limits"),
    [
        ({"type": "number", "minimum": 0, "maximum": 1}, (0, 1)),
        ({"type": "integer", "enum": [1, 2, 5]}, (1, 5)),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 10}, (0, 10)),
        ({"type": "number", "minimum": 0}, None),
        ({"type": "string", "enum": ["a", "b"]}, None),
        ({"enum": [1, "b"]}, None),
        ({"minimum": 1, "maximum": 1}, None),
        ({"minimum": -1e308, "maximum": 1e308}, None),  # its width exceeds a float
        (True, None),
    ],
)
def test_a_judge_declares_ranges_in_its_response_format(schema, limits):
    arguments = {"prompt": "?", "response_format": {"type": "object", "properties": {"tone": schema}}}
    bound = bind(Check(type="llm_judge", arguments=arguments), STANDARD, "checks[0]")
    assert declared_ranges(bound).get("tone") == limits


def test_repeats_of_a_case_are_one_cluster_and_have_pass_k():
    pairs = [case(f"c{at}", "a" if at % 2 else "b") for _ in range(4) for at in range(10)]
    found = evaluated(pairs, [MATCH]).metadata["statistics"]
    assert found["pass_rate"] == found["checks"]["exact_match"]["pass_rate"] == found["pass_k"]["1"]
    assert (found["pass_rate"]["cases"], found["pass_rate"]["of"]) == (10, 40)
    assert round(found["pass_rate"]["low"], 3) == 0.187
    assert list(found["pass_k"]) == ["1", "2", "3", "4"]
    assert "pass_k" not in evaluated(pairs[:10], [MATCH]).metadata["statistics"]
    assert "statistics" not in (evaluated(pairs, []).metadata or {})


@pytest.fixture
def mixed(tmp_path):
    """Enough lines for two jobs; some ids come again, near and far."""
    rows = [
        {"test_case": one, "output": two}
        for at in range(600)
        for one, two in [case(f"case-{at % 500 if at % 7 else at // 2}", "a" if at % 3 else f"ab{at % 2}")]
    ]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "c.json").write_text(json.dumps([MATCH, LOOSE]))
    return rows


def test_every_way_gives_the_same_numbers(command, tmp_path, mixed):
    def evaluate(*options):
        ended = command("evaluate", "--contexts", "x.jsonl", "--checks", "c.json", *options, folder=tmp_path)
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    expected = evaluated([(row["test_case"], row["output"]) for row in mixed], [MATCH, LOOSE])
    statistics = expected.metadata["statistics"]
    alone = evaluate("--json", "-o", "all.json")
    assert alone["pass_rate"] == statistics["pass_rate"]
    assert alone["pass_k"] == statistics["pass_k"]
    assert alone["checks"]["contains"]["pass_rate"] == statistics["checks"]["contains"]["pass_rate"]
    assert json.loads((tmp_path / "all.json").read_text())["metadata"]["statistics"] == statistics
    some = ("pass_rate", "pass_k", "pass_at_k", "checks")
    together = evaluate("--json", "--jobs", "2", "-o", "some.jsonl")
    assert [together[name] for name in some] == [alone[name] for name in some]
    kept = (tmp_path / "some.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "some.jsonl").write_text("".join(kept[:250]))
    resumed = evaluate("--json", "--resume", "-o", "some.jsonl")
    assert [resumed[name] for name in some] == [alone[name] for name in some]


@pytest.mark.parametrize(
    ("kind", "scores", "trials", "interval", "name"),
    [
        ("golden", [1.0, 1.0, 0.0, 0.0], 1, plain_wilson(0.5, 4), "wilson"),
        ("golden", [1.0, 0.0], 8, gaffke_reference.limits([1.0, 0.0]), "gaffke"),
        ("golden", [0.5, 0.5], 8, gaffke_reference.limits([0.5, 0.5]), "gaffke"),
        ("rubric", [0.8, 0.6], 1, gaffke_reference.limits([0.8, 0.6]), "gaffke"),
        ("rubric", [0.8, 0.6], 3, gaffke_reference.limits([0.8, 0.6]), "gaffke"),
        ("rubric", [1.0, 1.0, 1.0], 1, plain_wilson(1.0, 3), "wilson"),
        ("rubric", [0.8], 3, (0.8 * 0.025, 1 - 0.2 * 0.025), "gaffke"),
        ("golden", [], 1, (None, None), "none"),
    ],
)
def test_the_interval_of_a_score(kind, scores, trials, interval, name):
    low, high, method = interval_of(scores, trials * len(scores))
    assert (low, high) == (pytest.approx(interval, abs=1e-5) if interval[0] is not None else interval)
    assert method == name
