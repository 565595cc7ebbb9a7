"""The parts of a run on a cluster, without a cluster: together they are the whole input, and a finished one stays."""

import json
from types import SimpleNamespace

import distributed  # pyright: ignore[reportMissingTypeStubs]
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]
import pytest
from fsspec.spec import AbstractBufferedFile  # pyright: ignore[reportMissingTypeStubs]

from assay import batch
from assay.batch import cluster_run
from assay.batch.cluster_run import ClusterRun
from assay.batch.cluster_tasks import score_part
from assay.batch.dataset_parts import DatasetPart, batches_of, plan_parts
from assay.errors import UsageError
from assay.settings import load

ROWS = [
    {"id": f"case-{at}", "question": f"q {at}", "answer": "Paris" if at % 3 else "Lyon", "tags": "x"}
    for at in range(97)
]
CHECKS = [{"contains": "Paris"}]


def lines(folder):
    for number, rows in enumerate((ROWS[:60], ROWS[60:])):
        text = "\n\n".join(json.dumps(row) for row in rows)  # blank lines are no cases
        (folder / f"in-{number}.jsonl").write_text(text + "\n" * number)
    return "in-*.jsonl"


def contexts(folder):
    rows = [
        {
            "test_case": {"id": row["id"], "input": row["question"], "tags": ["x"]},
            "output": {"value": row["answer"]},
        }
        for row in ROWS
    ]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "in.jsonl"


def parquet(folder):
    table = pyarrow.Table.from_pylist(ROWS)
    pyarrow.parquet.write_table(table, folder / "in.parquet", row_group_size=9)
    return "in.parquet"


class Run:
    """A run in a folder, part by part in this process."""

    def __init__(self, folder, source, part_bytes, checks=CHECKS, **options):
        self.address, self.output = str(folder / source), str(folder / "results")
        self.parts = plan_parts(self.address, part_bytes)
        self.score = batch.scorer(checks, by="tag", **options)
        self.run = ClusterRun(self.score, self.parts, self.address, self.output)

    def prepare(self):
        self.run.prepare(resume=False)
        return self

    def done(self, parts=None, fingerprint="f"):
        return [
            score_part(self.score, part, self.address, self.output, fingerprint)
            for part in parts or self.parts
        ]


@pytest.mark.parametrize("part_bytes", [300, 4_000, 1 << 30])
@pytest.mark.parametrize("source", [lines, contexts, parquet])
def test_every_row_is_in_one_part(tmp_path, source, part_bytes):
    run = Run(tmp_path, source(tmp_path), part_bytes)
    run.run.prepare(resume=False)
    done = run.done()
    assert not [one.refusal for one in done if one.refusal]
    total = batch.summarize(one.summary for one in done if one.summary.results)
    whole = batch.summarize([run.score(pyarrow.Table.from_pylist(ROWS))])
    assert total.statistics == whole.statistics
    assert (total.slices, total.failing, total.checks) == (whole.slices, whole.failing, whole.checks)
    written = pyarrow.parquet.read_table(run.output, schema=run.score.schema)
    assert sorted(written["id"].to_pylist()) == sorted(row["id"] for row in ROWS)


def test_lines_of_a_file_that_is_read_by_ranges(tmp_path):
    """As of S3: `readline` of such a file takes no limit."""
    lines(tmp_path)
    content = (tmp_path / "in-0.jsonl").read_bytes()

    class Ranges(AbstractBufferedFile):
        def _fetch_range(self, start, end):
            return content[start:end]

    class Store:
        def open(self, path, mode):
            return Ranges(self, path, mode, size=len(content))

        def size(self, path):
            return len(content)

    parts = [
        DatasetPart(1, "in.jsonl", len(content), start, start + 700) for start in range(0, len(content), 700)
    ]
    read = [row for part in parts for rows in batches_of(Store(), part, load().limits) for row in rows]
    assert read == ROWS[:60]


def test_a_finished_part_is_taken_and_an_unfinished_one_is_scored_again(tmp_path):
    run = Run(tmp_path, contexts(tmp_path), 2_000)
    run.run.prepare(resume=False)
    run.done(run.parts[:3])
    (tmp_path / "results/_finished/part-000002.json").unlink()
    again = run.done()
    assert [one.earlier for one in again] == [one.number in (1, 3) for one in run.parts]
    assert batch.summarize(one.summary for one in again).results == len(ROWS)
    with pytest.raises(UsageError, match="expected a new or empty folder"):
        run.run.prepare(resume=False)
    with pytest.raises(UsageError, match="expected the results of these checks and inputs, got others"):
        run.run.prepare(resume=True)  # of another fingerprint


