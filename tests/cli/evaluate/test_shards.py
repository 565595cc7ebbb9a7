"""`assay evaluate --shard I/N` and `assay merge`: together they are one run over the whole input."""

import csv
import json
import re

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]
import pytest

CHECKS = [
    {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["Paris"]}},
    {"type": "graded", "arguments": {"text": "$.output.value"}},
]
GRADED = '''
import assay
from assay import Answer


class Graded(assay.Checker):
    """A score with a declared range; it fails on one text."""

    type = "graded"
    results_schema = {
        "type": "object",
        "properties": {"score": {"type": "number", "minimum": 0, "maximum": 10}},
    }
    text: str

    def run(self, services) -> Answer:
        if self.text == "odd":
            raise ValueError("odd")
        return {"score": len(self.text) / 3}
'''
TEXTS = ["It is Paris.", "It is Lyon.", "Paris", ""]


def context(at, value, **metadata):
    return {
        "test_case": {"id": f"case-{at}", "input": f"question {at}", "tags": ["x" if at % 3 else "y"]},
        "output": {"value": value, "metadata": metadata},
    }


def jsonl(folder, rows):
    lines = [json.dumps(row) if isinstance(row, dict) else row for row in rows]
    (folder / "in.jsonl").write_text("\n".join(lines) + "\n")
    return ["--contexts", "in.jsonl"]


def contexts(folder):
    return jsonl(folder, [context(at, TEXTS[at % 4]) for at in range(60)])


