"""Runs in the formats of other tools: what is carried comes back, and what was not measured is never a score."""

import io
import json
import shutil
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest
import uv
from hypothesis import given, settings
from hypothesis import strategies as st

import assay
from assay.errors import UsageError
from assay.interchange import every_eval_ever, inspect_log
from assay.interchange.exports import EXPORTS, NAMES, ExportSink, writer_of
from assay.interchange.exports.exported import ExportedRun
from assay.interchange.imported import ImportReport
from assay.interchange.promptfoo import files as promptfoo
from assay.ports import Limits
from support.documents import DOCS, ROOT, table

EXAMPLES = ROOT / "examples"
RUN = ExportedRun("eval_1", "capitals", datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC), "completed", "0.1.0")  # fmt: skip
CHECKS = [
    {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["a"]}},
    {"type": "contains", "name": "has b", "arguments": {"text": "$.output.value", "phrases": ["b"]}},
    {"type": "f1", "arguments": {"text": "$.output.value", "references": "$.test_case.expected"}},
    {"type": "number", "arguments": {"text": "$.output.value", "expected": "$.test_case.metadata.n"}},
]
texts = st.text('ab 1\n"é', max_size=6)
values = st.none() | st.booleans() | st.integers(-5, 5) | texts | st.lists(texts, max_size=2) | st.dictionaries(texts, texts, max_size=2)  # fmt: skip


inputs = st.dictionaries(st.text("ab", min_size=1, max_size=3), st.integers(0, 9) | texts, max_size=2)


@st.composite
def steps(draw):
    """What an agent did: calls of tools with their answers or errors, thoughts, and steps that no format carries."""
    found = []
    for at in range(draw(st.integers(0, 3))):
        call = {"call_id": f"c{at}", "tool": draw(st.sampled_from(["find", "read"]))}
        found.append({"type": "tool-called", **call, "inputs": draw(inputs)})
        done = draw(st.sampled_from(["ok", "error", "none"]))
        if done == "ok":
            found.append({"type": "tool-returned", **call, "status": "ok", "outcome": draw(texts)})
        elif done == "error":
            failed = {"code": "tool_error", "message": draw(texts)}
            found.append({"type": "tool-returned", **call, "status": "error", "error": failed})
        found += draw(st.lists(st.sampled_from([{"type": "reasoned", "text": "hm"}, {"type": "wrote", "memory_ref": "m", "memory_id": "1"}]), max_size=1))  # fmt: skip
    return found


@st.composite
def runs(draw, value=values):
    """The cases and outputs of a run. A case without an expected value, or without a number, has unmeasured checks."""
    cases, outputs = [], []
    for at in range(draw(st.integers(1, 4))):
        case = {"id": f"c{at}", "input": draw(value), "metadata": {"n": draw(st.sampled_from([1, "none"]))}}
        case |= draw(st.fixed_dictionaries({}, optional={"expected": value}))
        for _ in range(draw(st.integers(1, 2))):
            cases.append(case)
            metadata = {"system": draw(st.sampled_from(["m1", "m2"])), "input_tokens": 3, "output_tokens": 4}
            outputs.append({"value": draw(value), "metadata": metadata | {"trajectory": draw(steps())}})
    return cases, outputs


def results_of(cases, outputs):
    result = assay.evaluate_sync(test_cases=cases, outputs=outputs, checks=CHECKS)
    return [json.loads(msgspec.json.encode(one)) for one in result.results]


def exported(results, to, extension):
    parts = []
    sink = ExportSink(RUN, to, f"f{extension}", parts.append)
    for one in results:
        sink.add(msgspec.json.encode(one))
    sink.close()
    return b"".join(parts)


def labels(result):
    return ["contains", "has b", "f1", "number"]


def measured(result):
    """The score of each check that was measured."""
    pairs = zip(labels(result), result["check_results"], strict=True)
    return {
        label: float(one["results"].get("score", one["results"].get("passed")))
        for label, one in pairs
        if one["status"] == "completed"
    }


def verdicts(result):
    pairs = zip(labels(result), result["check_results"], strict=True)
    return {label: one["results"]["passed"] for label, one in pairs if "passed" in one["results"]}