def test_a_line_that_is_no_case_ends_the_run_or_is_counted(tmp_path):
    name = contexts(tmp_path)
    with (tmp_path / name).open("a") as file:
        file.write("no json\n")
    (refused,) = Run(tmp_path, name, 1 << 30).prepare().done()
    assert "in.jsonl" in refused.refusal
    assert "not JSON" in refused.refusal
    assert not (tmp_path / "results/part-000001.parquet").exists()  # a part that failed leaves no rows
    (counted,) = Run(tmp_path, name, 1 << 30, skip_bad_rows=True).prepare().done()
    assert (counted.summary.results, counted.summary.bad_rows) == (len(ROWS), 1)


def test_a_file_that_changed_since_the_plan_is_refused(tmp_path):
    run = Run(tmp_path, contexts(tmp_path), 1 << 30).prepare()
    with (tmp_path / "in.jsonl").open("a") as file:
        file.write("{}\n")
    assert "got one of another size" in run.done()[0].refusal


PASSED = {"type": "object", "properties": {"passed": {"type": "boolean"}}, "required": ["passed"]}
JUDGE = {
    "type": "llm_judge",
    "arguments": {
        "prompt": "Is it good? {{$.output.value}}",
        "provider_config": {"base_url": "http://127.0.0.1:9/v1", "api_key": "k"},
        "model_config": {"model": "m"},
        "response_format": PASSED,
    },
}


@pytest.mark.parametrize(("check", "ahead"), [(JUDGE, 2), (CHECKS[0], 4 * 2)])
def test_no_more_parts_ahead_than_judges_have_shares(tmp_path, monkeypatch, check, ahead):
    """So a worker that joins later asks no judge beside those that have the whole limit."""
    run = Run(tmp_path, contexts(tmp_path), 500, [check], tasks=2).prepare()
    done = {one.part.number: one for one in Run(tmp_path, "in.jsonl", 500).done()}  # without a judge
    monkeypatch.setattr(cluster_run, "score_part", lambda _, part, *__: done[part.number])
    submitted, before = [], []

    class Ended(distributed.as_completed):
        def __iter__(self):
            before.append(len(submitted))
            return super().__iter__()

    def submit(*given, **options):
        submitted.append(client.submit(*given, **options))
        return submitted[-1]

    monkeypatch.setattr(distributed, "as_completed", Ended)
    with distributed.Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None
    ) as client:
        run.run.execute(SimpleNamespace(nthreads=client.nthreads, loop=client.loop, submit=submit))
    assert before == [ahead]
    assert len(submitted) == len(run.parts)
    assert not run.run.set_aside


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.jsonl", "there is no such file"),
        ("no-*.jsonl", "expected files with cases, got 0 files"),
        ("in.csv", "expected files that end in .parquet, .jsonl, .ndjson"),
        ("vibes://bucket/in.jsonl", "expected an address that fsspec opens"),
    ],
)
def test_inputs_that_are_refused(tmp_path, name, message):
    (tmp_path / "in.csv").write_text("a,b\n")
    with pytest.raises(UsageError, match=message):
        plan_parts(name if "://" in name else str(tmp_path / name))


REFUSED = [
    (["--cluster", "spark"], "--cluster: expected dask, got spark"),
    (["--scheduler", "tcp://127.0.0.1:1"], "--cluster: expected dask, got none"),
    (["--cluster", "dask"], "expected one folder of results in -o, got none"),
    (["--cluster", "dask", "-o", "out", "--max-cost", "1"], "--cluster and --max-cost: expected one of them"),
    (
        ["--cluster", "dask", "-o", "out", "--batch"],
        "--cluster and --batch: expected one of them, got both; a batch of judges is submitted by one process",
    ),
    (["--cluster", "dask", "-o", "out", "--shard", "1/2"], "--cluster and --shard: expected one of them"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_the_command_refuses(command, tmp_path, options, message):
    (tmp_path / "checks.json").write_text(json.dumps(CHECKS))
    arguments = ["--contexts", contexts(tmp_path), "--checks", "checks.json"]
    refused = command("evaluate", *arguments, *options, folder=tmp_path)
    assert refused.code == 2
    assert message in refused.err
