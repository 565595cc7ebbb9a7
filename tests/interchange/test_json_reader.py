"""A JSON document is read member by member: the same values, in constant memory."""

import io
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import BadLine
from assay.interchange import json_reader
from assay.interchange.json_reader import JsonReader
from assay.ports import Limits

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def read(text, lists=(), limits=None):
    return list(JsonReader(io.BytesIO(text), "f.json", limits or Limits(), lists).members())


@given(
    document=st.dictionaries(st.text(max_size=3), VALUES, max_size=5),
    items=st.lists(VALUES, max_size=6),
    indent=st.none() | st.integers(0, 3),
    ascii=st.booleans(),
    block=st.integers(1, 9),
)
def test_the_reader_of_blocks_reads_what_a_whole_reader_reads(document, items, indent, ascii, block):
    document |= {"a": {"b": items, "c": 1}}
    text = json.dumps(document, indent=indent, ensure_ascii=ascii).encode(errors="surrogatepass")
    try:
        text.decode()
        json.loads(text).__repr__().encode()
    except UnicodeError:
        return  # a lone surrogate is no text
    before, json_reader.BLOCK = json_reader.BLOCK, block
    try:
        found = read(text, [("a", "b")])
    finally:
        json_reader.BLOCK = before
    assert [value for path, value in found if path[:2] == ("a", "b")] == items
    rest = {path: value for path, value in found if path[:2] != ("a", "b")}
    assert rest == {(name,): one for name, one in document.items() if name != "a"} | {("a", "c"): 1}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"[]", "expected an object"),
        (b"", "expected an object"),
        (b'{"a": 1', "expected a comma or the end"),
        (b'{"a": 1,}', "a member after the comma"),
        (b'{"a": [1,]}', "an item after the comma"),
        (b'{"a": [1 2]}', "a comma or the end of a list"),
        (b'{"a": 1} x', "text after it"),
        (b'{"a": NaN}', "JSON"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b"{1: 2}", "name of a member"),
        (b'{"b": ' + b"[" * 100_000 + b"}", "nested"),
    ],
)
def test_what_is_not_json_is_refused_with_its_line(text, problem):
    with pytest.raises(BadLine) as refused:
        read(b"\n" + text, [("a",)])
    assert problem in str(refused.value)
    assert "f.json:2" in str(refused.value)


def test_a_document_that_is_not_utf_8_is_refused():
    with pytest.raises(BadLine, match="not UTF-8"):
        read(b'{"a": "\xff"}')


def test_an_item_over_the_limit_is_refused():
    with pytest.raises(BadLine, match="limit"):
        read(b'{"a": ["' + b"x" * 300_000 + b'"]}', [("a",)], Limits(max_line_bytes=100_000))


def test_a_long_list_does_not_stay_in_memory():
    class Endless(io.RawIOBase):
        """A document of 6 MB that is made while it is read."""

        parts = iter([b'{"a": [', *[json.dumps({"text": "x" * 1000}).encode() + b","] * 6_000, b"0]}"])

        def read(self, size=-1):
            return next(self.parts, b"")

    tracemalloc.start()
    count = sum(1 for _ in JsonReader(Endless(), "f.json", Limits(), [("a",)]).members())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 6_001
    assert peak < 2_000_000
