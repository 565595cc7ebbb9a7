"""Logs of inspect, samples of the harness, instances of Every Eval Ever, and datasets of other tools."""

import io
import json
import struct
import zipfile

import pytest
import zstandard

import assay
from assay.errors import Refusal
from assay.interchange import inspect_log, lm_eval
from assay.interchange.formats import FORMATS, format_named, recognise
from assay.interchange.imported import ImportReport
from assay.interchange.zip_reader import ZipReader
from assay.ports import Limits

HEADER = {
    "version": 2,
    "status": "success",
    "eval": {
        "task": "demo",
        "model": "mockllm/model",
        "packages": {"inspect_ai": "0.3.285"},
        "scorers": [{"name": "includes", "options": {}}, {"name": "mine", "options": {}}],
    },
    "plan": {"steps": [{"solver": "generate"}]},
}


def sample(id, epoch, text, grade, target="2", **more):
    return {
        "id": id,
        "epoch": epoch,
        "input": "1+1?",
        "target": target,
        "messages": [
            {"role": "user", "content": "1+1?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c1", "function": "add", "arguments": {"x": 1}}],
            },
            {"role": "tool", "content": "2", "function": "add", "tool_call_id": "c1"},
            {"role": "assistant", "content": [{"type": "text", "text": text}]},
        ],
        "output": {"model": "m", "choices": [{"stop_reason": "stop"}], "completion": text},
        "scores": {
            "includes": {"value": grade, "answer": text, "explanation": "why"},
            "mine": {"value": 0.5},
        },
        "model_usage": {"m": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}},
        "total_time": 1.5,
        "metadata": {"topic": "math"},
        "attachments": {},
    } | more


SAMPLES = [
    sample("sum", 1, "It is 2", "C"),
    sample("sum", 2, "It is 3", "I"),
    sample("city", 1, "attachment://abc", "C", target=["Rome", "Roma"], attachments={"abc": "Roma"}),
    sample("broken", 1, "", "I", error={"message": "429"}),
]


def write_log(path, form):
    if form == "json":
        path.write_text(json.dumps(HEADER | {"samples": SAMPLES}))
        return
    members = {"header.json": HEADER, "summaries.json": []}
    members |= {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in SAMPLES}
    path.write_bytes(
        archive({name: json.dumps(one).encode() for name, one in members.items()}, zstd=form == "zstd")
    )


def archive(members, *, zstd=False, method=zipfile.ZIP_DEFLATED):
    """A zip file. The zstd one is a stored one whose members say that they are compressed by method 93."""
    held = io.BytesIO()
    packed = {name: zstandard.compress(data) if zstd else data for name, data in members.items()}
    with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED if zstd else method) as file:
        for name, data in packed.items():
            file.writestr(name, data)
    if not zstd:
        return held.getvalue()
    raw = bytearray(held.getvalue())
    for name, data in members.items():
        crc = struct.pack("<L", zipfile.crc32(data))
        for mark, method_at, crc_at, size_at in ((b"PK\1\2", 10, 16, 24), (b"PK\3\4", 8, 14, 22)):
            at = -1
            while (at := raw.find(mark, at + 1)) >= 0:
                name_at = at + (46 if mark == b"PK\1\2" else 30)
                if raw[name_at : name_at + len(name)] == name.encode():
                    raw[at + method_at : at + method_at + 2] = struct.pack("<H", 93)
                    raw[at + crc_at : at + crc_at + 4] = crc
                    raw[at + size_at : at + size_at + 4] = struct.pack("<L", len(data))
    return bytes(raw)


def imported(name, *files):
    report = ImportReport()
    return list(format_named(name).read([str(one) for one in files], report, Limits())), report


