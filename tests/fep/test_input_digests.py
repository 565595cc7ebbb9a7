"""One id stands for one input (FEP-53): the table of digests, against a dictionary."""

import json
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.inputs import input_digests
from assay.inputs.input_digests import InputDigests, digest_of

IDS = st.sampled_from(["a", "b", "c", "aa", "ab", "é", "case-9", "case-10"])


@given(
    st.lists(st.tuples(IDS, st.integers(0, 2))),
    st.sampled_from([[], ["m"], ["m", "n", "aa"], [f"x{at:03}" for at in range(300)]]),
    st.booleans(),
)
def test_law_the_table_answers_as_a_dictionary_would(cases, rising, readable):
    cases = [(id, 0) for id in rising] + cases
    first, expected = {}, []
    for number, (id, value) in enumerate(cases, 1):
        earlier, known = first.setdefault(id, (number, value))
        expected.append(earlier if known != value else None)

    def read_again(number):
        return ((id, digest_of(value), at) for at, (id, value) in enumerate(islice(cases, number - 1), 1))

    small, input_digests.MIN_SLOTS = input_digests.MIN_SLOTS, 4  # so that it grows
    try:
        table = InputDigests(read_again if readable else None)
        assert [table.add(id, value, number) for number, (id, value) in enumerate(cases, 1)] == expected
    finally:
        input_digests.MIN_SLOTS = small


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("1", 1, False),
        ("null", None, False),
        (1, 1.0, True),
        (0, -0.0, True),
        (10**21, 1e21, True),
        (2**53 + 1, float(2**53), False),
        (True, 1, False),
        ({"a": 1, "b": [1.0]}, {"b": [1], "a": 1.0}, True),
        ({"a": "3.5", "b": 2}, {"b": 2.0, "a": "3.5"}, True),
        ([1, 2], [2, 1], False),
        ({"a": None}, {}, False),
        ("", [], False),
    ],
)
def test_equal_inputs_have_equal_digests(one, other, equal):
    assert (digest_of(one) == digest_of(other)) is equal


@given(
    st.recursive(
        st.integers(-3, 3) | st.text() | st.booleans() | st.floats(-4, 4),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=6,
    )
)
def test_law_the_digest_does_not_depend_on_the_spelling(value):
    def reordered(part):
        if isinstance(part, dict):
            return {name: reordered(part[name]) for name in reversed(part)}
        if isinstance(part, list):
            return [reordered(item) for item in part]
        return float(part) if isinstance(part, int) and not isinstance(part, bool) else part

    assert digest_of(json.loads(json.dumps(reordered(value)))) == digest_of(value)
