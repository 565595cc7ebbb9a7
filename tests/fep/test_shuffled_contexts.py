"""Contexts in a seeded random order, in rounds of whole cases (ADR-0239)."""

from hypothesis import given
from hypothesis import strategies as st

from assay.inputs.context import read_context
from assay.inputs.shuffled import ShuffledContexts
from assay.ports import Limits

LIMITS = Limits()
IDS = st.lists(st.sampled_from([f"case {at}" for at in range(12)]), max_size=40)


def contexts_of(ids):
    for at, id in enumerate(ids):
        line = f'{{"test_case":{{"id":"{id}","input":"ä{at}"}},"output":{{"value":{at}}}}}'
        yield read_context(line.encode(), LIMITS)


def rounds_of(ids, size, seed):
    with ShuffledContexts(contexts_of(ids), LIMITS, seed) as shuffled:
        assert (shuffled.cases, shuffled.contexts) == (len(set(ids)), len(ids))
        return [list(one) for one in shuffled.rounds(size)]


@given(IDS, st.integers(1, 5), st.integers(0, 3))
def test_every_context_is_in_one_round_with_its_whole_case(ids, size, seed):
    rounds = rounds_of(ids, size, seed)
    assert sorted(one.line for part in rounds for one in part) == sorted(one.line for one in contexts_of(ids))
    seen = [{one.document["test_case"]["id"] for one in part} for part in rounds]
    assert sum(map(len, seen)) == len(set(ids))
    assert all(len(part) == size for part in seen[:-1])
    for part in rounds:  # trials keep their order
        for id in {one.document["test_case"]["id"] for one in part}:
            values = [
                one.document["output"]["value"] for one in part if one.document["test_case"]["id"] == id
            ]
            assert values == sorted(values)


@given(IDS, st.integers(0, 3))
def test_equal_seeds_have_equal_orders(ids, seed):
    assert rounds_of(ids, 3, seed) == rounds_of(ids, 3, seed)


def test_other_seeds_have_other_orders():
    ids = [f"case {at}" for at in range(30)]
    orders = {tuple(one.line for part in rounds_of(ids, 10, seed) for one in part) for seed in range(5)}
    assert len(orders) == 5