@pytest.mark.parametrize("form", ["deflate", "zstd", "json"])
def test_a_log_of_inspect_becomes_trials_with_recorded_scores(tmp_path, form):
    path = tmp_path / ("log.json" if form == "json" else "log.eval")
    write_log(path, form)
    assert recognise([str(path)], Limits()).name == "inspect"
    cases, report = imported("inspect", path)
    assert [(one.case["id"], one.output["metadata"].get("trial"), one.output["value"]) for one in cases] == [
        ("sum", 0, "It is 2"),
        ("sum", 1, "It is 3"),
        ("city", 0, "Roma"),
        ("broken", 0, ""),
    ]
    metadata = cases[0].output["metadata"]
    assert (metadata["latency_ms"], metadata["tokens"], metadata["system"]) == (1500, 7, "mockllm/model")
    assert metadata["trajectory"] == [
        {"type": "tool-called", "call_id": "c1", "tool": "add", "inputs": {"x": 1}},
        {"type": "tool-returned", "call_id": "c1", "tool": "add", "status": "ok", "outcome": "2"},
    ]
    assert metadata["recorded"]["scores"] == {"includes": 1, "mine": 0.5}
    assert metadata["recorded"]["version"] == "0.3.285"
    assert cases[0].case["metadata"] == {"topic": "math", "task": "demo"}
    assert [one.checks[0]["type"] for one in cases] == ["contains", "contains", "regex", "contains"]
    assert cases[3].output["metadata"]["outcome"] == "failed"
    assert cases[3].output["metadata"]["recorded"]["scores"] == {}
    assert [one.what for one in report.not_carried] == [
        "scorer mine",
        "solver generate",
        *([] if form == "json" else ["summaries.json in the archive"]),
        "scores of a sample with an error",
    ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"PK", "expected a zip archive"),
        (archive({"x.json": b"{}"}), "with header.json"),
        (archive({"header.json": b"{"}), "not JSON"),
        (archive({"header.json": b"{}", "header.jsom": b"{}"}).replace(b"jsom", b"json"), "is there twice"),
        (archive({"header.json": b"[]"}), "expected an object"),
        (archive({"header.json": b"{}", "samples/a.json": b"0" * 300_000}), "limit"),
        (archive({"header.json": b"{}", "samples/a.json": b"0" * 300_000}, zstd=True), "limit"),
        (archive({"header.json": b"{}"}, zstd=True).replace(b"\x28\xb5\x2f\xfd", b"\0\0\0\0", 1), "broken"),
    ],
    ids=["no zip", "no header", "no json", "twice", "no object", "bomb", "zstd bomb", "broken zstd"],
)
def test_a_hostile_archive_is_refused(tmp_path, data, problem):
    (tmp_path / "log.eval").write_bytes(data)
    with pytest.raises(Refusal, match=problem):
        list(inspect_log.read([str(tmp_path / "log.eval")], ImportReport(), Limits(max_line_bytes=100_000)))


def test_a_member_with_a_path_outside_writes_nothing(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "log.eval").write_bytes(
        archive({"../evil.json": b"{}", "header.json": json.dumps(HEADER).encode()})
    )
    cases, report = imported("inspect", inside / "log.eval")
    assert (cases, report.not_carried[-1].what) == ([], "a member of the archive")
    assert sorted(tmp_path.rglob("*")) == [inside, inside / "log.eval"]


def test_an_archive_is_closed_after_it_was_read(tmp_path):
    (tmp_path / "a.zip").write_bytes(archive({"a": b"1"}))
    with ZipReader(str(tmp_path / "a.zip"), Limits()) as opened:
        assert opened.read("a") == b"1"
    with pytest.raises(ValueError, match="closed"):
        opened.read("a")


