"""Exports in the tools that they are for, each in an environment of its own."""

import json
from datetime import UTC, datetime

import msgspec
import pytest

import assay
from assay.interchange.exports import ExportSink
from assay.interchange.exports.exported import ExportedRun
from support.agents.frameworks.environments import NotMade
from support.interchange.tools import promptfoo

DAY = datetime(2026, 1, 2, tzinfo=UTC)
RUN = ExportedRun("eval_1", "capitals", DAY, DAY, "completed", "0.1.0")
CHECKS = [
    {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["Paris"]}},
    {
        "type": "f1",
        "arguments": {
            "text": "$.output.value",
            "references": "$.test_case.expected",
            "threshold": {"min_value": 0.5},
        },
    },
]
CASES = [{"id": "fr", "input": "France?", "expected": "Paris"}, {"id": "pe", "input": {"q": 1}}] * 2
ANSWERS = [("m1", "Paris"), ("m1", {"x": 1}), ("m1", "Rome"), ("m2", "Lima")]


@pytest.fixture
def export(tmp_path):
    """Writes a run in a format: two trials of a case, a case without an expected value by two systems."""
    outputs = [
        {"value": value, "metadata": {"system": system, "input_tokens": 3, "output_tokens": 4}}
        for system, value in ANSWERS
    ]
    results = assay.evaluate_sync(CASES, outputs, CHECKS).results

    def write(to, name):
        with (tmp_path / name).open("wb") as file:
            sink = ExportSink(RUN, to, name, file.write)
            for one in results:
                sink.add(msgspec.json.encode(one))
            sink.close()
        return tmp_path

    return write


def test_promptfoo_imports_the_export_and_counts_its_results(export):
    folder = export("promptfoo", "run.json")
    for words in (("import", "run.json"), ("export", "eval", "eval_1", "-o", "back.json")):
        try:
            done = promptfoo(folder, *words)
        except NotMade as why:
            pytest.skip(f"promptfoo cannot be installed: {why}")
        assert done.returncode == 0, done.stderr[-2000:]
    sent, back = (json.loads((folder / name).read_text())["results"] for name in ("run.json", "back.json"))
    outcomes = {"successes": 1, "failures": 1, "errors": 2}
    for stats in (sent["stats"], back["stats"]):
        assert {name: stats[name] for name in outcomes} == outcomes
        assert {name: stats["tokenUsage"][name] for name in ("prompt", "completion", "total")} == {
            "prompt": 12,
            "completion": 16,
            "total": 28,
        }
    columns = [(one["provider"], one["metrics"]["testPassCount"]) for one in back["prompts"]]
    assert columns == [("m1", 1), ("m2", 0)]

    def known(row):
        parts = ("testIdx", "promptIdx", "success", "score", "failureReason", "response", "vars", "provider")
        scores = {name: pytest.approx(score) for name, score in row["namedScores"].items()}
        reasons = [one["reason"] for one in row["gradingResult"]["componentResults"]]
        return {name: row[name] for name in parts} | {"scores": scores, "reasons": reasons}

    assert sorted(map(known, back["results"]), key=lambda row: (row["testIdx"], row["promptIdx"])) == sorted(
        map(known, sent["results"]), key=lambda row: (row["testIdx"], row["promptIdx"])
    )
