"""`assay mcp` and a client that is broken, hostile or in a hurry, and a folder that cannot be used."""

import json
import subprocess

import pytest

from assay.cli.coding_agents import wire
from assay.cli.coding_agents.jobs import AT_ONCE, WAITING
from support.commands.mcp_client import RawClient, cheap_assay

GARBAGE = {
    b"\xff\xfe not text\n": wire.PARSE_ERROR,
    b"{\n": wire.PARSE_ERROR,
    b"[" * 100_000 + b"\n": wire.PARSE_ERROR,
    b'"' + b"x" * (wire.MAX_LINE + 10) + b'"\n': wire.PARSE_ERROR,
    b"[]\n": wire.INVALID_REQUEST,
    b"17\n": wire.INVALID_REQUEST,
    b"{}\n": wire.INVALID_REQUEST,
    b'{"jsonrpc": "2.0"}\n': wire.INVALID_REQUEST,
    b'{"jsonrpc": "2.0", "method": 5, "id": 1}\n': wire.INVALID_REQUEST,
    b'{"jsonrpc": "2.0", "method": "ping", "id": {}}\n': wire.INVALID_REQUEST,
    b'{"jsonrpc": "2.0", "method": "ping", "id": true}\n': wire.INVALID_REQUEST,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory, zygote):
    folder = tmp_path_factory.mktemp("attacked")
    command = [*cheap_assay(zygote), "mcp"]
    with subprocess.Popen(command, cwd=folder, stdin=-1, stdout=-1, stderr=-1) as process:
        raw = RawClient(process)
        raw.start()
        yield raw
        process.stdin.close()
        assert (process.wait(), process.stdout.read(), process.stderr.read()) == (0, b"", b"")


def refusal(raw):
    """The text of an answer that is one."""
    answer = raw.read()
    while "method" in answer:
        answer = raw.read()
    assert "error" in answer or answer["result"]["isError"], answer
    return answer["error"]["message"] if "error" in answer else answer["result"]["content"][0]["text"]


def test_a_line_that_is_no_message_is_answered_and_the_next_one_too(server):
    server.send(b"\n")
    for line, code in GARBAGE.items():
        server.send(line)
        answer = server.read()
        assert answer["error"]["code"] == code, line[:40]
        assert answer["id"] == (1 if b'"id": 1' in line else None)
        assert (
            "expected a JSON-RPC message on one line of at most 4,194,304 bytes" in answer["error"]["message"]
        )
        assert len(json.dumps(answer)) < 500
    id = server.request("ping")
    assert server.read() == {"jsonrpc": "2.0", "id": id, "result": {}}


def test_a_request_of_a_wrong_form_is_refused(server):
    for params in ({}, {"name": 5}, {"name": "run", "arguments": []}, {"name": "run", "arguments": "x"}):
        id = server.request("tools/call", **params)
        answer = server.read()
        assert (answer["id"], "error" in answer) == (id, True), answer
    id = server.request("no/method")
    assert server.read()["error"]["code"] in (-32601, -32602)
    server.send({"jsonrpc": "2.0", "id": 17, "result": {}})  # an answer to a question that nobody asked
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "none"}})
    id = server.request("ping")
    answer = server.read()
    while answer.get("id") != id:
        answer = server.read()
    assert answer["result"] == {}


LARGE = {
    "a long name of a run": ("failures", {"run": "x" * 2_000_000}, "expected"),
    "a long check": ("try_check", {"check": "x" * 200_000, "output": ""}, "expected"),
    "many files": ("validate", {"files": ["x"] * 10_000}, "expected"),
    "many arguments": ("failures", {f"a{number}": number for number in range(50_000)}, "no such member"),
    "a deep check": (
        "try_check",
        {"check": json.loads("[" * 200 + "]" * 200), "output": ""},
        "nested too deep",
    ),
}


def test_arguments_that_are_too_large_are_refused_in_few_bytes(server):
    for name, (tool, arguments, wanted) in LARGE.items():
        server.call(tool, **arguments)
        text = refusal(server)
        assert text, name
        assert wanted in text, (name, text)
        assert len(text) <= 4_000, name


def test_a_large_output_is_checked(server):
    server.call("try_check", check={"contains": ["z"]}, output="y" * 1_000_000 + "z")
    answer = server.read()["result"]
    assert answer["structuredContent"]["passed"] is True
    assert len(answer["content"][0]["text"]) <= 20_000


def test_a_flood_of_calls_is_answered_call_by_call(server):
    many = AT_ONCE + WAITING + 20
    ids = {server.call("failures") for _ in range(many)}
    texts = []
    for _ in range(many):
        answer = server.read()
        ids.remove(answer["id"])
        texts.append(answer["result"]["content"][0]["text"])
    assert not ids
    late = [text for text in texts if "calls that wait" in text]
    assert 0 < len(late) <= 20
    others = {text for text in texts if text not in late}
    assert len(others) == 1
    assert "no run" in others.pop()


def test_a_folder_that_cannot_be_written_is_named(zygote, tmp_path):
    (tmp_path / ".assay").write_text("a file in the place of the folder")
    (tmp_path / "a.py").write_text("def f(task):\n    return task\n")
    tasks = [{"taskId": "a", "input": "a", "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "a"}}}]  # fmt: skip
    suite = {"suiteId": "local.a.evals.a", "version": "1.0.0", "modes": ["golden"], "tasks": tasks}
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    with subprocess.Popen([*cheap_assay(zygote), "mcp"], cwd=tmp_path, stdin=-1, stdout=-1) as process:
        raw = RawClient(process)
        raw.start()
        for tool, arguments in (
            ("run", {"suite": "suite.json", "agent": "a:f"}),
            ("failures", {}),
            ("gate", {"run": "latest"}),
        ):
            raw.call(tool, **arguments)
            assert ".assay" in refusal(raw), tool
        raw.call("validate", files=["suite.json"])
        assert raw.read()["result"]["structuredContent"]["valid"]
        process.stdin.close()
        assert process.wait() == 0


def test_a_client_that_reads_nothing_does_not_keep_the_server(zygote, tmp_path):
    with subprocess.Popen([*cheap_assay(zygote), "mcp"], cwd=tmp_path, stdin=-1, stdout=-1) as process:
        raw = RawClient(process)
        raw.start()
        for _ in range(100):
            raw.request("tools/list")
        process.stdin.close()
        assert process.wait() == 0
