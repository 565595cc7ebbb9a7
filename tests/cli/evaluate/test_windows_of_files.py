"""`assay evaluate --traces A --traces B`: two windows of traces, evaluated and compared."""

import gzip
import json

import pytest
import yaml

import assay
from assay.traces.sampling import probability_of
from support.traces.conversations import Conversation, genai
from support.traces.otlp import request_of, to_protobuf

CHECKS = [{"contains": "sent"}]


def trace(number, answer, state="", **attributes):
    spans = genai(Conversation(question="where is it?", answer=answer))
    for span in spans:
        span.trace = f"{number:02x}"
        if state:
            span.members = {"traceState": state}
    spans[0].attributes = {**spans[0].attributes, **attributes}
    return request_of(*spans)


def window(first, gold, free, gold_passed, free_passed, **more):
    """Traces of gold and free customers, of which so many pass."""
    return [
        trace(first + at, "it is sent" if at < gold_passed else "no idea", customer="gold", **more)
        for at in range(gold)
    ] + [
        trace(first + gold + at, "it is sent" if at < free_passed else "no idea", customer="free", **more)
        for at in range(free)
    ]


@pytest.fixture
def weeks(tmp_path):
    """Two weeks: the customers are served as before, but more of them are free ones, who are served worse."""
    (tmp_path / "last").mkdir()
    before, after = window(1, 30, 10, 30, 2, state="ot=th:8"), window(60, 10, 30, 10, 6, state="ot=th:c")
    for at, part in enumerate((before[:15], before[15:])):  # one week in two files, one of them gzipped
        text = "".join(json.dumps(one) + "\n" for one in part)
        if at:
            (tmp_path / "last" / "b.jsonl.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (tmp_path / "last" / "a.jsonl").write_text(text)
    (tmp_path / "last" / "notes.txt").write_text("not a trace")
    (tmp_path / "this.jsonl").write_text("".join(json.dumps(one) + "\n" for one in after))
    (tmp_path / "checks.yaml").write_text(yaml.safe_dump(CHECKS))
    return tmp_path


def test_two_windows_are_compared_by_slice_with_mixes_and_sampling_rates(weeks, command):
    arguments = ("evaluate", "--traces", "last", "--traces", "this.jsonl", "--checks", "checks.yaml")
    done = command(*arguments, "--by", "customer", folder=weeks)
    assert (done.code, done.err) == (0, "")
    assert "last: 40 cases" in done.out
    assert "this.jsonl: 40 cases" in done.out
    assert "last → this.jsonl" in done.out
    assert "80.0% → 40.0%" in done.out
    assert "regressed" in done.out
    assert "the runs have different sampling rates: 50% → 25% of all traces" in done.out
    assert "the runs have different mixes by customer: free 25% → 75%, gold 75% → 25%" in done.out
    assert "--standardize-by customer compares them with one mix" in done.out
    weighted = command(*arguments, "--standardize-by", "customer", folder=weeks)
    assert "80.0% → 80.0% (" in weighted.out
    assert "standardized by customer: each slice counts as in last: gold 75%, free 25%" in weighted.out


def test_the_document_has_both_windows_and_the_comparison_of_the_library(weeks, command, monkeypatch):
    monkeypatch.chdir(weeks)
    done = command(
        *("evaluate", "--traces", "last/*", "--traces", "this.jsonl", "--checks", "checks.yaml", "--json"),
        *("--min-pass-rate", "0.7"),
        folder=weeks,
    )
    assert done.code == 2  # the pattern takes notes.txt, which is no file of traces
    assert "last/notes.txt: expected a file of traces" in done.err
    done = command(
        *(
            "evaluate",
            "--traces",
            "last/*.json*",
            "--traces",
            "this.jsonl",
            "--checks",
            "checks.yaml",
            "--json",
        ),
        *("--min-pass-rate", "0.7", "--save"),
        folder=weeks,
    )
    assert done.code == 3  # of this week; the bar is not one of the baseline
    document = json.loads(done.out)
    assert [one["traces"] for one in document["windows"]] == ["last/*.json*", "this.jsonl"]
    assert ["bars" in one for one in document["windows"]] == [False, True]
    pair = document["comparison"]["comparisons"][0]
    assert pair["unpaired"]
    assert pair["sampling"] == {"before": 0.5, "after": 0.25}
    stored = command(
        *("compare", *(one["evaluation_id"] for one in document["windows"]), "--json"), folder=weeks
    )
    assert json.loads(stored.out)["comparisons"][0]["result"] == pair["result"]
    results = [assay.evaluate_sync(assay.read_traces(name), checks=CHECKS) for name in ("last", "this.jsonl")]
    assert assay.compare(*results).pair.result.difference == pytest.approx(pair["result"]["difference"])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("-o", "out.jsonl"), 2, "-o: expected one --traces with it, got 2, which are windows to compare"),
        (("--name", "x"), 2, "--name: expected one --traces with it"),
        (("--to", "otlp"), 2, "--to: expected one --traces with it"),
        (("--baseline", "latest"), 2, "--baseline: expected one --traces with it"),
        (("--traces", "last/a.jsonl"), 2, "expected other files than those of --traces last, got last/a.jsonl in both"),
        (("--traces", "gone.jsonl"), 2, "gone.jsonl"),
        (("--traces", "empty"), 2, "empty: expected files of traces in this folder, got none"),
        (("--traces", "x*.jsonl"), 2, "x*.jsonl: expected files of traces, and no file has such a name"),
        (("--by", "planet"), 1, "no case has"),
        (("--agent", "x:y"), 2, "--agent and --traces: expected one of them"),
    ],
)  # fmt: skip
def test_what_two_windows_cannot_have_is_refused(weeks, command, arguments, code, message):
    (weeks / "empty").mkdir()
    given = ("evaluate", "--traces", "last", "--traces", "this.jsonl", "--checks", "checks.yaml")
    done = command(*given, *arguments, folder=weeks)
    assert (done.code, message in done.err) == (code, True), done.err
    assert "Traceback" not in done.err
    assert not (weeks / "out.jsonl").exists()


