"""Exports in the tools that they are for, each in an environment of its own."""

import json
import urllib.request
from datetime import UTC, datetime

import msgspec
import pytest

import assay
from assay.interchange.exports import ExportSink
from assay.interchange.exports.exported import ExportedRun
from support.agents.frameworks.environments import NotMade
from support.interchange.tools import promptfoo
from support.traces.phoenix import get, phoenix_server

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


def form(file, fields):
    """The body of a form with these fields and a file."""
    parts = [(f'name="{name}"', "", value.encode()) for name, value in fields]
    kind = "Content-Type: application/jsonl\r\n"
    parts.append((f'name="file"; filename="{file.name}"', kind, file.read_bytes()))
    return (
        b"".join(
            f"--end\r\nContent-Disposition: form-data; {about}\r\n{more}\r\n".encode() + content + b"\r\n"
            for about, more, content in parts
        )
        + b"--end--\r\n"
    )


def test_phoenix_takes_the_export_as_a_dataset(export, tmp_path):
    file = export("openinference", "run.jsonl") / "run.jsonl"
    fields = [("action", "create"), ("name", "run"), ("example_id_key", "id")]
    for name in ("input", "output", "metadata"):
        fields += [(f"{name}_keys[]", name), ("flatten_keys[]", name)]
    headers = {"Content-Type": "multipart/form-data; boundary=end"}
    try:
        with phoenix_server(tmp_path) as url:
            sent = urllib.request.Request(f"{url}/v1/datasets/upload?sync=true", form(file, fields), headers)
            with urllib.request.urlopen(sent, timeout=120) as answer:
                id = json.loads(answer.read())["data"]["dataset_id"]
            back = [json.loads(line) for line in get(f"{url}/v1/datasets/{id}/jsonl").splitlines()]
    except NotMade as why:
        pytest.skip(f"Phoenix cannot be installed: {why}")
    examples = [json.loads(line) for line in file.read_text().splitlines()]
    assert [one["id"] for one in examples] == ["fr", "pe", "fr#2", "pe#2"]
    assert {one["id"]: {name: one[name] for name in examples[0]} for one in back} == {
        one["id"]: one for one in examples
    }
