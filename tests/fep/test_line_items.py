"""Lines are read in fewer steps than other items. The contexts, the offsets and the bad lines are those of the plain reader."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.fep.planning.sources import Source, from_contexts
from assay.inputs.files import LineItems, read_items
from assay.ports import Limits

LIMITS = Limits(max_line_bytes=120)
GOOD = b'{"test_case":{"id":"a","input":1},"output":{"value":1}}'
LINES = [GOOD, b" " + GOOD + b"\r", b"", b"  ", b"{", b"[]", b"\xff", b'{"test_case":{"id":""}}', b"x" * 200]


def everything(source):
    return [(context, source.read, source.location) for context in source], source.read


@settings(max_examples=25, deadline=None)
@given(lines=st.lists(st.sampled_from(LINES), max_size=5), end=st.sampled_from([b"", b"\n"]))
@pytest.mark.parametrize("packed", [False, True])
def test_law_lines_are_read_as_items_are(packed, lines, end, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"lines.jsonl{'.gz' if packed else ''}"
    data = b"\n".join(lines) + end
    path.write_bytes(gzip.compress(data, 1) if packed else data)
    name, bad, plain_bad = str(path), [], []
    quick = Source(LineItems(name, LIMITS), LIMITS, bad.append)
    plain = Source(read_items(name, LIMITS), LIMITS, plain_bad.append)
    assert everything(quick) == everything(plain)
    assert list(map(str, bad)) == list(map(str, plain_bad))
    assert list(LineItems(name, LIMITS)) == list(read_items(name, LIMITS))


def test_a_file_of_contexts_is_read_by_lines(tmp_path):
    path = tmp_path / "contexts.jsonl"
    path.write_bytes(GOOD + b"\n{}\n")
    bad = []
    source = from_contexts(str(path), Limits(), bad.append)
    assert isinstance(source._items, LineItems)
    assert len(list(source)) == 1
    assert str(bad[0]).startswith(f"{path}:2")
