"""A usual pair of a case and an output is read in one step. The result equals that of the plain reader, which reads each part."""

import math

from hypothesis import given
from hypothesis import strategies as st

from assay.fep.planning import request
from assay.fep.planning.request import contexts_in
from assay.ports import Limits
from assay.protocol.evaluation import Output, TestCase

LIMITS = Limits(max_depth=6)
scalars = st.sampled_from(
    [None, True, 7, 2**70, -0.0, 1e22, math.nan, math.inf, "", "null", "é\u2028", "\ud800", b"b", object()]
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=6,
)
ids = st.sampled_from(["a", "b", "", None, 1])
about = st.sampled_from([{}, {"x": 1}, None, "text"])
own = st.sampled_from([None, [], 5, [{"type": "exists", "arguments": {"value": "$.output.value"}}]])
cases = (
    st.fixed_dictionaries(
        {"id": ids, "input": values}, optional={"metadata": about, "checks": own, "more": values}
    )
    | st.builds(TestCase, id=st.sampled_from("ab"), input=values)
    | values
)
outputs = (
    st.fixed_dictionaries({"value": values}, optional={"id": ids, "metadata": about, "more": values})
    | st.builds(Output, value=values)
    | values
)


@given(pairs=st.lists(st.tuples(cases, outputs), max_size=3))
def test_the_step_for_usual_pairs_reads_what_the_plain_reader_reads(pairs):
    left, right = [case for case, _ in pairs], [output for _, output in pairs]
    quick = contexts_in(left, right, LIMITS)
    usual = request.usual_context
    request.usual_context = lambda case, output, limits: None
    try:
        plain = contexts_in(left, right, LIMITS)
    finally:
        request.usual_context = usual
    assert repr(quick) == repr(plain)  # repr: NaN equals nothing


def test_a_usual_pair_takes_the_one_step():
    context = request.usual_context({"id": "a", "input": (1, 2)}, {"value": {"x": "y"}}, Limits())
    assert context is not None
    assert context.line == b'{"test_case":{"id":"a","input":[1,2]},"output":{"value":{"x":"y"}}}'
    assert context.document["test_case"]["input"] == [1, 2]
