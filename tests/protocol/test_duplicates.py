"""A member that an object of a JSON text has twice is found, on every way in: in every line, wherever it is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay.backends.agents.frames import ProtocolError, read_json
from assay.errors import BadLine
from assay.fep.planning.sources import from_contexts
from assay.ports import Limits
from assay.protocol.duplicates import duplicate_around, duplicate_in

TEXTS = st.sampled_from(
    ["", ":", '":', "a", "http://x", "\\u003a", "\\\\u003A", 'x"', "é", "\U0001f600", "{}", "[:"]
)
NUMBERS = st.integers() | st.sampled_from([10**40, -0.0, 1.5, 1e300, 0.00001, 1e22])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(TEXTS, inner), max_size=3).map(tuple),
    max_leaves=8,
)  # a tuple is an object with members that may be there twice


def text_of(value, draw):
    """A JSON text of the value, with spaces and escapes as drawn."""
    space = lambda: draw(st.sampled_from(["", "", " ", "\t", "\r "]))  # noqa: E731
    if isinstance(value, tuple):
        members = [f"{text_of(name, draw)}{space()}:{space()}{text_of(one, draw)}" for name, one in value]
        return "{" + space() + f"{space()},".join(members) + "}"
    if isinstance(value, list):
        return f"[{space()}" + f",{space()}".join(text_of(one, draw) for one in value) + "]"
    if isinstance(value, str) and draw(st.booleans()):
        units = value.encode("utf-16-be")
        return '"' + "".join(f"\\u{units[at]:02X}{units[at + 1]:02x}" for at in range(0, len(units), 2)) + '"'
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


def has_duplicate(text):
    """What a plain reader that keeps all members says."""
    found = []

    def members(pairs):
        found.append(len({name for name, _ in pairs}) < len(pairs))

    json.loads(text, object_pairs_hook=members)
    return any(found)


@given(VALUES, st.data())
def test_law_a_duplicate_is_found_just_if_there_is_one(value, data):
    text = text_of(value, data.draw).encode()
    assert (duplicate_in(text) is not None) is has_duplicate(text)
    if isinstance(value, tuple):
        names = {name for name, _ in value}
        assert (duplicate_around(text, names) is not None) is (len(names) < len(value))
        assert (duplicate_around(text, ()) is not None) is has_duplicate(text)


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
        (b'{"u":"\\u003A","a":1,"a":2}', "a"),  # as many colons as its decoded value has
        (b'{"\\u00e9":1,"\xc3\xa9":2}', "é"),
        (b'{"[0]":{"b":1,"b":2}}', "[0].b"),
        (b'{"a":1e5,"a":100000.0}', "a"),
    ],
)
def test_the_path_of_a_duplicate(text, path):
    assert duplicate_in(text) == path


TWICE = b'{"test_case": {"id": "b", "input": 1, "input": 2}, "output": {"value": 1}}\n'
GOOD = b'{"test_case": {"id": "a", "input": 1}, "output": {"value": 1}}\n'
MESSAGE = "test_case.input: this member is there twice, so its value is not clear: keep one"


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
    message = MESSAGE.removeprefix("test_case.") if way == "rows" else MESSAGE
    assert f":2{' with outputs.jsonl:2' if way == 'pair' else ''}: {message}" in ended.err
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


def test_a_duplicate_in_line_100_000_is_reported(tmp_path):
    good = b'{"test_case":{"id":"a","input":1},"output":{"value":1}}\n'
    (tmp_path / "c.jsonl").write_bytes(
        good * 99_999 + b'{"test_case":{"id":"a","input":1},"output":{"value":1,"value":1}}\n'
    )
    bad: list[BadLine] = []
    assert sum(1 for _ in from_contexts(str(tmp_path / "c.jsonl"), Limits(), bad.append)) == 99_999
    assert [str(one) for one in bad] == [
        f"{tmp_path}/c.jsonl:100000: output.value: {MESSAGE.partition(': ')[2]}"
    ]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_duplicate_behind_megabytes_is_reported_and_the_results_before_it_are_kept(command, tmp_path, jobs):
    (tmp_path / "checks.json").write_text('[{"type": "exists", "arguments": {"path": "$.output"}}]')
    long = {"test_case": {"id": "a", "input": "x: y " * 4_000}, "output": {"value": {"at": "12:00"}}}
    for style in ((",", ":"), (", ", ": ")):
        line = json.dumps(long, separators=style).encode() + b"\n"
        (tmp_path / "c.jsonl").write_bytes(line * 120 + TWICE + line * 30)
        ended = command(
            "evaluate", "--contexts", "c.jsonl", "--checks", "checks.json", "-o", "r.jsonl", "--jobs", jobs,
            folder=tmp_path,
        )  # fmt: skip
        assert ended.code == 1
        assert f"c.jsonl:121: {MESSAGE}" in ended.err
        assert len((tmp_path / "r.jsonl").read_bytes().splitlines()) == 120


def result(case, passed="true"):
    context = f'{{"test_case":{{"id":"{case}","input":1}},"output":{{"value":1}}}}'
    check = f'{{"check_type":"exists","status":"completed","results":{{"passed":{passed}}}}}'
    return f'{{"status":"completed","execution_context":{context},"check_results":[{check}]}}'


CELLS = "test_case_id,check,check_type,status,results\n"


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("r.jsonl", result("a") + "\n" + result("b", 'false,"passed":true') + "\n" + result("c"), "r.jsonl:2"),
        ("r.json", '{"results":[\n' + result("a") + ",\n" + result("b", 'false,"passed":true') + "\n]}", "r.json:3"),
        ("one.json", "[" + result("a", 'false,"passed":true') + "]", "one.json: [0]"),
        ("r.csv", CELLS + 'a,0,exists,completed,"{""passed"":false,""passed"":true}"\n', "r.csv:2: results.passed"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("verb", ["compare", "gate"])
def test_a_result_file_with_a_member_twice_is_refused(command, tmp_path, verb, name, content, place):
    (tmp_path / "before.jsonl").write_text(result("a") + "\n" + result("b") + "\n" + result("c") + "\n")
    (tmp_path / name).write_text(content)
    options = {
        "compare": ["before.jsonl", name],
        "gate": [name, "--baseline", "before.jsonl", "--allow-partial"],
    }
    ended = command(verb, *options[verb], folder=tmp_path)
    assert ended.code == 2
    assert place in ended.err
    assert "passed: this member is there twice" in ended.err


def test_the_end_of_a_result_file_with_a_member_twice_is_refused(command, tmp_path):
    (tmp_path / "before.jsonl").write_text(result("a") + "\n")
    (tmp_path / "r.json").write_text(
        '{"results":[\n' + result("a") + '\n],"summary":{"total_test_cases":9,"total_test_cases":1}}'
    )
    ended = command("compare", "before.jsonl", "r.json", folder=tmp_path)
    assert ended.code == 2
    assert "r.json:3: summary.total_test_cases: this member is there twice" in ended.err


def test_a_run_is_not_resumed_from_a_result_with_a_member_twice(command, tmp_path):
    (tmp_path / "checks.json").write_text('[{"type": "exists", "arguments": {"path": "$.output"}}]')
    (tmp_path / "c.jsonl").write_bytes(GOOD)
    run = ["evaluate", "--contexts", "c.jsonl", "--checks", "checks.json", "-o", "r.jsonl"]
    assert command(*run, folder=tmp_path).code == 0
    line = (tmp_path / "r.jsonl").read_text().replace('"passed":true', '"passed":false,"passed":true')
    (tmp_path / "r.jsonl").write_text(line)
    ended = command(*run, "--resume", folder=tmp_path)
    assert ended.code == 2
    assert "r.jsonl:1: check_results[0].results.passed: this member is there twice" in ended.err


def test_a_frame_of_an_agent_with_a_member_twice_is_refused():
    with pytest.raises(ProtocolError, match=r"result\.a: this member is there twice"):
        read_json('{"result": {"a": 1, "a": 2}}')