def as_text(value):
    return value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Reads a file again as `assay import` does."""
    folder = tmp_path_factory.mktemp("exports")

    def again(reader, content, extension):
        file = folder / f"f{extension}"
        file.write_bytes(content)
        return list(reader.read([str(file)], ImportReport(), Limits()))

    return again


def trials(results):
    seen = {}
    for one in results:
        id = one["execution_context"]["test_case"]["id"]
        seen[id] = seen.get(id, 0) + 1
        yield one["execution_context"]["test_case"], one["execution_context"]["output"], seen[id], one


@settings(max_examples=10, deadline=None)
@given(runs())
def test_a_log_of_inspect_brings_cases_outputs_and_scores_back(read, run):
    results = results_of(*run)
    log = exported(results, "inspect", ".json")
    found = read(inspect_log, log, ".json")
    assert read(inspect_log, exported(results, "inspect", ".eval"), ".eval") == found
    for (case, output, trial, result), sample, back in zip(
        trials(results), json.loads(log)["samples"], found, strict=True
    ):
        assert (back.case["id"], sample["epoch"]) == (case["id"], trial)
        assert back.case["input"] == as_text(case["input"])
        assert back.case["metadata"].items() >= case["metadata"].items()
        if isinstance(case.get("expected"), str) and case["expected"]:
            assert back.case["expected"] == case["expected"]
        assert sample["output"]["choices"][0]["message"]["content"] == as_text(output["value"])
        carried = [one for one in output["metadata"]["trajectory"] if one["type"] != "wrote"]
        assert back.output["metadata"]["trajectory"] == carried
        assert sample["output"]["usage"] == {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
        assert {
            name: float({"C": 1, "I": 0}.get(one["value"], one["value"]))
            for name, one in sample["scores"].items()
        } == measured(result)
        assert set(sample["metadata"].get("assay", {}).get("not_measured", ())) == set(labels(result)) - set(
            measured(result)
        )
        if "error" not in sample:
            assert back.output["metadata"]["recorded"]["scores"] == pytest.approx(measured(result))
    for score in json.loads(log)["results"]["scores"]:
        numbers = [measured(one)[score["name"]] for one in results if score["name"] in measured(one)]
        assert score["metrics"]["mean"]["value"] == pytest.approx(sum(numbers) / len(numbers))
        assert score["unscored_samples"] == len(results) - len(numbers)


@settings(max_examples=10, deadline=None)
@given(runs())
def test_results_of_promptfoo_bring_outputs_and_verdicts_back(read, run):
    results = results_of(*run)
    document = exported(results, "promptfoo", ".json")
    found = read(promptfoo, document, ".json")
    rows = json.loads(document)["results"]
    for (case, output, trial, result), row, back in zip(trials(results), rows["results"], found, strict=True):
        assert back.output["value"] == output["value"]
        assert back.output["metadata"]["system"] == output["metadata"]["system"]
        assert back.output["metadata"]["tokens"] == 7
        assert back.case["id"] == case["id"]
        about = back.case["metadata"]["assay"]
        assert (about["id"], about["trial"], about.get("expected")) == (
            case["id"],
            trial,
            case.get("expected"),
        )
        assert row["namedScores"] == measured(result)
        assert {
            one["assertion"]["metric"]: one["pass"] for one in row["gradingResult"]["componentResults"]
        } == verdicts(result)
        scores = back.output["metadata"]["recorded"]["scores"]
        if len(measured(result)) < len(CHECKS):
            assert (row["failureReason"], row["success"], scores) == (2, False, {})
            assert back.output["metadata"]["outcome"] == "failed"
        else:
            assert scores["pass"] == all(verdicts(result).values())
    cells = {(row["testIdx"], row["promptIdx"]) for row in rows["results"]}
    assert len(cells) == len(results)  # promptfoo shows one result in each
    outcomes = [row["failureReason"] for row in rows["results"]]
    assert rows["stats"]["errors"] == outcomes.count(2)
    assert rows["stats"]["successes"] == outcomes.count(0)
    for name in labels(None):
        scores = [row["namedScores"][name] for row in rows["results"] if name in row["namedScores"]]
        sums = [one["metrics"]["namedScores"].get(name, 0) for one in rows["prompts"]]
        counts = [one["metrics"]["namedScoresCount"].get(name, 0) for one in rows["prompts"]]
        assert (sum(sums), sum(counts)) == (pytest.approx(sum(scores)), len(scores))


@settings(max_examples=10, deadline=None)
@given(runs())
def test_a_dataset_of_openinference_has_inputs_expected_values_and_outputs(run):
    results = results_of(*run)
    lines = exported(results, "openinference", ".jsonl").splitlines()
    assert len({json.loads(line)["id"] for line in lines}) == len(lines)  # else Phoenix refuses all
    for (case, output, trial, result), line in zip(trials(results), lines, strict=True):
        example = json.loads(line)
        assert example["id"] == (case["id"] if trial == 1 else f"{case['id']}#{trial}")
        assert example["input"] == (
            case["input"] if isinstance(case["input"], dict) else {"input": case["input"]}
        )
        if "expected" in case:
            expected = case["expected"]
            assert example["output"] == (expected if isinstance(expected, dict) else {"output": expected})
        else:
            assert example["output"] == {}
        about = example["metadata"].pop("assay")
        assert example["metadata"] == case["metadata"]
        assert (about["id"], about["trial"], about["output"]) == (case["id"], trial, output["value"])
        assert {name: one["score"] for name, one in about["scores"].items()} == measured(result)


@settings(max_examples=10, deadline=None)
@given(runs())
def test_records_of_every_eval_ever_bring_verdicts_back(read, run):
    results = results_of(*run)
    lines = exported(results, "every-eval-ever", ".jsonl")
    found = read(every_eval_ever, lines, ".jsonl")
    expected = [
        (
            case["id"],
            as_text(case["input"]),
            as_text(output["value"]),
            output["metadata"]["system"],
            score,
            label,
        )
        for case, output, _, result in trials(results)
        for label, score in measured(result).items()
        if label in verdicts(result)
    ]
    assert [
        (
            one.case["id"],
            one.case["input"],
            one.output["value"],
            one.output["metadata"]["system"],
            one.output["metadata"]["recorded"]["scores"]["score"],
            one.case["metadata"]["evaluation"],
        )
        for one in found
    ] == expected
    aggregate = json.loads(exported(results, "every-eval-ever", ".json"))
    for one in aggregate["evaluation_results"]:
        numbers = [
            measured(result)[one["evaluation_name"]]
            for result in results
            if one["evaluation_name"] in measured(result)
        ]
        assert one["score_details"]["score"] == pytest.approx(sum(numbers) / len(numbers))
        assert one["score_details"]["details"] == {"not_measured": str(len(results) - len(numbers))}
        assert one["score_details"]["uncertainty"]["num_samples"] == len(numbers)
    assert {json.loads(line)["evaluation_id"] for line in lines.splitlines()} <= {aggregate["evaluation_id"]}


@pytest.mark.parametrize("to", NAMES)
def test_a_run_without_results_is_a_file_without_results(to):
    for extension in next(one for one in EXPORTS if one.name == to).writers:
        content = exported([], to, extension)
        if extension == ".eval":
            assert zipfile.ZipFile(io.BytesIO(content)).namelist() == ["summaries.json", "header.json"]
        else:
            assert content == b"" if extension == ".jsonl" else json.loads(content)


@pytest.mark.parametrize(
    ("to", "name", "words"),
    [
        ("inspect", "x.csv", "x.csv: expected a file of inspect that ends in .eval or .json"),
        ("every-eval-ever", "x", "x: expected a file of every-eval-ever that ends in .json or .jsonl"),
        (
            "vibes",
            "x.json",
            "--to: expected one of inspect, every-eval-ever, promptfoo, openinference, got 'vibes'",
        ),
    ],
)
def test_a_file_of_another_kind_is_refused(to, name, words):
    with pytest.raises(UsageError) as refused:
        writer_of(to, name)
    assert str(refused.value) == words


def test_the_page_has_every_format():
    rows = table((DOCS / "export.md").read_text("utf-8"), "format", "files", "carried", "lost")
    known = [(f"`{one.name}`", ", ".join(f"`{extension}`" for extension in one.writers)) for one in EXPORTS]
    assert [(row[0], row[1]) for row in rows] == known


@pytest.mark.parametrize("to", NAMES)
def test_the_command_exports_a_stored_run(command, stored, to):
    extensions = next(one for one in EXPORTS if one.name == to).writers
    names = [f"{to}{extension}" for extension in extensions]
    done = command(
        "export", "latest", *(word for name in names for word in ("-o", name)), "--to", to, folder=stored
    )
    assert (done.code, done.out) == (0, f"2 results in {', '.join(names)}\n")
    assert all((stored / name).stat().st_size for name in names)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "inspect"], "--to inspect: expected -o FILE, got none"),
        (
            ["-o", "x.json", "--to", "vibes"],
            "--to: expected inspect, every-eval-ever, promptfoo, openinference, otlp, otlp=URL, phoenix or phoenix=URL",
        ),
        (
            ["-o", "x.json", "--to", "inspect", "--to", "promptfoo"],
            "--to: expected one format, got inspect and promptfoo",
        ),
        (["-o", "x.csv", "--to", "inspect"], "x.csv: expected a file of inspect that ends in .eval or .json"),
    ],
)
def test_the_command_refuses_a_format_before_it_writes(command, stored, words, message):
    done = command("export", "latest", *words, folder=stored)
    assert done.code == 2
    assert message in " ".join(done.err.split())
    assert not (stored / "x.json").exists()


@pytest.mark.parametrize("trials", [1, 2])
def test_the_command_exports_an_agent_eval_to_each_format(command, read, tmp_path, trials):
    shutil.copytree(EXAMPLES / "support", tmp_path, dirs_exist_ok=True)
    ran = command(
        "run", "suite.yaml", "--agent", "local.examples.support", "--trials", str(trials), folder=tmp_path
    )
    assert "tasks 4 of 5 passed" in ran.out, ran.err
    for one in EXPORTS:
        files = [f"{one.name}{extension}" for extension in one.writers]
        words = [word for name in files for word in ("-o", name)]
        done = command("export", "latest", *words, "--to", one.name, folder=tmp_path)
        assert (done.code, done.out) == (0, f"{5 * trials} results in {', '.join(files)}\n"), done.err
    log = json.loads((tmp_path / "inspect.json").read_bytes())
    assert log["eval"]["model"] == "local.examples.support"
    assert [(one["id"], one["epoch"]) for one in log["samples"][:trials]] == [
        ("return-window", at + 1) for at in range(trials)
    ]
    for sample in log["samples"][:trials]:
        assert [one["role"] for one in sample["messages"]] == ["user", "assistant", "tool", "assistant"]
        assert sample["scores"]["contains"]["value"] == "C"
    found = read(inspect_log, json.dumps(log).encode(), ".json")
    assert [step["type"] for step in found[0].output["metadata"]["trajectory"]] == [
        "tool-called",
        "tool-returned",
    ]
    rows = json.loads((tmp_path / "promptfoo.json").read_bytes())["results"]["results"]
    assert [one["success"] for one in rows].count(True) == 4 * trials
    lines = (tmp_path / "openinference.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["metadata"]["assay"]["scores"]["contains"]["label"] == "pass"
    assert (
        json.loads((tmp_path / "every-eval-ever.json").read_bytes())["model_info"]["id"]
        == "local.examples.support"
    )
    instances = (tmp_path / "every-eval-ever.jsonl").read_text().splitlines()
    assert {json.loads(line)["model_id"] for line in instances} == {"local.examples.support"}


@pytest.fixture(scope="module")
def stored(command, tmp_path_factory):
    """A folder with a stored run of two results, one of which has a check that was not measured."""
    folder = tmp_path_factory.mktemp("stored")
    rows = [
        {"test_case": {"id": "fr", "input": "Capital?", "expected": "Paris"}, "output": {"value": "Paris"}},
        {"test_case": {"id": "it", "input": {"q": 1}}, "output": {"value": {"a": 1}}},
    ]
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "c.json").write_text(json.dumps([{"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}]))  # fmt: skip
    command("evaluate", "--contexts", "a.jsonl", "--checks", "c.json", "--save", folder=folder)
    return folder


# the tools themselves, each in an environment of its own (`make soak`)

READ_LOG = """
import sys
from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample_summaries
(listed,) = list_eval_logs(".")  # as `inspect view` does
assert listed.name.endswith("f.eval")
assert [one.id for one in read_eval_log_sample_summaries("f.eval")] == [one.id for one in read_eval_log("f.eval").samples]
head, log = read_eval_log(sys.argv[1], header_only=True), read_eval_log(sys.argv[1])
assert head.results.scores == log.results.scores
for one in log.samples:
    print(one.id, one.epoch, sorted(one.scores), bool(one.error), *(message.role for message in one.messages))
