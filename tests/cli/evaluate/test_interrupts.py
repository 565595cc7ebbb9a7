"""A case counts when its line is kept, wherever a signal arrives, of each kind of evaluation."""

import json
import signal
import sys
from inspect import iscoroutinefunction
from pathlib import Path

import pytest

import assay
from assay.cli.console.console import count_of
from assay.cli.evaluate import evaluate, jobs
from assay.cli.evaluate.agent_dataset import AgentExecution
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.fep.outputs import output_file
from assay.fep.records import save

ROOT = Path(assay.__file__).parent
SOURCES = {  # what scores, counts and writes: files, and of some of them the functions
    "api/agent_evaluation.py": ("results", "_recorded_results"),
    "cli/evaluate/agent_dataset.py": ("write", "_count"),
    "cli/evaluate/evaluation.py": ("score", "_score_on_loop", "write", "flush_often"),
    "cli/evaluate/jobs.py": ("_write", "_copy"),
    "fep/execution/execute.py": (),
    "fep/execution/stream.py": (),
    "fep/outputs/output_file.py": (),
    "fep/outputs/sinks.py": (),
    "fep/planning/scorer.py": (),
    "fep/records/save.py": (),
    "results/tally.py": (),
}
PLACES = {str(ROOT / name): functions for name, functions in SOURCES.items()}
CASES = 6
MATCH = {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}
SLOW = {"type": "slow", "arguments": {"text": "$.output.value"}}
MINE = "support.checks.interrupted"
CONTEXTS = {"contexts": "x.jsonl", "checks": "match.json", "jobs": 1}
AGENT = {"cases": "cases.jsonl", "checks": "match.json", "agent": f"{MINE}:answer"}
KINDS = {
    "in place": CONTEXTS,
    "on an event loop": CONTEXTS | {"checks": "slow.json", "modules": [f"{MINE}:Slow"]},
    "some wait": CONTEXTS | {"contexts": "some.jsonl", "checks": None, "modules": [f"{MINE}:Slow"]},
    "workers": CONTEXTS | {"jobs": 2},
    "saved": CONTEXTS | {"save": True},
    "agent": AGENT,
    "saved agent": AGENT | {"save": True},
}  # fmt: skip


def case(at, **more):
    return {"id": str(at), "input": at, "expected": str(at), **more}


@pytest.fixture
def folder(tmp_path, monkeypatch, zygote):
    def write(name, items):
        (tmp_path / name).write_text("".join(json.dumps(item) + "\n" for item in items))

    outputs = [{"value": str(at)} for at in range(CASES)]
    write("cases.jsonl", [case(at) for at in range(CASES)])
    write("x.jsonl", [{"test_case": case(at), "output": outputs[at]} for at in range(CASES)])
    own = [[SLOW], [MATCH], [MATCH], [SLOW], [MATCH], [MATCH]]
    write(
        "some.jsonl", [{"test_case": case(at, checks=own[at]), "output": outputs[at]} for at in range(CASES)]
    )
    for name, check in {"match": MATCH, "slow": SLOW, "endless": SLOW | {"type": "endless"}}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps([check]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    monkeypatch.setattr(output_file, "BUFFER", 1)  # each line is written at once
    monkeypatch.setattr(save, "SHARD", 1)
    monkeypatch.setattr(jobs, "FIRST_RANGE", 100)
    monkeypatch.setattr(jobs, "MAX_RANGE", 100)
    monkeypatch.setattr(sys, "executable", str(zygote.worker))
    return tmp_path


class SignalAtLine:
    """Sends SIGTERM before the line with this number, of those that the main thread runs while it evaluates."""

    def __init__(self, number):
        self.number, self.lines, self.line = number, 0, None

    def __call__(self, frame, _event, _argument):
        functions = PLACES.get(frame.f_code.co_filename)
        traced = functions is not None and (not functions or frame.f_code.co_name in functions)
        return self._trace if traced else None

    def _trace(self, frame, event, _argument):
        if event == "line":
            self.lines += 1
            if self.lines == self.number:
                self.line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                signal.raise_signal(signal.SIGTERM)
        return self._trace


@pytest.fixture
def interrupted(folder, monkeypatch, capfd):
    """Evaluate with a signal at this line, or without one. Returns the number of lines."""

    def interrupted(number, options, kept=None):
        signals = SignalAtLine(number)

        def traced(real):
            def run(*arguments):
                sys.settrace(signals)
                try:
                    return real(*arguments)
                finally:
                    sys.settrace(None)

            async def conduct(*arguments):
                sys.settrace(signals)
                try:
                    return await real(*arguments)
                finally:
                    sys.settrace(None)

            return conduct if iscoroutinefunction(real) else run

        with monkeypatch.context() as patch:
            for owner, name in ((evaluate, "_execute"), (AgentExecution, "_conduct")):
                patch.setattr(owner, name, traced(getattr(owner, name)))
            code = evaluate.main(EvaluateOptions(to=["out.jsonl"], json=True, **options))
        out, err = capfd.readouterr()
        lines = [json.loads(line) for line in (folder / "out.jsonl").read_bytes().splitlines()]
        assert [line["execution_context"]["test_case"]["id"] for line in lines] == [
            str(at) for at in range(len(lines))
        ], signals.line
        ended = signals.line is None and kept is None
        if ended or ("agent" in options and code == 0):  # with the last line of an agent the run has ended
            assert (code, len(lines)) == (0, CASES), (signals.line, err)
            return signals.lines
        assert (code, err) == (
            1,
            f"assay: interrupted after {count_of(len(lines), 'case')}; the others were not measured\n",
        ), signals.line
        assert kept in (None, len(lines))
        summary = json.loads(out)["summary"]
        assert summary["total_test_cases"] == len(lines), signals.line
        return signals.lines

    return interrupted


def test_a_check_that_does_not_end_does_not_delay_an_interrupt(interrupted):
    interrupted(0, CONTEXTS | {"checks": "endless.json", "modules": [f"{MINE}:Endless"]}, kept=3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_counts_when_its_line_is_kept(interrupted, series, kind):
    lines = interrupted(0, KINDS[kind])
    for number in range(1, lines, max(1, lines // series(20, lines))):
        interrupted(number, KINDS[kind])
