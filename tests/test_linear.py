"""Work that grows with a request, and no faster: each row took many seconds once, by the processor's own clock."""

import time
from itertools import repeat

import pytest

from assay import InvalidRequest
from assay.backends.models.answers import read_value
from assay.fep.context import read_context
from assay.fep.request import contexts_of
from assay.ports import Limits
from assay.serve.rest.asked import gathered

SECONDS = 3.0  # of this thread alone, so that a busy machine changes nothing


def bad_cases():
    """Every second case is wrong, and one id comes back."""
    lines = [b'{"test_case": {"id": "a", "input": 1}, "output": {"value": 1}}', b"1"] * 15_000
    with pytest.raises(InvalidRequest) as refused:
        gathered(map(read_context, lines, repeat(Limits())))
    return len(refused.value.problems) == 15_000


def one_long_case():
    """A case of a megabyte, and many that only have its id."""
    cases = [{"id": "a", "input": list(range(100_000))}, *[{"id": "a", "input": 1}] * 1_000]
    with pytest.raises(InvalidRequest) as refused:
        contexts_of(cases, [{"value": 1}] * len(cases), Limits())
    return len(refused.value.problems) == 1_000


def one_member_twice():
    members = [f'"{at}":1' for at in range(40_000)]
    return read_value("{" + ",".join([*members, members[-1]]) + "}")[1] == "says '39999' twice"


ROWS = [bad_cases, one_long_case, one_member_twice]


@pytest.mark.parametrize("work", ROWS, ids=[row.__name__ for row in ROWS])
def test_it_takes_no_more_time_than_there_is_to_read(work):
    began = time.thread_time()
    assert work()
    assert time.thread_time() - began < SECONDS
