"""Caches of what requests bring: their bytes are bounded, and one owner's entries do not drive out another's."""

import gc
import re
import sys
import tracemalloc
import weakref

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import assay
from assay.cache import ENTRY, LARGEST, ByteCache, memoize, memoize_on
from assay.checks import STANDARD
from assay.checks.schema_validator import CACHE_BYTES, validator_for
from assay.checks.standard import regex
from assay.concurrency.workers import batch
from assay.errors import InvalidRequest
from assay.fep.execution.inline import inline_limit
from assay.fep.planning.plan import Plan
from assay.inputs.context import Context
from assay.jsonpath import iregexp
from assay.patterns import bounded_search
from assay.patterns.bounded_search import matches_wildcard
from assay.protocol.evaluation import Check

VALIDATORS: ByteCache = validator_for.cache  # pyright: ignore[reportFunctionMemberAccess]
KEYS, OWNERS = st.integers(0, 9), st.sampled_from("ab")


@settings(max_examples=60, deadline=None)
@given(puts=st.lists(st.tuples(KEYS, OWNERS, st.integers(0, 3_000)), max_size=40))
def test_a_cache_holds_no_more_bytes_than_it_may_and_the_latest_entries(puts):
    cache = ByteCache(16_000)
    sizes = {}
    for key, owner, size in puts:
        cache.put(key, (key, owner), size, owner)
        fits = size + ENTRY <= 16_000 // LARGEST
        assert cache.get(key, owner) == (key, owner) if fits else True
        if fits:
            sizes[key, owner] = size + ENTRY
        held = sum(size for (key, owner), size in sizes.items() if cache.get(key, owner) is not None)
        assert cache.bytes == held <= 16_000
        assert len(cache) == sum(cache.get(key, owner) is not None for key, owner in sizes)
    cache.clear()
    assert (cache.bytes, len(cache)) == (0, 0)


def test_one_owner_drives_out_its_own_entries_first():
    cache = ByteCache(20_000)
    cache.put("mine", 1, 1_000, "a")
    for at in range(100):
        cache.put(at, at, 1_000, "b")
    assert cache.get("mine", "a") == 1
    assert cache.get("mine", "b") is None
    assert cache.get(99, "b") == 99
    assert cache.get(0, "b") is None


def test_a_cached_value_is_found_by_its_arguments_and_owner():
    made = []
    whose = ["a"]

    @memoize(100_000, len, lambda: whose[0])
    def find(text):
        made.append(text)
        if text == "bad":
            raise ValueError(text)
        return [text]

    assert find("x") is find("x")
    whose[0] = "b"
    assert find("x") == ["x"]
    assert find("y" * 100_000) == find("y" * 100_000)
    assert made == ["x", "x", "y" * 100_000, "y" * 100_000]


def test_a_memoized_value_leaves_with_its_object():
    class Thing:
        pass

    @memoize_on
    def about(thing, more=0):
        return [more]

    thing = Thing()
    assert about(thing) is about(thing)
    assert about(thing, 1) == [1]
    seen = weakref.ref(thing)
    del thing
    assert seen() is None


def test_sixty_large_requests_leave_little_behind():
    scorers, plan = [], None
    for at in range(60):
        schema = {"enum": [f"{at} {one}" for one in range(5_000)]}
        checks = [
            {"type": "json_schema", "arguments": {"value": "$.output.value", "schema": schema}},
            {"type": "contains", "arguments": {"text": "$.output.value", "phrases": [f"{at}" * 100_000]}},
        ]
        plan = Plan(msgspec.convert(checks, list[Check]), STANDARD)
        inline_limit(plan.shared)
        scorers.append(weakref.ref(plan.shared))
    del plan
    gc.collect()
    assert not any(scorer() for scorer in scorers)
    assert 0 < VALIDATORS.bytes <= CACHE_BYTES


def test_a_flood_of_schemas_leaves_those_of_another_tenant():
    VALIDATORS.clear()
    mine = b'{"minimum": 5}'
    held = validator_for(mine)
    token = batch.owner.set("another")
    try:
        for at in range(40):
            validator_for(msgspec.json.encode({"enum": [f"{at} {one}" for one in range(8_000)]}))
    finally:
        batch.owner.reset(token)
    assert validator_for(mine) is held


