"""Canonical JSON against an independent implementation of RFC 8785."""

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from assay.checks.standard.json_match import equal
from assay.protocol.canonical import canonical, exact

inside = st.integers(-(2**53) + 1, 2**53 - 1)
values = st.recursive(
    st.none() | st.booleans() | inside | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=values)
def test_canonical_json_equals_the_examples_of_the_rfc(value):
    assert canonical(value) == rfc8785.dumps(value).decode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (1e21, "1e+21"),
        (1e-7, "1e-7"),
        (123456789012345680000.0, "123456789012345680000"),
        (True, "true"),
        ({"b": 1, "a": [None, "é"]}, '{"a":[null,"é"],"b":1}'),
        (2**53 + 1, "9007199254740993"),  # the RFC has no such integer: ours keeps its digits
    ],
)
def test_rows_worth_knowing(value, text):
    assert canonical(value) == text


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.floats(1e15, 1e25).map(int)


@given(one=numbers, two=numbers)
def test_exact_texts_are_equal_where_numbers_are(one, two):
    for left, right in ((one, two), (one, float(one)), (two, int(two)), ({"a": [one]}, {"a": [two]})):
        assert (exact(left) == exact(right)) is equal(left, right)