def trials(folder):
    """The trials of a case may stand in several shards."""
    return jsonl(folder, [context(at % 7, TEXTS[at % 4], trial=at // 7 + 1) for at in range(28)])


def errors_and_bad_lines(folder):
    rows = [context(at, "odd" if at % 5 == 0 else TEXTS[at % 4]) for at in range(40)]
    return [
        *jsonl(folder, ["no json", *rows[:20], "", "{}", *rows[20:]]),
        "--skip-bad-lines",
        "--allow-errors",
    ]


def numbered_rows(folder):
    """Rows without ids are numbered as in the whole file, blank lines aside."""
    rows = [{"question": f"q {at}", "answer": TEXTS[at % 4], "tags": "x"} for at in range(30)]
    return jsonl(folder, [*rows[:3], "", "", *rows[3:]])


def parquet(folder):
    rows = [{"question": f"q {at}", "answer": TEXTS[at % 4], "tags": "x", "score": at} for at in range(50)]
    table = pyarrow.Table.from_pylist(rows)
    pyarrow.parquet.write_table(table, folder / "in.parquet", row_group_size=7)
    return ["--contexts", "in.parquet"]


def few(folder):
    """Some shards have no case."""
    return jsonl(folder, [context(1, "Paris")])


INPUTS = [contexts, trials, errors_and_bad_lines, numbered_rows, parquet, few]
VARYING = re.compile(rb'"(evaluated_at|execution_time_ms)":("[^"]*"|[0-9.e-]+)')


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "checks.json").write_text(json.dumps(CHECKS))
    (tmp_path / "graded.py").write_text(GRADED)
    return tmp_path


OPTIONS = ["--checks", "checks.json", "--check-module", "graded:Graded"]


def run_shards(command, folder, arguments, count):
    for number in range(1, count + 1):
        done = command(
            "evaluate", *arguments, *OPTIONS, "--shard", f"{number}/{count}", "-o", f"part-{number}.jsonl", folder=folder
        )  # fmt: skip
        assert done.code in (0, 1), done.err
    return [f"part-{number}.jsonl" for number in range(count, 0, -1)]


def rows_of(path):
    with path.open(newline="") as file:
        return [{**row, "check_ms": ""} for row in csv.DictReader(file)]


@pytest.mark.parametrize("source", INPUTS)
def test_merged_shards_are_the_run_of_the_whole_input(command, folder, source):
    arguments = source(folder)
    parts = run_shards(command, folder, arguments, 3)
    decide = ["--by", "tag", "--min-pass-rate", "contains=0.4", "--json"]
    allow = ["--allow-errors"] if "--allow-errors" in arguments else []
    merged = command(
        "merge", *parts, "-o", "merged.jsonl", "-o", "merged.csv", *decide, *allow, folder=folder
    )
    whole = command(
        "evaluate", *arguments, *OPTIONS, "-o", "whole.jsonl", "-o", "whole.csv", *decide, folder=folder
    )  # fmt: skip
    assert merged.code == whole.code
    found, expected = json.loads(merged.out), json.loads(whole.out)
    for document in (found, expected):
        for name in ("evaluation_id", "seconds", "outputs"):
            del document[name]
    assert found == expected
    one, other = (VARYING.sub(b"", (folder / f"{name}.jsonl").read_bytes()) for name in ("merged", "whole"))
    assert one == other
    assert rows_of(folder / "merged.csv") == rows_of(folder / "whole.csv")


def test_a_killed_shard_is_continued_and_only_a_finished_part_is_merged(command, folder):
    arguments = contexts(folder)
    parts = run_shards(command, folder, arguments, 2)
    whole = (folder / "part-1.jsonl").read_bytes()
    (folder / "part-1.jsonl").write_bytes(
        whole[: len(whole) // 2]
    )  # as after a kill: an incomplete line at the end
    (folder / "part-1.jsonl.manifest.json").unlink()
    unfinished = command("merge", *parts, "-o", "merged.jsonl", folder=folder)
    assert unfinished.code == 2
    assert "part-1.jsonl: expected a finished part" in unfinished.err
    resumed = command(
        "evaluate", *arguments, *OPTIONS, "--shard", "1/2", "-o", "part-1.jsonl", "--resume", folder=folder
    )
    assert "already has" in resumed.err
    assert VARYING.sub(b"", (folder / "part-1.jsonl").read_bytes()) == VARYING.sub(b"", whole)
    assert command("merge", *parts, "-o", "merged.jsonl", folder=folder).code == 0


def test_parts_that_are_not_of_one_run_are_refused(command, folder):
    arguments = contexts(folder)
    parts = run_shards(command, folder, arguments, 2)
    (folder / "other.json").write_text(json.dumps(CHECKS[:1]))
    other = [
        "evaluate",
        "--contexts",
        "in.jsonl",
        "--checks",
        "other.json",
        "--shard",
        "2/2",
        "-o",
        "checks.jsonl",
    ]
    assert command(*other, folder=folder).code == 0
    for names, message in [
        (["part-1.jsonl"], "expected the results of 2 shards, got 1; there is none of 2/2"),
        ([*parts, "part-1.jsonl"], "got shard 1 again"),
        (["part-1.jsonl", "checks.jsonl"], "checks.jsonl: expected the checks and options of part-1.jsonl"),
        (["in.jsonl"], "in.jsonl: expected a finished part"),
        ([*parts, "-o", "part-1.jsonl"], "expected another file than the parts"),
    ]:
        refused = command("merge", *names, folder=folder)
        assert refused.code == 2, refused.out
        assert message in refused.err
    with (folder / "in.jsonl").open("a") as file:
        file.write(json.dumps(context(99, "Paris")) + "\n")
    changed = [*arguments, *OPTIONS, "--shard", "2/2", "-o", "part-2.jsonl"]
    assert command("evaluate", *changed, folder=folder).code == 0
    refused = command("merge", *parts, folder=folder)
    assert refused.code == 2
    assert "expected the inputs of part-2.jsonl" in refused.err


def test_an_id_with_two_inputs_in_two_shards_is_refused(command, folder):
    rows = [context(at, "Paris") for at in range(10)]
    rows[9]["test_case"]["id"] = "case-0"
    parts = run_shards(command, folder, jsonl(folder, rows), 2)
    refused = command("merge", *parts, "-o", "merged.jsonl", folder=folder)
    assert refused.code != 0
    assert (
        "already the id of a test case with another input: part-2.jsonl:5 and part-1.jsonl:1" in refused.err
    )


REFUSED = [
    (["--shard", "0/2"], "--shard: expected I/N"),
    (["--shard", "3/2"], "--shard: expected I/N"),
    (["--shard", "x"], "--shard: expected I/N"),
    (["--shard", "1/2"], "expected one .jsonl file that -o names, got none"),
    (["--shard", "1/2", "-o", "a.csv"], "expected one .jsonl file that -o names, got a.csv"),
    (["--shard", "1/2", "-o", "a.jsonl", "--limit", "3"], "--shard and --limit: expected one of them"),
    (["--shard", "1/2", "-o", "a.jsonl", "--min-pass-rate", "0.5"], "--shard and --min-pass-rate"),
    (["--shard", "1/2", "-o", "a.jsonl", "--save"], "--shard and --save"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_a_shard_refuses(command, folder, options, message):
    refused = command("evaluate", *contexts(folder), *OPTIONS, *options, folder=folder)
    assert refused.code == 2
    assert message in refused.err


def test_a_shard_refuses_other_files(command, folder):
    (folder / "in.csv").write_text("question,answer\nq,a\n")
    refused = command("evaluate", "in.csv", *OPTIONS, "--shard", "1/2", "-o", "a.jsonl", folder=folder)
    assert refused.code == 2
    assert (
        "--shard: expected a .jsonl or .parquet file of cases with their outputs, got in.csv" in refused.err
    )
