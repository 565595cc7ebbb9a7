"""A refusal has one text. Its words are those of the door: an option of the command, an argument, a member of a request."""

import json
import re

import pytest

import assay
from support.commands.command import Command
from support.servers.rest_client import Server, sqlite

CHECKS = [
    {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["yes"]}},
    {"type": "threshold", "arguments": {"value": "$.output.metadata.latency_ms", "max_value": 300}},
]
RUNS = ("a.jsonl", "b.jsonl")


def evaluated(word):
    cases = [{"id": f"c{at}", "input": "?", "topic": "law", "human": "perhaps"} for at in range(6)]
    return assay.evaluate_sync(cases, [{"value": word, "metadata": {"latency_ms": 3}}] * len(cases), CHECKS)


COMPARE = [  # option, value, the words of the command, of the library and of a request
    ("by", "topci", "--by topci: no case", "by='topci': no case", None),  # REST answers, with one slice
    ("by", "a=b", "--by: expected tag", "by: expected tag", "by: expected tag"),
    ("metric", "vibes", "--metric: no check is called", "metric: no check is called", "metric: no check is called"),
    ("metric", "latency_ms:p9", "--metric: expected", "metric: expected", "metric: expected"),
    ("metric", "latency_ms:p95", "interval, got 6", "metric='latency_ms'", "metric=latency_ms"),
    ("margin", 7, "--margin: expected a number below 1", "margin: expected a number below", "margin: expected"),
]  # fmt: skip
OTHERS = [  # the command, the same in Python, the words of both
    (("gate", "b.jsonl", "--preset", "soft"), lambda: assay.gate("b.jsonl", preset="soft"), "--preset: ", "preset: "),
    (("gate", "b.jsonl", "--min-mean", "nan"), lambda: assay.gate("b.jsonl", min_mean=float("nan")), "--min-mean: ", "min_mean: "),
    (("gate", "b.jsonl", "--baseline", "./b.jsonl"), lambda: assay.gate("b.jsonl", baseline="./b.jsonl"), "--baseline ./b.jsonl: expected another run", "baseline='./b.jsonl': expected another run"),
    (("gate", "b.jsonl", "--policy", "improved.json"), lambda: assay.gate("b.jsonl", policy="improved.json"), "expected --baseline, the", "expected baseline=, the"),
    (("gate", "b.jsonl", "--metric", "latency_ms", "--min-mean", "1"), lambda: assay.gate("b.jsonl", metric="latency_ms", min_mean=1), "--baseline compares", "baseline= compares"),
    (("gate", "b.jsonl", "--metric", "latency_ms:p95"), lambda: assay.gate("b.jsonl", metric="latency_ms:p95"), "assay compare compares", "assay.compare compares"),
    (("gate", "list.json", "--min-mean", "0.5"), lambda: str(assay.gate("list.json", min_mean=0.5)), "--allow-partial decides", "allow_partial=True decides"),
    (("gate", "b.jsonl", "--metric", "latency_ms", "--allow-partial"), lambda: str(assay.gate("b.jsonl", metric="latency_ms", allow_partial=True)), "give --min-mean, --baseline or --policy", "give min_mean=, baseline= or policy="),
    (("judge", "check", "b.jsonl", "--labels", "humna"), lambda: assay.judge_check("b.jsonl", "humna", check="contains"), "--check NAME", "labels='humna': "),
    (("judge", "check", "b.jsonl", "--labels", "topic"), lambda: assay.judge_check("b.jsonl", "topic"), "--check NAME names", "check='NAME' names"),
    (("judge", "check", "b.jsonl", "--labels", "human", "--check", "contains"), lambda: assay.judge_check("b.jsonl", "human", check="contains"), "--labels human, the case", "labels='human', the case"),
    (("judge", "check", "b.jsonl", "--labels", "human", "--check", "vibes"), lambda: assay.judge_check("b.jsonl", "human", check="vibes"), "--check: no check", "check: no check"),
    (("report", "b.jsonl", "--limit", "0", "-o", "x.md"), lambda: assay.report("b.jsonl", limit=0, output="x.md"), "--limit", "limit: expected"),
    (("report", "b.jsonl", "-o", "x.pdf"), lambda: assay.report("b.jsonl", output="x.pdf"), "x.pdf: expected a file", "x.pdf: expected a file"),
    (("evaluate", "--contexts", "rows.jsonl", "--checks", "checks.json"), lambda: assay.evaluate_sync(*assay.load_contexts("rows.jsonl"), checks=CHECKS), "say --map input=COLUMN --map output=COLUMN", "say map={'input': 'COLUMN', 'output': 'COLUMN'}"),
    (("evaluate", "--cases", "cases.jsonl", "--checks", "checks.json", "--agent", "nobody"), lambda: assay.evaluate_sync([{"id": "a", "input": 1}], checks=CHECKS, agent="nobody"), "--agent 'nobody': expected", "agent='nobody': expected"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from msgspec.json import encode

    folder = tmp_path_factory.mktemp("words")
    for name, word in zip(RUNS, ("yes", "no"), strict=True):
        lines = [encode(one) for one in evaluated(word).results]
        (folder / name).write_bytes(b"\n".join(lines) + b"\n")
    (folder / "list.json").write_bytes(encode(evaluated("yes").results))
    (folder / "improved.json").write_text('{"require": "improved"}', "utf-8")
    (folder / "checks.json").write_text(json.dumps(CHECKS), "utf-8")
    (folder / "rows.jsonl").write_text('{"frage": "a", "die antwort": "b"}\n', "utf-8")
    (folder / "cases.jsonl").write_text('{"id": "a", "input": 1}\n', "utf-8")
    return folder


@pytest.fixture(scope="module")
def printed(folder, zygote):
    jobs = [["compare", *RUNS, f"--{option}", str(value)] for option, value, *_ in COMPARE]
    jobs += [list(command) for command, *_ in OTHERS]
    return [
        " ".join((one.out + one.err).split())
        for one in Command(zygote).batch([{"command": job} for job in jobs], folder=folder)
    ]


def message_of(call):
    """What a call says: its refusal, or its text."""
    try:
        return str(call())
    except assay.Refusal as refusal:
        return str(refusal)


@pytest.mark.parametrize("row", range(len(COMPARE)), ids=lambda at: COMPARE[at][2])
def test_a_comparison_names_an_option_or_an_argument(row, folder, printed, monkeypatch):
    monkeypatch.chdir(folder)
    option, value, command, library, _ = COMPARE[row]
    text = message_of(lambda: assay.compare(*RUNS, **{option: value}))
    assert library in text
    assert "--" not in text
    assert command in printed[row]


@pytest.mark.parametrize("row", range(len(OTHERS)), ids=lambda at: OTHERS[at][2])
def test_a_refusal_names_an_option_or_an_argument(row, folder, printed, monkeypatch):
    monkeypatch.chdir(folder)
    _, call, command, library = OTHERS[row]
    text = message_of(call)
    assert library in text
    assert re.search(r"(^|\s)--\w", text) is None
    assert command in printed[len(COMPARE) + row]


def test_a_request_names_its_members(tmp_path):
    with Server(sqlite(tmp_path)) as server, server.client(tenant="local") as client:
        cases = [{"id": f"c{at}", "input": "?", "topic": "law"} for at in range(6)]
        body = {
            "test_cases": cases,
            "outputs": [{"value": "yes", "metadata": {"latency_ms": 3}}] * 6,
            "checks": CHECKS,
        }
        a, b = (client.post("/v1/evaluate", json=body).json()["evaluation_id"] for _ in range(2))
        for option, value, *_, words in COMPARE:
            if words is None:
                continue
            answer = client.get(f"/v1/evaluations/{b}/comparison", params={"baseline": a, option: value})
            assert words in answer.text, option
            assert "--" not in answer.text