def test_frozen_objects_are_counted_once_an_evaluation():
    """To count them takes milliseconds, and the tests' own are frozen."""
    cases, outputs, calls = [{"id": "a", "input": 1}], [{"value": 1}], []

    def record(frame, event, function):
        if event == "c_call" and function is gc.get_freeze_count:
            calls.append(function)

    assert gc.get_freeze_count() > 0
    for _ in range(2):
        calls.clear()
        sys.setprofile(record)
        try:
            assay.evaluate_sync(cases, outputs, [])
        finally:
            sys.setprofile(None)
    assert not calls


def regexes(*patterns):
    return [
        Check(type="regex", arguments={"text": "$.output.value", "pattern": pattern}) for pattern in patterns
    ]


PATTERNS = {
    "letters": "abcdefghij" * 300,
    "groups": "".join(f"(a{at % 10})" for at in range(750)),
    "optional letters": "".join(f"a{at % 10}?" for at in range(1_000)),
    "alternatives": "|".join(f"a{at}b" for at in range(500)),
    "look-around": "".join(f"(?!a{at % 10})b" for at in range(400)),
    "classes": "".join(f"[{chr(200 + at)}{chr(900 + at)}]" for at in range(30)),
}


def held_by(make):
    """The bytes that are still allocated while the value lives."""
    gc.collect()
    tracemalloc.start()
    try:
        value = make()
        gc.collect()
        return tracemalloc.get_traced_memory()[0], value
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", PATTERNS)
def test_a_plan_counts_what_its_patterns_hold(name):
    """The cache of compiled patterns is emptied, so that only the plan holds them."""
    checks = regexes(PATTERNS[name] + "x")
    Plan(regexes(PATTERNS[name]), STANDARD)  # loads what is loaded once
    held, plan = held_by(lambda: Plan(checks, STANDARD))
    regex._patterns.clear()
    assert held <= plan.size(len(msgspec.json.encode(checks)))


@pytest.mark.parametrize("text", ["a" * 1_000, "(ab?)" * 200, "\\p{L}\\p{Lu}[^\\p{N}]" * 5])
def test_a_pattern_of_a_path_counts_what_it_holds(text):
    iregexp.pattern(text, True)
    held, _ = held_by(lambda: iregexp.pattern(text, False))
    assert held <= iregexp._estimated_bytes(text, False)


def test_checks_whose_patterns_take_too_much_memory_are_refused(monkeypatch):
    monkeypatch.setattr("assay.fep.planning.plan.MAX_HELD", 100_000)
    with pytest.raises(InvalidRequest, match=r"checks\[2\]: the patterns of all checks are too long"):
        Plan(regexes("a" * 90, "b" * 90, "c" * 90), STANDARD)
    with pytest.raises(InvalidRequest, match=r"checks\[2\]\[0\]: the patterns"):
        Plan([regexes("a" * 90), regexes("b" * 90), regexes("c" * 90)], STANDARD)


def test_own_checks_of_many_cases_take_no_more_memory_than_they_may(monkeypatch):
    monkeypatch.setattr("assay.fep.planning.plan.MAX_HELD", 100_000)
    plan = Plan(None, STANDARD)
    case = {"test_case": {"id": "a", "input": 1}, "output": {"value": 1}}
    for at in range(20):
        plan.scorer_for(at, Context(b"", case, regexes(f"{at:090}")), "test_cases")
        assert plan.size(0) <= 100_000


def test_patterns_of_requests_do_not_reach_the_cache_of_re():
    """It counts patterns and not their bytes."""
    before = len(re._cache)  # pyright: ignore[reportAttributeAccessIssue]
    for at in range(5):
        bounded_search.task(bounded_search.common(f"worker{at}", 0))(b"worker")
        Plan(regexes(f"server{at}"), STANDARD)
        iregexp.pattern(f"path{at}", True)
        assert matches_wildcard(f"tool{at}", f"to*{at}")
    assert len(re._cache) == before  # pyright: ignore[reportAttributeAccessIssue]


def test_plans_of_runs_are_bounded_by_their_bytes():
    cache = ByteCache(1_000_000, largest=1_000_000)
    cache.put("a", 1, 900_000, "t")
    assert cache.get("a", "t") == 1
    cache.put("b", 2, 900_000, "u")
    assert (cache.get("a", "t"), cache.get("b", "u")) == (None, 2)
    assert cache.bytes <= 1_000_000
