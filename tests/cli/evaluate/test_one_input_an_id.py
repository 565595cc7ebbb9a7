"""Another input under the id of an earlier case stops a stream there (FEP-53), on every way in."""

import gzip
import json
from importlib import import_module

import pytest

CHECKS = [{"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "yes"}}]
ROWS = [("a", "one"), ("b", "two"), ("a", "one"), ("c", "three"), ("b", "TWO"), ("d", "four")]
CASES = [{"id": id, "input": value} for id, value in ROWS]
OUTPUT = {"value": "yes"}
CONTEXTS = [{"test_case": case, "output": OUTPUT} for case in CASES]
AGENT = "import sys\ndef answer(question):\n    return 'yes'\n"


def lines(documents):
    return "".join(json.dumps(one) + "\n" for one in documents)


def csv_rows(rows):
    return "id,input,output\n" + "".join(f"{id},{value},yes\n" for id, value in rows)


def parquet(path):
    arrow, tables = import_module("pyarrow"), import_module("pyarrow.parquet")  # slow to import
    columns = {
        "id": [id for id, _ in ROWS],
        "input": [value for _, value in ROWS],
        "output": ["yes"] * len(ROWS),
    }
    tables.write_table(arrow.table(columns), path)


FILES = {
    "c.jsonl": lines(CONTEXTS),
    "blank.jsonl": "\n".join(json.dumps(one) + "\n" for one in CONTEXTS),
    "c.csv": csv_rows(ROWS),
    "c.json": json.dumps(CONTEXTS),
    "c.yaml": json.dumps(CONTEXTS),
    "cases.jsonl": lines(CASES),
    "outputs.jsonl": lines([OUTPUT] * len(CASES)),
    "checks.json": json.dumps(CHECKS),
    "agent.py": AGENT,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one_input")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(FILES["c.jsonl"].encode()))
    return folder


def results(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("options", "second", "first"),
    [
        (["--contexts", "c.jsonl"], "c.jsonl:5", "c.jsonl:2"),
        (["--contexts", "c.jsonl", "--jobs", "2"], "c.jsonl:5", "c.jsonl:2"),
        (["--contexts", "blank.jsonl"], "blank.jsonl:9", "blank.jsonl:3"),
        (["--contexts", "blank.jsonl", "--jobs", "2"], "blank.jsonl:9", "blank.jsonl:3"),
        (["--contexts", "c.jsonl.gz"], "c.jsonl.gz:5", "c.jsonl.gz:2"),
        (["--contexts", "c.csv"], "c.csv:6", "c.csv:3"),
        (["--contexts", "c.parquet"], "c.parquet:5", "c.parquet:2"),
        (["--contexts", "c.json"], "c.json[4]", "c.json[1]"),
        (["--contexts", "c.yaml"], "c.yaml[4]", "c.yaml[1]"),
        (["--contexts", "-"], "-:5", "-:2"),
        (["--cases", "cases.jsonl", "--outputs", "outputs.jsonl"], "cases.jsonl:5 with outputs.jsonl:5", "cases.jsonl:2"),
        (["--cases", "cases.jsonl", "--agent", "agent:answer"], "cases.jsonl:5", "cases.jsonl:2"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_a_stream_stops_at_the_second_line_and_names_both(command, folder, options, second, first):
    if "c.parquet" in options:
        parquet(folder / "c.parquet")
    stdin = FILES["c.jsonl"].encode() if "-" in options else b""
    ended = command(
        "evaluate", *options, "--checks", "checks.json", "-o", "r.jsonl", folder=folder, stdin=stdin
    )
    assert ended.code == 1
    assert (
        f"{second}: test_case.id: 'b' is already the id of a test case with another input: {first}"
        in ended.err
    )
    kept = [one["execution_context"]["test_case"]["id"] for one in results(folder / "r.jsonl")]
    assert kept == ["a", "b", "a", "c"]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_such_a_line_can_be_skipped_and_is_counted(command, folder, jobs):
    ended = command(
        "evaluate", "--contexts", "c.jsonl", "--checks", "checks.json", "-o", "r.jsonl", "--jobs", jobs, "--skip-bad-lines",
        folder=folder,
    )  # fmt: skip
    assert (ended.code, len(results(folder / "r.jsonl"))) == (1, 5)
    assert "skipped c.jsonl:5: test_case.id: 'b'" in ended.err
    assert "1 line skipped and not measured" in ended.err


def large(count, repeats):
    rows = [(f"c{at:06}", f"question {at}") for at in range(count)]
    return lines({"test_case": {"id": id, "input": value}, "output": OUTPUT} for id, value in rows + repeats)


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(
    ("repeats", "results_kept", "words"),
    [
        ([("c000007", "question 7"), ("c000001", "question 1")], 3_002, ""),
        (
            [("c000007", "question 7"), ("c000009", "other")],
            3_001,
            "large.jsonl:3002: test_case.id: 'c000009'",
        ),
    ],
)
def test_a_repeat_far_behind_its_case_is_found_with_one_process_and_with_two(
    command, tmp_path, jobs, repeats, results_kept, words
):
    (tmp_path / "checks.json").write_text(json.dumps(CHECKS))
    (tmp_path / "large.jsonl").write_text(large(3_000, repeats))
    ended = command(
        "evaluate",
        "--contexts",
        "large.jsonl",
        "--checks",
        "checks.json",
        "-o",
        "r.jsonl",
        "--jobs",
        jobs,
        folder=tmp_path,
    )
    assert ended.code == bool(words)
    assert words in ended.err
    assert (": large.jsonl:10" in ended.err) is bool(words)
    assert len(results(tmp_path / "r.jsonl")) == results_kept


def test_a_resumed_run_knows_the_ids_of_the_results_it_has(command, folder):
    options = "evaluate", "--contexts", "c.jsonl", "--checks", "checks.json", "-o", "r.jsonl"
    assert command(*options, folder=folder).code == 1
    kept = (folder / "r.jsonl").read_text().splitlines(keepends=True)
    (folder / "r.jsonl").write_text("".join(kept[:2]))
    ended = command(*options, "--resume", folder=folder)
    assert (
        "c.jsonl:5: test_case.id: 'b' is already the id of a test case with another input: c.jsonl:2"
        in ended.err
    )
    assert len(results(folder / "r.jsonl")) == 4


WAITING = """
import asyncio, assay
class Slow(assay.Checker):
    type = "slow"
    at: int
    async def run(self, services):
        await asyncio.sleep(0 if self.at else 0.5)
        return {"passed": True}
"""


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(
    "bad", ["no", json.dumps({"test_case": {"id": "c3", "input": -1}, "output": OUTPUT})]
)
def test_results_before_a_bad_line_are_kept_while_checks_wait(command, tmp_path, jobs, bad):
    """The first case is the last to end; the line is read long before."""
    (tmp_path / "slow.py").write_text(WAITING)
    (tmp_path / "checks.json").write_text('[{"type": "slow", "arguments": {"at": "$.test_case.input"}}]')
    contexts = [{"test_case": {"id": f"c{at}", "input": at}, "output": OUTPUT} for at in range(12)]
    (tmp_path / "c.jsonl").write_text(lines(contexts) + bad + "\n" + lines(contexts))
    ended = command(
        "evaluate", "--contexts", "c.jsonl", "--checks", "checks.json", "--check-module", "slow:Slow", "-o", "r.jsonl",
        "--jobs", jobs, folder=tmp_path,
    )  # fmt: skip
    assert ended.code == 1
    assert "c.jsonl:13:" in ended.err
    assert [one["execution_context"]["test_case"]["input"] for one in results(tmp_path / "r.jsonl")] == list(
        range(12)
    )
    assert "stopped after 12 cases" in ended.err