"""
ACTED = [
    {"type": "reasoned", "text": "hm"},
    {"type": "tool-called", "call_id": "1", "tool": "find", "inputs": {"x": 1}},
    {"type": "tool-returned", "call_id": "1", "tool": "find", "status": "ok", "outcome": {"y": 2}},
    {"type": "tool-called", "call_id": "2", "tool": "find", "inputs": {}},
    {"type": "tool-returned", "call_id": "2", "tool": "find", "status": "error", "error": {"code": "tool_error", "message": "no"}},
    {"type": "used", "usage": {"model": "m"}},
]  # fmt: skip


@cache
def tool(folder, requirement, *options):
    """A folder with the packages of a tool; the test is skipped where no registry answers."""
    target = Path(folder) / requirement
    words = [uv.find_uv_bin(), "pip", "install", "--quiet", "--target", str(target), *options, requirement]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        pytest.skip(f"no registry has {requirement}")
    return target


@pytest.mark.parametrize("to", ["inspect", "every-eval-ever"])
def test_the_tool_itself_reads_the_export(to, series, tmp_path):
    cases = [{"id": "a", "input": "?", "expected": "a", "metadata": {"n": 1}}, {"id": "b", "input": {"q": 1}}]
    results = results_of(
        cases * 2, [{"value": "a 1", "metadata": {"trajectory": ACTED}}, {"value": {"x": 1}}] * 2
    )
    for extension in next(one for one in EXPORTS if one.name == to).writers:
        (tmp_path / f"f{extension}").write_bytes(exported(results, to, extension))
    assert json.loads((tmp_path / "f.json").read_text())
    if not series(False, True):
        return  # the tools are installed in `make soak`
    if to == "inspect":
        packages = tool(str(tmp_path), "inspect_ai>=0.3.200")
        every = "['contains', 'f1', 'has b', 'number']"
        acted, plain = "user assistant assistant tool assistant tool assistant", "user assistant"
        for name in ("f.json", "f.eval"):
            done = subprocess.run(
                [sys.executable, "-c", READ_LOG, name],
                capture_output=True,
                text=True,
                check=False,
                cwd=tmp_path,
                env={"PYTHONPATH": str(packages)},
            )
            assert sorted(done.stdout.splitlines()) == [
                *(f"a {epoch} {every} False {acted}" for epoch in (1, 2)),
                *(f"b {epoch} ['contains', 'has b'] False {plain}" for epoch in (1, 2)),
            ], done.stderr
        return
    schemas = tool(str(tmp_path), "every-eval-ever>=0.3,<0.4", "--no-deps", "--python-version", "3.12")
    read = lambda name: json.loads((schemas / "every_eval_ever" / "schemas" / name).read_text("utf-8"))  # noqa: E731
    jsonschema_rs.validator_for(read("eval.schema.json")).validate(
        json.loads((tmp_path / "f.json").read_text())
    )
    instance = jsonschema_rs.validator_for(read("instance_level_eval.schema.json"))
    lines = (tmp_path / "f.jsonl").read_text().splitlines()
    assert len(lines) == 10
    for line in lines:
        instance.validate(json.loads(line))