def test_an_output_never_replaces_a_file_of_the_folder_that_is_read(weeks, command):
    done = command(
        *("evaluate", "--traces", "last", "--checks", "checks.yaml", "-o", "last/a.jsonl"), folder=weeks
    )
    assert done.code == 2
    assert "one would destroy the other" in done.err
    assert "resourceSpans" in (weeks / "last" / "a.jsonl").read_text()


def test_standardize_by_needs_something_to_compare_with(weeks, command):
    given = ("evaluate", "--traces", "this.jsonl", "--checks", "checks.yaml")
    done = command(*given, "--standardize-by", "customer", folder=weeks)
    assert (done.code, "--standardize-by: expected --baseline, or --traces twice" in done.err) == (2, True)
    command(
        "evaluate", "--traces", "last", "--checks", "checks.yaml", "-o", "last.results.json", folder=weeks
    )
    done = command(*given, "--standardize-by", "customer", "--baseline", "last.results.json", folder=weeks)
    assert (done.code, "standardized by customer: each slice counts as in" in done.out) == (0, True), done.err


@pytest.mark.parametrize(
    ("state", "attributes", "probability"),
    [
        ("ot=th:0", {}, 1.0),
        ("ot=th:8", {}, 0.5),
        ("vendor=1, ot=rv:0123456789abcd;th:f ,x=y", {}, 0.0625),
        ("ot=th:fd70a3d70a3d71", {}, 0.01),
        ("ot=th:8", {"sampling.probability": 0.1}, 0.5),
        ("", {"sampling.probability": 0.1}, 0.1),
        ("", {"sampling.probability": 1}, 1.0),
        *(
            (state, {}, None)
            for state in ("", "ot=", "ot=th:", "ot=th:g", "ot=th:-1", "ot=th:012345678901234", "xot=th:8", "ot:th=8")
        ),
        *(("", {"sampling.probability": one}, None) for one in (0, -1, 1.5, True, "0.1", 10**400)),
    ],
)  # fmt: skip
def test_the_probability_of_a_sender_is_read_and_never_guessed(state, attributes, probability):
    found = probability_of(state, attributes)
    assert found == (None if probability is None else pytest.approx(probability))


def test_a_case_has_the_probability_in_json_and_in_protobuf(tmp_path):
    request = trace(7, "it is sent", state="ot=th:c")
    (tmp_path / "a.json").write_text(json.dumps(request))
    (tmp_path / "a.pb").write_bytes(to_protobuf(request))
    for name in ("a.json", "a.pb"):
        (context,) = assay.read_traces(tmp_path / name)
        assert context["output"]["metadata"]["trace"]["sampling_probability"] == 0.25