def test_samples_of_the_harness_become_cases(tmp_path):
    generated = {
        "doc_id": 0, "doc": {"q": "2+2"}, "target": "4", "arguments": {"gen_args_0": {"arg_0": "Q: 2+2", "arg_1": {}}},
        "resps": [["It is 4"]], "filtered_resps": ["4"], "filter": "strict-match", "metrics": ["exact_match"], "exact_match": 1.0,
    }  # fmt: skip
    chosen = {
        "doc_id": 3, "doc": {"q": "sky"}, "target": "1",
        "arguments": {"gen_args_0": {"arg_0": "The sky is", "arg_1": " red"}, "gen_args_1": {"arg_0": "The sky is", "arg_1": " blue"}},
        "resps": [[["-9.1", "False"]], [["-1.2", "True"]]], "filtered_resps": [["-9.1", "False"], ["-1.2", "True"]],
        "filter": "none", "metrics": ["acc"], "acc": 1.0,
    }  # fmt: skip
    (tmp_path / "samples_math_2026-01-01.jsonl").write_text(json.dumps(generated) + "\n")
    (tmp_path / "samples_sky_2026-01-01.jsonl").write_text(json.dumps(chosen) + "\n")
    (tmp_path / "results.json").write_text(
        json.dumps(
            {
                "results": {"math": {"exact_match,strict-match": 1.0}},
                "configs": {},
                "versions": {},
                "model_name": "tiny",
                "lm_eval_version": "0.4.13",
            }
        )
    )
    files = sorted(str(one) for one in tmp_path.iterdir())
    assert recognise(files, Limits()).name == "lm-evaluation-harness"
    report = ImportReport()
    first, second = lm_eval.read(files, report, Limits())
    assert (first.case["id"], first.case["input"], first.output["value"], first.variant) == (
        "math-0",
        "Q: 2+2",
        "4",
        "tiny strict-match",
    )
    assert first.output["metadata"]["recorded"] == {
        "tool": "lm-evaluation-harness",
        "version": "0.4.13",
        "scores": {"exact_match": 1.0},
    }
    assert (second.case["expected"], second.output["value"], second.variant) == (" blue", " blue", "tiny")
    assert [one["type"] for one in second.checks] == ["exact_match"]
    assert {one.what for one in report.not_carried} == {"a score of a whole task", "metric exact_match"}


