"""`assay compare`: files of assay and of others, stored runs, and what is refused."""

import gzip
import json
from contextlib import asynccontextmanager

import msgspec
import pytest

from assay.api.sources import promoted_run
from assay.backends.stores.open import open_store
from assay.comparison.case_reasons import CaseReasons
from assay.comparison.metric import read_metric
from assay.comparison.result_files import lines_in
from assay.comparison.run_scores import ReadOptions, RunScores
from assay.errors import UsageError
from assay.fep.outputs.sinks import sink_for
from assay.ports import CreateRun, Limits, PutDocument, RunUpdate, Transaction
from assay.promotion.records import AgentRecords, VersionRecord, encode
from assay.protocol.results import EvaluationSummary
from assay.results.run_end import RunFooter
from assay.results.slices import read_dimension
from support.commands.result_lines import check_result, result_line, run_document, write_jsonl

pytestmark = pytest.mark.anyio
COUNTS = EvaluationSummary(
    total_test_cases=0, completed_test_cases=0, error_test_cases=0, skipped_test_cases=0
)
FOOTER = RunFooter("eval_1", None, None, "completed", COUNTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with results before and after a change, in every form."""
    path = tmp_path_factory.mktemp("compare")
    before = [result_line(f"c{at}", check_result(at > 4, got="no\x1b[31m")) for at in range(40)]
    after = [result_line(f"c{at}", check_result(at != 9, got="later")) for at in range(40)]
    write_jsonl(path / "before.jsonl", before)
    write_jsonl(path / "after.jsonl", after)
    (path / "pretty.json").write_text(json.dumps(run_document(after), indent=1), "utf-8")
    (path / "list.json").write_text(json.dumps(after), "utf-8")
    document = run_document(after)
    lines = ",\n".join(json.dumps(line) for line in document.pop("results"))
    (path / "ours.json").write_text(f'{{"results":[\n{lines}\n],{json.dumps(document)[1:]}\n', "utf-8")
    (path / "cut.json").write_text(f'{{"results":[\n{lines},\n', "utf-8")
    (path / "after.jsonl.gz").write_bytes(gzip.compress((path / "after.jsonl").read_bytes()))
    tasks = [{"taskId": f"c{at}", "score": float(at > 4), "passed": at > 4} for at in range(40)]
    card = {"suiteId": "local.a.evals.b", "suiteVersion": "1.0.0", "aggregateScore": 0.875, "passed": True}
    card |= {"taskCount": 40, "passedCount": 35, "tasks": tasks}
    (path / "card.json").write_text(json.dumps(card), "utf-8")
    (path / "contexts.jsonl").write_text('{"test_case":{"id":"x"},"output":{"value":1}}\n', "utf-8")
    (path / "empty.jsonl").write_text("", "utf-8")
    (path / "empty.csv").write_text("", "utf-8")
    (path / "other.csv").write_text("id,answer\n1,yes\n", "utf-8")
    with (path / "after.jsonl").open("rb") as lines_after:
        table = sink_for(str(path / "after.csv"))
        for line in lines_after:
            table.write(line)
        table.close(FOOTER)
    (path / "checks.yaml").write_text(
        "- {type: contains, arguments: {text: $.output.value, phrases: [y]}}", "utf-8"
    )
    pairs = [{"test_case": {"id": f"c{at}", "input": "?"}, "output": {"value": "y"}} for at in range(40)]
    write_jsonl(path / "pairs.jsonl", pairs)
    return path


ODD = msgspec.json.encode(
    {
        "status": "error",
        "execution_context": {
            "test_case": {
                "id": "=1+1", "input": {"q": [1, "ä,\"\n"]}, "expected": "", "metadata": {"tags": ["a", "b"]}
            },
            "output": {"value": "-x", "metadata": {"trial": 1, "latency_ms": 2.5}},
        },
        "check_results": [
            {
                "check_type": "threshold", "status": "error", "results": {}, "metadata": {"check_name": "lat"},
                "error": {"type": "jsonpath_error", "message": "no number"},
            },
            {
                "check_type": "canary", "status": "completed",
                "results": {"passed": False, "kind": "leak", "severity": "high", "reason": "failed"},
            },
        ],
    }
)  # fmt: skip
FIRST = "87.5% → 97.5% (+10.0 points, 95% −2.6…24.2, 40 cases) not enough data"


@pytest.mark.parametrize(
    "after", ["after.jsonl", "pretty.json", "list.json", "ours.json", "after.jsonl.gz", "after.csv"]
)
def test_every_form_of_results_gives_the_same_line(command, folder, after):
    done = command("compare", "before.jsonl", after, "--limit", "2", folder=folder)
    assert (done.code, done.err) == (0, "")
    first, counts, *rest = done.out.splitlines()
    assert (first, counts) == (FIRST, "passed: 1 worse, 5 better, 34 unchanged")
    assert rest[:3] == [
        "  worse  1.000 → 0.000  c9",
        "      before  passed",
        "      after   contains: expected a text that contains 'x', got 'later'",
    ]
    assert rest[4] == r"      before  contains: expected a text that contains 'x', got 'no\x1b[31m'"


def test_a_scorecard_is_compared_by_score(command, folder):
    done = command("compare", "card.json", "after.jsonl", "--json", folder=folder)
    document = json.loads(done.out)
    (pair,) = document["comparisons"]
    assert (document["metric"], pair["result"]["before"], pair["result"]["cases"]) == ("score", 0.875, 40)


def test_a_stored_run_against_a_file(command, folder):
    saved = ["--contexts", "pairs.jsonl", "--checks", "checks.yaml", "--save"]
    assert command("evaluate", *saved, folder=folder).code == 0
    done = command("compare", "before.jsonl", "latest", "--limit", "0", folder=folder)
    assert done.out.startswith("87.5% → 100.0% (+12.5 points, 95% 0.0…26.1, 40 cases) not enough data\n"), (
        done.out + done.err
    )


def test_a_csv_of_results_is_read_as_its_jsonl(folder, tmp_path):
    """The ids, inputs, tags, errors and trials of a table are those of the lines it was written from."""
    limits, scores = Limits(), {}
    lines = [*(folder / "before.jsonl").read_bytes().splitlines(), ODD]
    (tmp_path / "odd.jsonl").write_bytes(b"\n".join(lines))
    table = sink_for(str(tmp_path / "odd.csv"))
    for line in lines:
        table.write(line)
    table.close(FOOTER)
    tag = read_dimension("tag")
    for name in ("odd.jsonl", "odd.csv"):
        read = RunScores(name, ReadOptions(read_metric("lat"), (tag,), ("check",)))
        for place, line in lines_in(str(tmp_path / name), limits, read):
            read.add(line, place)
        series = {key: (list(one.rows), str(list(one.values))) for key, one in read.groups.items()}
        scores[name] = [
            [read.id_of(row) for row in range(read.rows)], list(read.inputs), read.slice_sets, series, read.findings
        ]  # fmt: skip
        reasons = CaseReasons(["=1+1"])
        for place, line in lines_in(str(tmp_path / name), limits):
            reasons.add(line, place)
        scores[name].append(reasons.texts())
    assert scores["odd.csv"] == scores["odd.jsonl"]
    assert scores["odd.csv"][-1] == {"=1+1": "lat: no number; canary: failed"}


REFUSED = [
    (["before.jsonl"], 2, "expected two runs or result files"),
    (["before.jsonl", "-"], 2, "-: expected a file or a run"),
    (["before.jsonl", "missing.jsonl"], 2, "missing.jsonl: there is no such file"),
    (
        ["before.jsonl", "other.csv"],
        2,
        "other.csv:2: expected a table of results as `assay evaluate -o` writes it",
    ),
    (["before.jsonl", "empty.csv"], 2, "empty.csv has no results"),
    (["before.jsonl", "results.xlsx"], 2, "expected results in .json, .jsonl, .ndjson, .csv or .parquet"),
    (["before.jsonl", "./results.txt"], 2, "expected results in .json, .jsonl, .ndjson, .csv or .parquet"),
    (["before.jsonl", "nothing-like-this"], 2, "there is no run 'nothing-like-this'"),
    (["before.jsonl", "latest-promoted"], 2, "latest-promoted: "),
    (["before.jsonl", "contexts.jsonl"], 2, "contexts.jsonl:1: expected a result with execution_context"),
    (["before.jsonl", "empty.jsonl"], 2, "empty.jsonl has no results"),
    (["before.jsonl", "after.jsonl", "--margin", "0"], 2, "--margin: expected a number above 0, got 0"),
    (["before.jsonl", "after.jsonl", "--margin", "nan"], 2, "--margin: expected a number above 0, got nan"),
    (["before.jsonl", "after.jsonl", "--margin", "1"], 2, "--margin: expected a number below 1"),
    (["before.jsonl", "after.jsonl", "--metric", "tone"], 2, "no check is called 'tone'"),
    (["before.jsonl", "after.jsonl", "--by", "a:b"], 2, "--by: expected tag"),
    (["before.jsonl", "after.jsonl", "--by", "nope"], 2, "--by nope: no case has a value there; the"),
]


def test_a_wrong_comparison_is_refused_with_its_reason(command, folder):
    results = command.each([["compare", *arguments] for arguments, _, _ in REFUSED], folder=folder)
    for (_, code, message), done in zip(REFUSED, results, strict=True):
        assert (done.code, done.out) == (code, "")
        assert message in done.err


def test_a_file_that_ends_before_its_results_do_is_noted(command, folder):
    done = command("compare", "before.jsonl", "cut.json", "--limit", "0", folder=folder)
    assert (done.code, "note: cut.json is not complete: the file ends before its results do" in done.out) == (
        0,
        True,
    )


def test_an_evaluation_beside_a_baseline(command, folder):
    scored = ["evaluate", "--contexts", "pairs.jsonl", "--checks", "checks.yaml", "--baseline"]
    done = command(*scored, "before.jsonl", folder=folder)
    assert (
        "against before.jsonl: 87.5% → 100.0% (+12.5 points, 95% 0.0…26.1, 40 cases) not enough data\n"
        in done.out
    )
    assert "passed: 0 worse, 5 better, 35 unchanged\n" in done.out
    assert "both reasons: add --save or -o FILE.jsonl to list them\n" in done.out
    written = command(*scored, "before.jsonl", "-o", "its own.jsonl", folder=folder)
    assert "both reasons: assay compare before.jsonl 'its own.jsonl'\n" in written.out
    document = json.loads(command(*scored, "before.jsonl", "--json", folder=folder).out)
    assert document["baseline"]["comparisons"][0]["result"]["verdict"] == "not enough data"
    refused = command(*scored, "missing.jsonl", folder=folder)
    assert (refused.code, refused.out) == (2, "")


@asynccontextmanager
async def closing_store(store):
    try:
        yield store
    finally:
        await store.close()


async def test_the_latest_promoted_run_is_that_of_an_active_version(tmp_path):
    async with closing_store(await open_store(f"sqlite:///{tmp_path}/assay.db")) as store:
        with pytest.raises(UsageError, match="latest-promoted: no version"):
            await promoted_run(store, "local")
        for run in ("run-1", "run-2", "run-3"):
            opens = CreateRun(tenant="local", kind="eval")
            await store.commit(Transaction(entries=[RunUpdate(run=run, opens=opens)]))
        for key, state, run in (("a", "active", "run-2"), ("b", "active", "run-1"), ("c", "test", "run-3")):
            records = AgentRecords(agent_id=key, versions={"1.0.0": VersionRecord(state=state, eval_run=run)})
            document = PutDocument(tenant="local", kind="deployment", key=key, data=encode(records))
            await store.commit(Transaction(documents=[document]))
        assert (await promoted_run(store, "local")).id == "run-2"
        with pytest.raises(UsageError):
            await promoted_run(store, "other")


def test_a_percentile_has_no_line_about_power(command, folder):
    for name, factor in (("slow", 1), ("slower", 1.01)):
        lines = [result_line(f"c{at}", True, output={"latency_ms": factor * (at % 7)}) for at in range(30)]
        write_jsonl(folder / f"{name}.jsonl", lines)
    line = ["compare", "slow.jsonl", "slower.jsonl", "--metric", "latency_ms:p95", "--limit", "0"]
    done = command(*line, folder=folder)
    assert (done.code, done.err) == (0, "")
    assert "latency_ms:p95 (lower is better): 25 worse" in done.out
    assert "can show" not in done.out
    assert "cannot" not in done.out
