"""Caches of what requests bring: their bytes are bounded, and one owner's entries do not drive out another's."""

import gc
import sys
import weakref

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

import assay
from assay.checks import STANDARD
from assay.checks.schema_validator import CACHE_BYTES, validator_for
from assay.fep.inline import inline_limit
from assay.fep.plan import Plan
from assay.protocol.cache import ENTRY, LARGEST, ByteCache, memoize, memoize_on
from assay.protocol.evaluation import Check
from assay.workers import pool

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


def test_what_is_made_is_remembered_by_its_arguments_and_its_owner():
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


def test_what_is_beside_goes_with_it():
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
    token = pool.owner.set("another")
    try:
        for at in range(40):
            validator_for(msgspec.json.encode({"enum": [f"{at} {one}" for one in range(8_000)]}))
    finally:
        pool.owner.reset(token)
    assert validator_for(mine) is held


def test_a_program_that_froze_objects_is_asked_for_them_once():
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