def test_instances_of_every_eval_ever_become_recorded_outputs(tmp_path):
    row = {
        "schema_version": "0.3.0", "evaluation_id": "e", "model_id": "openai/gpt", "evaluation_name": "gsm8k",
        "sample_id": "s1", "interaction_type": "single_turn", "input": {"raw": "2+2?", "reference": ["4"]},
        "output": {"raw": ["4"]}, "messages": None, "answer_attribution": [], "evaluation": {"score": 1.0, "is_correct": True},
        "token_usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    }  # fmt: skip
    agentic = row | {
        "sample_id": "s2", "interaction_type": "agentic", "output": None,
        "messages": [{"turn_idx": 0, "role": "assistant", "content": "", "tool_calls": [{"id": "1", "name": "add", "arguments": {"x": "1"}}]},
                     {"turn_idx": 1, "role": "assistant", "content": "4"}],
    }  # fmt: skip
    (tmp_path / "a_samples.jsonl").write_text("\n".join(map(json.dumps, (row, agentic))))
    assert recognise([str(tmp_path / "a_samples.jsonl")], Limits()).name == "every-eval-ever"
    cases, _ = imported("every-eval-ever", tmp_path / "a_samples.jsonl")
    assert [(one.case["id"], one.case["expected"], one.output["value"], one.variant) for one in cases] == [
        ("s1", "4", "4", "openai/gpt"),
        ("s2", "4", "4", "openai/gpt"),
    ]
    assert cases[0].output["metadata"]["recorded"]["scores"] == {"score": 1.0, "is_correct": 1}
    assert cases[1].output["metadata"]["trajectory"][0]["tool"] == "add"
    (tmp_path / "a_samples.jsonl").write_text(json.dumps(row | {"schema_version": "1.0"}))
    with pytest.raises(Refusal, match=r"expected 0\.3"):
        imported("every-eval-ever", tmp_path / "a_samples.jsonl")


DATASETS = {
    "flex-evals": ("d.yaml", {"test_cases": [{"id": "a", "input": "Q", "expected": "A"}], "outputs": [{"value": "A"}], "checks": [{"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "A"}}]}, ("a", "Q", "A", "A", 1)),
    "pydantic-evals": ("d.yaml", {"name": "d", "cases": [{"name": "a", "inputs": "Q", "expected_output": "A", "metadata": {"x": 1}, "evaluators": ["EqualsExpected", {"Contains": "A"}, {"LLMJudge": {"rubric": "?"}}]}], "evaluators": [{"MaxDuration": 2.0}]}, ("a", "Q", "A", None, 3)),
    "deepeval": ("d.json", [{"input": "Q", "actual_output": "O", "expected_output": "A", "context": ["c"]}], ("1", "Q", "A", "O", 0)),
    "ragas": ("d.jsonl", [{"user_input": "Q", "response": "O", "reference": "A", "retrieved_contexts": ["c"]}], ("1", "Q", "A", "O", 0)),
    "langsmith": ("d.jsonl", [{"id": "x", "inputs": {"q": "Q"}, "outputs": {"a": "A"}, "metadata": {"split": "test"}}], ("x", {"q": "Q"}, {"a": "A"}, None, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_is_recognised_and_becomes_cases(tmp_path, name):
    file, document, (id, asked, expected, value, checks) = DATASETS[name]
    text = "\n".join(map(json.dumps, document)) if file.endswith("jsonl") else json.dumps(document)
    (tmp_path / file).write_text(text)
    assert recognise([str(tmp_path / file)], Limits()).name == name
    (one,), report = imported(name, tmp_path / file)
    output = one.output["value"] if one.output else None
    assert (one.case["id"], one.case["input"], one.case["expected"], output, len(one.checks)) == (
        id,
        asked,
        expected,
        value,
        checks,
    )
    judges = ["rubric"] if name == "pydantic-evals" else []
    assert ([judge["type"] for judge in one.judges], report.not_carried) == (judges, [])


def test_a_conversation_of_ragas_is_an_input_and_what_the_agent_did(tmp_path):
    person, call = {"type": "human", "content": "?"}, {"name": "find", "args": {"x": 1}}
    calls = {"type": "ai", "content": "", "tool_calls": [call, call | {"name": "read"}]}
    found, text = {"type": "tool", "content": "F"}, {"type": "tool", "content": "R"}
    answer = {"type": "ai", "content": "A", "metadata": {"m": 1}}
    rows = [
        {"user_input": [person, calls, found, text, answer], "reference_topics": ["t"]},
        {"user_input": [person, answer, person, answer]},
        {"user_input": [person]},
    ]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (one, long, unanswered), report = imported("ragas", tmp_path / "d.jsonl")
    assert (one.case["input"], one.output["value"]) == ([{"role": "user", "content": "?"}], "A")
    steps = one.output["metadata"]["trajectory"]
    assert [(step["type"], step["call_id"], step["tool"]) for step in steps] == [
        ("tool-called", "1", "find"),
        ("tool-called", "2", "read"),
        ("tool-returned", "1", "find"),
        ("tool-returned", "2", "read"),
    ]
    assert [steps[0]["inputs"], steps[3]["outcome"]] == [{"x": 1}, "R"]
    turns = [(step["role"], step["turn"]) for step in long.output["metadata"]["trajectory"]]
    assert turns == [("assistant", 1), ("user", 2), ("assistant", 2)]
    assert unanswered.output is None
    assert {(left.what, left.place.rpartition("user_input")[2]) for left in report.not_carried} >= {
        ("message.metadata", "[4].metadata")
    }
    check = {"type": "tool_calls", "arguments": {"expected": ["find", "read"]}}
    result = assay.evaluate_sync([one.case], [one.output], [check])
    assert result.results[0].check_results[0].results["passed"]


def test_the_page_names_every_format():
    from support.documents import DOCS

    page = (DOCS / "import.md").read_text()
    assert [one.name for one in FORMATS if f"`{one.name}`" not in page] == []
