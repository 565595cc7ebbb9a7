"""A result file says whether it is complete. A part of a run, or a file that does not say it, does not pass a gate."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from assay.cli.compare.gate import GateOptions, main
from assay.comparison.result_files import lines_in
from assay.comparison.run_scores import ReadOptions, RunScores
from assay.ports import Limits
from assay.results.run_end import RunEnd, end_of_line, with_end, without_end
from support.commands.result_lines import result_line, run_document, write_jsonl
from support.waiting import wait_until

DEAR = """
import asyncio
from assay import Checker

class Dear(Checker):
    type = "dear"
    at: int
    async def run(self, services):
        await asyncio.sleep(3600 if self.at == 9 else 0)
        return {"passed": True, "metadata": {"cost_usd": 1.0}}
"""
OUTPUTS = ("out.json", "out.jsonl", "out.csv", "out.parquet")
CASES = 20


def context(at):
    return json.dumps({"test_case": {"id": f"c{at}", "input": at}, "output": {"value": "x"}})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    Path("dear.py").write_text(DEAR)
    checks = [{"type": "dear", "arguments": {"at": "$.test_case.input"}}]
    Path("checks.json").write_text(json.dumps(checks))
    return tmp_path


def arguments(*more, to=OUTPUTS):
    outputs = [part for name in to for part in ("-o", name)]
    return ["evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json", "--check-module", "dear:Dear", *outputs, *more]  # fmt: skip


def gate(name, capsys, **options):
    code = main(GateOptions(run=name, **options))
    return code, capsys.readouterr().out


STOPS = {
    "whole": ([context(at) for at in range(8)], [], 0, RunEnd(planned=8, results=8, complete=True)),
    "max-cost": (
        [context(at) for at in range(8)], ["--max-cost", "3", "--concurrency", "1"], 1, RunEnd(planned=8, results=3, complete=False),
    ),
    "bad line": (
        [*(context(at) for at in range(5)), "{", *(context(at) for at in range(5, 8))], [], 1,
        RunEnd(planned=9, results=5, complete=False),
    ),
    "skipped line": (
        [*(context(at) for at in range(5)), "{", *(context(at) for at in range(5, 8))], ["--skip-bad-lines"], 1,
        RunEnd(planned=9, results=8, complete=False),
    ),
}  # fmt: skip


@pytest.mark.parametrize("stop", STOPS)
def test_a_file_has_the_planned_number_of_results_and_a_part_does_not_pass(command, folder, capsys, stop):
    lines, options, code, end = STOPS[stop]
    Path("cases.jsonl").write_text("\n".join(lines) + "\n")
    done = command(*arguments(*options), folder=folder)
    assert done.code == code, done.err
    last = Path("out.jsonl").read_bytes().splitlines()[-1]
    if stop == "max-cost":  # cases that had started end
        end = RunEnd(planned=8, results=len(Path("out.jsonl").read_bytes().splitlines()), complete=False)
        assert 3 <= end.results < 8
    assert end_of_line(last) == end
    assert json.loads(Path("out.json").read_bytes())["metadata"]["run"]["planned"] == end.planned
    for name in OUTPUTS:
        found, line = gate(name, capsys)
        assert found == code, (name, line)
        if code:
            assert f"undecided: {name} is not complete: it has {end.results} of {end.planned} results" in line
            assert gate(name, capsys, allow_partial=True)[0] == 0


def test_a_killed_run_does_not_pass(folder, capsys):
    Path("cases.jsonl").write_text("\n".join(map(context, range(CASES))) + "\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", *arguments()], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )  # fmt: skip
    try:
        names = [Path(name) for name in ("out.json", "out.jsonl", "out.csv")]
        wait_until(lambda: all(name.exists() and name.read_bytes().count(b"dear") >= 9 for name in names))
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not Path("out.parquet").exists()
    for name, reason in {
        "out.json": "is not complete: the file ends before its results do",
        "out.jsonl": "unknown whether out.jsonl is complete",
        "out.csv": "unknown whether out.csv is complete",
    }.items():
        code, line = gate(name, capsys)
        assert (code, reason in line) == (1, True), line
        assert gate(name, capsys, allow_partial=True)[0] == 0


def test_a_run_that_is_resumed_says_it_once_at_its_end(command, folder, capsys):
    Path("cases.jsonl").write_text("\n".join([*map(context, range(5)), "{"]) + "\n")
    command(*arguments(to=["out.jsonl"]), folder=folder)
    Path("cases.jsonl").write_text("\n".join(map(context, range(8))) + "\n")
    done = command(*arguments("--resume", to=["out.jsonl", "out.csv"]), folder=folder)
    assert done.code == 0, done.err
    ends = [end_of_line(line) for line in Path("out.jsonl").read_bytes().splitlines()]
    assert ends == [None] * 7 + [RunEnd(planned=8, results=8, complete=True)]
    assert [gate(name, capsys)[0] for name in ("out.jsonl", "out.csv")] == [0, 0]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_resumed_run_without_new_results_says_its_end(command, folder, jobs):
    Path("cases.jsonl").write_text("\n".join(map(context, range(8))) + "\n")
    command(*arguments(to=["out.jsonl"]), folder=folder)
    whole = Path("out.jsonl").read_bytes()
    *lines, last = whole.splitlines()
    Path("out.jsonl").write_bytes(b"\n".join([*lines, without_end(last)]) + b"\n")  # killed before its end
    for _ in range(2):  # the second time the file has its end
        done = command(*arguments("--resume", "--jobs", jobs, to=["out.jsonl"]), folder=folder)
        assert done.code == 0, done.err
        assert Path("out.jsonl").read_bytes() == whole


def test_results_that_do_not_say_it_are_unknown(folder, capsys):
    lines = [result_line(f"c{at}", True) for at in range(4)]
    write_jsonl(folder / "other.jsonl", lines)
    Path("other.json").write_text(json.dumps(run_document(lines)))
    Path("list.json").write_text(json.dumps(lines))
    for name in ("other.jsonl", "other.json", "list.json"):
        code, line = gate(name, capsys)
        assert (code, f"undecided: unknown whether {name} is complete" in line) == (1, True)
        assert gate(name, capsys, allow_partial=True)[0] == 0
    document = json.dumps(
        run_document(lines) | {"metadata": {"run": {"planned": 4, "results": 4, "complete": True}}}
    )
    Path("complete.json").write_text(document)
    assert gate("complete.json", capsys)[0] == 0
    code, line = gate("complete.json", capsys, baseline="other.jsonl")
    assert (code, "undecided: the baseline: unknown whether other.jsonl is complete" in line) == (1, True)


@pytest.mark.parametrize(
    ("change", "unknown", "incomplete"),
    [
        (lambda lines: lines, False, ""),
        (lambda lines: lines[:-1], True, ""),  # the head of a file
        (lambda lines: [*lines, *lines], True, ""),  # two files in one
        (lambda lines: lines[1:], True, ""),
        (lambda lines: [*lines[:-1], lines[-1][:-9]], False, "its last line is cut off"),
    ],
)
def test_a_file_that_was_cut_or_joined_does_not_count_as_complete(tmp_path, change, unknown, incomplete):
    lines = [json.dumps(result_line(f"c{at}", True)).encode() for at in range(3)]
    lines[-1] = with_end(lines[-1], RunEnd(planned=3, results=3, complete=True))
    (tmp_path / "x.jsonl").write_bytes(b"\n".join(change(lines)))
    scores = RunScores("x", ReadOptions())
    for place, line in lines_in(str(tmp_path / "x.jsonl"), Limits(), scores):
        scores.add(line, place)
    assert (scores.unknown_end, scores.incomplete) == (unknown, incomplete)


@pytest.mark.parametrize("metadata", ["", ',"metadata":{"calls":1}', ',"metadata": {"b" : [1.0, 1e3]}'])
def test_the_end_of_a_run_leaves_the_other_bytes_of_a_line(metadata):
    line = b'{"status":"completed","summary":{ "a":1.50 }' + metadata.encode() + b"}"
    end = RunEnd(planned=None, results=1, complete=False)
    marked = with_end(line, end)
    assert (end_of_line(marked), end_of_line(line)) == (end, None)
    assert b'"summary":{ "a":1.50 }' in marked
    assert json.loads(without_end(marked)) == json.loads(line)
    assert without_end(line) is line
