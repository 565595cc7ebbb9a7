"""A member that an object of a JSON text has twice is found, on every way in."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay.protocol.duplicates import ALL_UNTIL, duplicate_member, is_sampled

NAMES = st.sampled_from(["a", "b", ":", 'x"', "\\", "é"])
VALUES = st.recursive(
    st.none() | st.integers() | st.sampled_from(["", ":", '":', "http://x", "\\u003a"]),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(NAMES, inner), max_size=3).map(tuple),
    max_leaves=8,
)  # a tuple is an object with members that may be there twice


def text_of(value, space):
    if isinstance(value, tuple):
        members = (f"{json.dumps(name)}{space}:{text_of(one, space)}" for name, one in value)
        return "{" + f",{space}".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(text_of(one, space) for one in value) + "]"
    return json.dumps(value)


def has_duplicate(value):
    if isinstance(value, tuple):
        names = [name for name, _ in value]
        return len(set(names)) < len(names) or any(has_duplicate(one) for _, one in value)
    return isinstance(value, list) and any(map(has_duplicate, value))


@given(VALUES, st.sampled_from(["", " ", "\t"]), st.booleans())
def test_law_a_duplicate_is_found_just_if_there_is_one(value, space, escaped):
    text = text_of(value, space).encode()
    if escaped:
        text = text.replace(b"http:", b"http\\u003a")
    assert (duplicate_member(text, msgspec.json.decode(text)) is not None) is has_duplicate(value)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (b'{"a":1,"b":2}', None),
        (b'{"a":1,"a":1}', "a"),
        (b'{"a": {"b": [1, {"c": 1, "c": 2}]}}', "a.b[1].c"),
        (b'[[{"c": 1, "c": 2}]]', "[0][0].c"),
        (b'{"a":1,"\\u0061":2}', "a"),
        (b'{"a":1,"a":2,"b" :3}', "a"),
        (b'{"u":"http\\u003a//x","a":1,"a":2}', "a"),
    ],
)
def test_the_path_of_a_duplicate(text, path):
    assert duplicate_member(text, msgspec.json.decode(text)) == path


def test_the_lines_of_the_first_part_of_a_stream_are_all_looked_at_and_then_one_in_sixteen():
    assert all(map(is_sampled, range(0, ALL_UNTIL, 1000)))
    later = [is_sampled(end) for end in range(ALL_UNTIL + 700, 50 * ALL_UNTIL, 700)]
    assert sum(later) / len(later) == pytest.approx(1 / 16, rel=0.05)


TWICE = b'{"test_case": {"id": "b", "input": 1, "input": 2}, "output": {"value": 1}}\n'
GOOD = b'{"test_case": {"id": "a", "input": 1}, "output": {"value": 1}}\n'
SAID = "test_case.input: this member is there twice, so its value is not clear"


@pytest.mark.parametrize("way", ["file", "jobs", "stdin", "rows", "pair", "cases"])
def test_a_line_with_a_member_twice_stops_the_stream_there(command, tmp_path, way):
    (tmp_path / "checks.json").write_text('[{"type": "exists", "arguments": {"path": "$.output"}}]')
    (tmp_path / "c.jsonl").write_bytes(GOOD + TWICE + GOOD)
    (tmp_path / "cases.jsonl").write_bytes(b'{"id":"a","input":1}\n{"id":"b","input":1,"input":2}\n')
    (tmp_path / "rows.jsonl").write_bytes(
        b'{"id":"a","input":1,"output":1}\n{"id":"b","input":1,"input":2,"output":1}\n'
    )
    (tmp_path / "outputs.jsonl").write_bytes(b'{"value":1}\n' * 2)
    (tmp_path / "agent.py").write_text("def answer(question):\n    return 1\n")
    options = {
        "file": ["--contexts", "c.jsonl"],
        "jobs": ["--contexts", "c.jsonl", "--jobs", "2"],
        "rows": ["--contexts", "rows.jsonl"],
        "stdin": ["--contexts", "-"],
        "pair": ["--cases", "cases.jsonl", "--outputs", "outputs.jsonl"],
        "cases": ["--cases", "cases.jsonl", "--agent", "agent:answer"],
    }[way]
    ended = command(
        "evaluate", *options, "--checks", "checks.json", "-o", "r.jsonl", folder=tmp_path,
        stdin=GOOD + TWICE if way == "stdin" else b"",
    )  # fmt: skip
    assert ended.code == 1
    said = SAID.removeprefix("test_case.") if way == "rows" else SAID
    assert f":2{' with outputs.jsonl:2' if way == 'pair' else ''}: {said}" in ended.err
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 1


def test_a_file_of_checks_with_a_member_twice_is_refused(command, tmp_path):
    (tmp_path / "checks.json").write_text('[{"type": "exists", "arguments": {"path": "$.a", "path": "$.b"}}]')
    (tmp_path / "c.jsonl").write_bytes(GOOD)
    ended = command("evaluate", "--contexts", "c.jsonl", "--checks", "checks.json", folder=tmp_path)
    assert ended.code == 2
    assert "checks.json: [0].arguments.path: this member is there twice" in ended.err


def test_the_library_refuses_a_case_with_a_member_twice(tmp_path):
    (tmp_path / "cases.jsonl").write_text('{"id": "a", "input": {"q": 1, "q": 2}}\n')
    with pytest.raises(assay.InvalidRequest, match=r"cases.jsonl:1: input.q: this member is there twice"):
        assay.load_cases(tmp_path / "cases.jsonl")
