"""Large batches: 10,000 cases in one and 25,000 over three, hundreds of megabytes of answers, in bounded memory."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.models.batch_server import BatchServer
from support.models.judges import judge
from support.models.provider_server import fitting

MEGABYTE = 1024 * 1024
ANSWER = 20_000  # bytes beside the answer that is read: 200 MB for 10,000 cases
ROWS = [(10_000, [10_000]), (25_000, [5_000, 10_000, 10_000])]
LONG = 100_000  # bytes of an agent's answer
LONG_CASES = [1_000, 3_000]
LIMIT = 400 * MEGABYTE  # of the process; the answers of the rows are 200 MB and 500 MB


class LargeAnswers(BatchServer):
    def _answer_of(self, asked: Any, messages: bool) -> Any:
        return super()._answer_of(asked, messages) | {"padding": "x" * ANSWER}


def run(folder, cases: int) -> tuple[int, int, str]:
    """The exit code of an evaluation of so many cases, the most memory that it had, and what it said."""
    lines = (
        json.dumps(
            {"test_case": {"id": f"c{at}", "input": at}, "output": {"value": f"text {at} " + "y" * 1_000}}
        )
        for at in range(cases)
    )
    (folder / "cases.jsonl").write_text("\n".join(lines))
    return evaluate(folder, "--contexts", "cases.jsonl")


def run_agent(folder, cases: int) -> tuple[int, int, str]:
    """The same of an agent with long answers."""
    (folder / "long_agent.py").write_text(f"def answer(question):\n    return str(question) + 'x' * {LONG}\n")
    lines = (json.dumps({"id": f"c{at}", "input": at}) for at in range(cases))
    (folder / "cases.jsonl").write_text("\n".join(lines))
    return evaluate(folder, "--cases", "cases.jsonl", "--agent", "long_agent:answer", "--save")


def evaluate(folder, *arguments: str) -> tuple[int, int, str]:
    (folder / "checks.json").write_text(json.dumps([judge("Polite? {{$.output.value}}")]))
    command = ["evaluate", *arguments, "--checks", "checks.json", "-o", "results.jsonl"]
    with (folder / "err").open("w") as err, (folder / "out").open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "assay", *command, "--batch"], cwd=folder, stdout=out, stderr=err
        )
        peak = 0  # not `ru_maxrss`, which counts what this process had when it forked
        while process.poll() is None:
            peak = memory_of(process.pid) or peak
            time.sleep(0.05)
    return process.returncode, peak, (folder / "err").read_text()


def memory_of(process: int) -> int:
    """The most bytes that a process had so far."""
    status = Path(f"/proc/{process}/status").read_text()
    return int((status.partition("VmHWM:")[2].split() or ["0"])[0]) * 1024


def settings(folder, server, kind: str) -> None:
    provider = {"kind": kind, "base_url": server.base_url, "batch_poll": 3}
    lines = ["[providers.judges]", *(f"{name} = {json.dumps(value)}" for name, value in provider.items())]
    lines += ["prices = {input = 1, output = 0}", "[models]", 'judge = "judges:m"']
    (folder / "assay.toml").write_text("\n".join(lines))


@pytest.mark.parametrize("kind", ["openai_compatible", "anthropic"])
@pytest.mark.parametrize(("cases", "batches"), ROWS)
def test_large_batches_need_bounded_memory(tmp_path, kind, cases, batches):
    with LargeAnswers(answer=fitting) as server:
        settings(tmp_path, server, kind)
        code, memory, err = run(tmp_path, cases)
        assert code == 0, err
        assert sorted(len(one.lines) for one in server.batches) == batches
        assert len(set(server.paid)) == len(server.paid) == cases
    with (tmp_path / "results.jsonl").open() as results:
        assert sum(json.loads(line)["status"] == "completed" for line in results) == cases
    size, peak = cases * ANSWER // MEGABYTE, memory // MEGABYTE
    print(f"\n{kind}: {cases:,} cases, {size:,} MB of answers, {peak:,} MB of memory")  # noqa: T201
    assert memory < LIMIT


@pytest.mark.parametrize("kind", ["openai_compatible", "anthropic"])
def test_long_answers_that_wait_for_their_judges_do_not_add_up(tmp_path, kind):
    peaks = []
    for cases in LONG_CASES:
        folder = tmp_path / str(cases)
        folder.mkdir()
        with BatchServer(answer=fitting) as server:
            settings(folder, server, kind)
            code, memory, err = run_agent(folder, cases)
            assert code == 0, err
            assert len(server.paid) == cases
        peaks.append(memory)
        size, peak = cases * LONG // MEGABYTE, memory // MEGABYTE
        print(f"\n{kind}: {cases:,} cases, {size:,} MB of answers, {peak:,} MB of memory")  # noqa: T201
    assert peaks[1] < peaks[0] * 1.2
