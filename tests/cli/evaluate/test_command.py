"""The command as its user meets it: inputs, outputs, messages and the exit code."""

import csv
import gzip
import json
import os
import pty
import re
import select
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay import EvaluationRunResult, TestCaseResult, __version__
from assay.cli.console.console import ProgressLine
from assay.cli.console.help import HELP
from assay.cli.main import SECTIONS
from assay.protocol.schemas import NOUNS
from support.commands.command import run_on_terminal, unwrap

MATCH = {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}
LOOSE = {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["x"]}}
ABSENT = {"type": "exact_match", "arguments": {"actual": "$.output.no", "expected": "x"}}
VALUES = ["x", "x", "xx", "no"]  # what the outputs say; "x" is expected

CASES = [{"id": f"case-{at}", "input": "q", "expected": "x"} for at in range(len(VALUES))]
OUTPUTS = [{"value": value} for value in VALUES]
PAIRS = [{"test_case": case, "output": output} for case, output in zip(CASES, OUTPUTS, strict=True)]


def lines(documents: list[Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in documents)


def numbered(pairs: list[Any]) -> list[Any]:
    """With ids of their own, so that they are different cases."""
    return [{**pair, "test_case": {**pair["test_case"], "id": f"case-{at}"}} for at, pair in enumerate(pairs)]


def whole(document: Any) -> bytes:
    return json.dumps(document).encode()


def yaml(document: Any) -> bytes:
    return json.dumps(document, indent=1).encode()  # which is YAML


def table(rows: list[Any]) -> bytes:
    return "\n".join(",".join(map(str, row)) for row in rows).encode()


@pytest.fixture
def run(command, tmp_path):
    """The files and checks that most need are there already; the results are in out.jsonl."""
    (tmp_path / "x.jsonl").write_bytes(lines(PAIRS))
    (tmp_path / "checks.json").write_bytes(whole([MATCH]))

    def run(*arguments: str, **files: Any) -> Any:
        stdin = files.pop("stdin", b"")
        for name, data in files.items():
            (tmp_path / name.replace("_", ".")).write_bytes(data)
        return command("evaluate", *arguments, folder=tmp_path, stdin=stdin)

    return run


def results_in(path: Path) -> list[TestCaseResult]:
    return [msgspec.json.decode(line, type=TestCaseResult) for line in path.read_bytes().splitlines()]


@pytest.fixture
def results(tmp_path):
    return lambda name="out.jsonl": results_in(tmp_path / name)


def passed(results: list[TestCaseResult]) -> list[Any]:
    return [check.results.get("passed") for one in results for check in one.check_results]


# in


WAYS_IN = [
    ("--contexts x.jsonl --checks checks.json", {}),
    ("--contexts x.ndjson --checks checks.json", {"x_ndjson": lines(PAIRS)}),
    ("--contexts x.jsonl.gz --checks checks.json", {"x_jsonl_gz": gzip.compress(lines(PAIRS))}),
    ("--contexts x.json --checks checks.json", {"x_json": whole(PAIRS)}),
    ("--contexts x.json.gz --checks checks.json", {"x_json_gz": gzip.compress(whole(PAIRS))}),
    ("--contexts x.yaml --checks checks.json", {"x_yaml": yaml(PAIRS)}),
    ("--contexts x.YML --checks checks.json", {"x_YML": yaml(PAIRS)}),
    ("--contexts x.csv --checks checks.json", {"x_csv": table([["id", "input", "expected", "output"], *([f"case-{at}", "q", "x", value] for at, value in enumerate(VALUES))])}),
    ("--contexts x.csv --checks checks.json", {"x_csv": table([["test_case.id", "test_case.input", "test_case.expected", "output.value"], *([f"case-{at}", "q", "x", value] for at, value in enumerate(VALUES))])}),
    ("--contexts - --checks checks.json", {"stdin": lines(PAIRS)}),
    ("--cases k.jsonl --outputs v.jsonl --checks checks.json", {"k_jsonl": lines(CASES), "v_jsonl": lines(OUTPUTS)}),
    ("--cases k.json --outputs v.yaml --checks checks.json", {"k_json": whole(CASES), "v_yaml": yaml(OUTPUTS)}),
    ("--cases k.csv --outputs v.csv --checks checks.json", {"k_csv": table([["id", "input", "expected"], *([f"case-{at}", "q", "x"] for at in range(4))]), "v_csv": table([["value"], *([value] for value in VALUES)])}),
    ("--cases k.jsonl.gz --outputs - --checks checks.json", {"k_jsonl_gz": gzip.compress(lines(CASES)), "stdin": lines(OUTPUTS)}),
    ("r.json", {"r_json": whole({"test_cases": CASES, "outputs": OUTPUTS, "checks": [MATCH]})}),
    (
        "--cases k.yaml --outputs v.json --checks checks.json",
        {"k_yaml": b"\xef\xbb\xbf" + yaml({"experiment": 1, "test_cases": CASES}), "v_json": b"\xef\xbb\xbf" + whole({"outputs": OUTPUTS})},
    ),
    ("r.yaml", {"r_yaml": yaml({"test_cases": CASES, "outputs": OUTPUTS, "checks": [MATCH]})}),
    ("r.json.gz", {"r_json_gz": gzip.compress(whole({"test_cases": CASES, "outputs": OUTPUTS, "checks": [MATCH]}))}),
    ("-", {"stdin": whole({"test_cases": CASES, "outputs": OUTPUTS, "checks": [MATCH]})}),
    ("r.json --checks checks.json", {"r_json": whole({"test_cases": CASES, "outputs": OUTPUTS})}),
    ("r.json", {"r_json": whole({"test_cases": CASES, "outputs": OUTPUTS, "checks": [[MATCH]] * 4})}),
    ("r.json", {"r_json": whole({"test_cases": [{**case, "checks": [MATCH]} for case in CASES], "outputs": OUTPUTS})}),
    ("--contexts x.jsonl", {"x_jsonl": lines([{**pair, "test_case": {**pair["test_case"], "checks": [MATCH]}} for pair in PAIRS])}),
    ("--contexts x.jsonl --checks checks.yaml", {"checks_yaml": yaml({"checks": [MATCH]})}),
    ("--contexts x.jsonl --checks checks.jsonl", {"checks_jsonl": lines([MATCH])}),
    ("--contexts x.jsonl --checks -", {"stdin": whole([MATCH])}),
    ("--contexts x.jsonl --checks -", {"stdin": b"- type: exact_match\n  arguments: {actual: $.output.value, expected: x}"}),
]  # fmt: skip


def test_every_way_in_gives_the_same(command, tmp_path):
    jobs = []
    for number, (arguments, files) in enumerate(WAYS_IN):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, data in {"x_jsonl": lines(PAIRS), "checks_json": whole([MATCH]), **files}.items():
            (folder / name.replace("_", ".")).write_bytes(data)
        job = {"command": ["evaluate", *arguments.split(), "-o", "out.jsonl"], "folder": str(folder)}
        jobs.append({**job, "stdin": "stdin"} if "stdin" in files else job)
    for job, ended in zip(jobs, command.batch(jobs, folder=tmp_path), strict=True):
        assert (ended.code, ended.messages) == (0, []), job
        found = results_in(Path(job["folder"]) / "out.jsonl")
        assert [one.execution_context.test_case["id"] for one in found] == [case["id"] for case in CASES]
        assert passed(found) == [True, True, False, False]


def test_csv_cells_are_text_members_and_json(run, results):
    rows = 'id,input,tags:json,output.value,output.metadata.tokens:json\na,q,"[1,true]",x,7\nb,q,,x,\n'
    checks = whole([{"type": "exists", "arguments": {"path": "$.test_case.tags[1]"}}])
    assert (
        run(
            "--contexts", "x.csv", "--checks", "c.json", "-o", "out.jsonl", x_csv=rows.encode(), c_json=checks
        ).code
        == 0
    )
    first, second = (one.execution_context for one in results())
    assert first.test_case["tags"] == [1, True]
    assert first.output["metadata"] == {"tokens": 7}
    assert "tags" not in second.test_case  # an empty cell is absent
    assert passed(results()) == [True, False]


# out


def test_all_outputs_at_once_tell_the_same(run, results, tmp_path):
    ended = run(
        "--contexts", "x.jsonl", "--checks", "checks.json",
        "-o", "out.jsonl", "-o", "out.json", "--output", "out.csv", "--experiment", "first",
    )  # fmt: skip
    assert ended.code == 0
    run_result = msgspec.json.decode((tmp_path / "out.json").read_bytes(), type=EvaluationRunResult)
    *first, last = results()
    end = {"planned": len(first) + 1, "results": len(first) + 1, "complete": True}
    assert (last.metadata, run_result.metadata["run"]) == ({"run": end}, end)
    assert run_result.results == [*first, msgspec.structs.replace(last, metadata=msgspec.UNSET)]
    assert run_result.status == "completed"
    assert msgspec.to_builtins(run_result.experiment) == {"name": "first"}
    summary = msgspec.to_builtins(run_result.summary)
    assert summary == {
        "total_test_cases": 4, "completed_test_cases": 4, "error_test_cases": 0, "skipped_test_cases": 0,
        "total_checks": 4, "completed_checks": 4, "error_checks": 0, "skipped_checks": 0,
    }  # fmt: skip
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [(row["test_case_id"], row["check_type"], row["passed"]) for row in rows] == [
        ("case-0", "exact_match", "true"),
        ("case-1", "exact_match", "true"),
        ("case-2", "exact_match", "false"),
        ("case-3", "exact_match", "false"),
    ]
    assert [line for line in ended.out.splitlines() if line.startswith("results in")] == [
        "results in out.jsonl",
        "results in out.json",
        "results in out.csv",
    ]


def test_a_dash_writes_lines_to_standard_output_and_nothing_else(run):
    ended = run("--contexts", "x.jsonl", "--checks", "checks.json", "-o", "-")
    found = [msgspec.json.decode(line, type=TestCaseResult) for line in ended.out.splitlines()]
    assert passed(found) == [True, True, False, False]


@pytest.mark.parametrize(
    ("checks", "options", "code", "messages"),
    [
        ([MATCH], [], 0, []),
        ([MATCH], ["--min-pass-rate", "0.5"], 0, []),
        (
            [MATCH],
            ["--min-pass-rate", "0.6"],
            3,
            ["assay: pass rate 50.0% (15.0–85.0%) over 4 cases, below the bar of 60.0%"],
        ),
        (
            [MATCH, ABSENT],
            [],
            1,
            [
                "assay: not measured: 4 errored of 8 checks",
                "assay:   exact_match #2: 4 errored, the first: actual: $.output.no finds nothing",
            ],
        ),
    ],
    ids=["good", "at the bar", "below the bar", "not measured"],
)
def test_with_a_dash_failures_are_reported_on_standard_error(run, checks, options, code, messages):
    ended = run("--contexts", "x.jsonl", "--checks", "c.json", "-o", "-", *options, c_json=whole(checks))
    assert (ended.code, ended.messages, len(ended.out.splitlines())) == (code, messages, 4)


def test_errors_in_a_csv_have_their_type_and_message(run, tmp_path):
    run("--contexts", "x.jsonl", "--checks", "c.json", "-o", "out.csv", c_json=whole([ABSENT]))
    row = next(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert (row["status"], row["passed"], row["error_type"]) == ("error", "", "jsonpath_error")
    assert row["error_message"] == "actual: $.output.no finds nothing"


# exit codes


EXIT_CODES = [
    ([MATCH], "", 0),  # failing is a measurement
    ([MATCH], "--min-pass-rate 0.5", 0),
    ([MATCH], "--min-pass-rate 0.51", 3),
    ([MATCH, LOOSE], "--min-pass-rate 0.625", 0),  # 5 of 8
    ([MATCH], "--min-pass-rate 0", 0),
    ([MATCH], "--min-pass-rate 1.1", 2),
    ([MATCH], "--min-pass-rate much", 2),
    ([MATCH, ABSENT], "", 1),
    ([MATCH, ABSENT], "--min-pass-rate 0", 1),
    ([MATCH, ABSENT], "--allow-errors", 0),
    ([MATCH, ABSENT], "--allow-errors --min-pass-rate 0.5", 0),  # errors are no failures
    ([MATCH, ABSENT], "--allow-errors --min-pass-rate 0.6", 3),
    ([ABSENT], "--allow-errors", 1),  # nothing at all was measured
    ([MATCH], "--limit 2 --min-pass-rate 1", 0),
    ([MATCH], "--limit 0", 2),
    ([MATCH], "--jobs 0", 2),
    ([MATCH], "--concurrency 0", 2),
    ([MATCH], "--timeout 0", 2),
    ([MATCH], "--nonsense", 2),
    ([], "", 0),
]


def test_exit_codes(command, tmp_path):
    (tmp_path / "x.jsonl").write_bytes(lines(PAIRS))
    commands = []
    for number, (checks, options, _) in enumerate(EXIT_CODES):
        (tmp_path / f"{number}.json").write_bytes(whole(checks))
        commands.append(["evaluate", "--contexts", "x.jsonl", "--checks", f"{number}.json", *options.split()])
    codes = [ended.code for ended in command.each(commands, folder=tmp_path)]
    assert codes == [code for _, _, code in EXIT_CODES]


@pytest.mark.parametrize(
    ("bar", "reason"),
    [
        ("90", "got 90; did you mean 0.9?"),
        ("1.5", "got 1.5; did you mean 0.015?"),
        ("-1", "got -1"),
        ("nan", "got nan"),
    ],
)
def test_a_bar_is_a_fraction(run, bar, reason):
    ended = run("--contexts", "x.jsonl", "--checks", "checks.json", f"--min-pass-rate={bar}")
    assert (ended.code, ended.out) == (2, "")
    assert (
        ended.err == f"assay: --min-pass-rate: expected a fraction between 0 and 1, such as 0.9, {reason}\n"
    )


@pytest.mark.parametrize(
    "verb", [["evaluate", "--contexts", "x.jsonl"], ["run", "suite.yaml", "--agent", "a:b"]]
)
def test_a_deadline_has_an_end(command, tmp_path, verb):
    ended = command(*verb, "--timeout", "inf", folder=tmp_path)
    assert (ended.code, ended.err) == (2, "assay: --timeout: expected a number of seconds, got inf\n")


def test_a_bar_needs_a_check_that_passes_or_fails(run):
    ended = run(
        *("--contexts", "x.jsonl", "--checks", "c.json", "--min-pass-rate", "0.5"),
        *("--check-module", "scores:Score"),
        c_json=whole([{"type": "score", "arguments": {"text": "$.output.value"}}]),
        scores_py=SCORES,
    )
    assert ended.code == 1
    assert ended.messages == [
        "assay: --min-pass-rate: nothing was measured, so there is no pass rate: no check passed or failed"
    ]


# options


def test_resolved_arguments_can_be_left_out(run, results):
    run("--contexts", "x.jsonl", "--checks", "checks.json", "-o", "out.jsonl")
    (seen,) = {
        json.dumps(msgspec.to_builtins(one.check_results[0].resolved_arguments)) for one in results()[:2]
    }
    assert json.loads(seen) == {
        "actual": {"jsonpath": "$.output.value", "value": "x"},
        "expected": {"jsonpath": "$.test_case.expected", "value": "x"},
        "negate": {"value": False},
        "case_sensitive": {"value": True},
    }
    run("--contexts", "x.jsonl", "--checks", "checks.json", "-o", "out.jsonl", "--no-resolved-arguments")
    assert {one.check_results[0].resolved_arguments for one in results()} == {msgspec.UNSET}


def test_timings_adds_the_time_of_each_check(run, results):
    for options, timed in (([], False), (["--timings"], True)):
        run("--contexts", "x.jsonl", "--checks", "checks.json", "-o", "out.jsonl", *options)
        for one in results():
            metadata: Any = one.check_results[0].metadata
            assert metadata["check_version"] == "1.0.0"
            assert ("execution_time_ms" in metadata) is timed


def test_a_limit_takes_the_first(run, results):
    for arguments in (["--contexts", "x.jsonl", "--checks", "checks.json"], ["r.json"]):
        request = whole({"test_cases": CASES, "outputs": OUTPUTS, "checks": [MATCH]})
        run(*arguments, "--limit", "3", "-o", "out.jsonl", r_json=request)
        assert passed(results()) == [True, True, False]


def test_only_the_first_bad_lines_are_listed(run, results):
    ended = run(
        *("--contexts", "x.jsonl", "--checks", "checks.json", "--skip-bad-lines", "-o", "out.jsonl"),
        x_jsonl=b"nope\n" * 25 + lines(PAIRS),
    )
    assert ended.code == 1
    assert len(ended.messages) == 11
    assert ended.messages[-1] == "assay: 25 lines skipped and not measured"
    assert len(results()) == 4


def test_skipped_lines_can_be_allowed(run):
    options = ["--contexts", "x.jsonl", "--checks", "checks.json", "--skip-bad-lines", "--allow-errors"]
    assert run(*options, x_jsonl=b"nope\n" + lines(PAIRS)).code == 0


def test_json_is_the_table_for_a_machine(run):
    ended = run("--contexts", "x.jsonl", "--checks", "checks.json", "--json", "-o", "out.jsonl")
    document = json.loads(ended.out)
    assert document["status"] == "completed"
    assert document["outputs"] == ["out.jsonl"]
    assert document["bad_lines"] == 0
    assert document["evaluation_id"].startswith("eval_")
    assert document["summary"]["total_test_cases"] == 4
    assert document["checks"]["exact_match"]["passed"] == 2
    rate = document["pass_rate"]
    assert (rate["rate"], rate["of"]) == (0.5, 4)
    assert [round(rate[end], 4) for end in ("low", "high")] == [0.15, 0.85]  # Wilson's


def test_json_has_the_error_of_a_run(run):
    ended = run(
        "--contexts", "x.jsonl", "--checks", "checks.json", "--json", x_jsonl=lines(PAIRS) + b"nope\n"
    )
    document = json.loads(ended.out)
    assert ended.code == 1
    assert document["status"] == "error"
    assert document["error"].startswith("x.jsonl:5: not JSON")


@pytest.mark.parametrize(
    ("options", "statuses"),
    [
        ([], ["completed", "error", "completed", "completed"]),
        (["--fail-fast"], ["completed", "error", "skip", "skip"]),
    ],
)
def test_fail_fast_stops_at_the_first_that_errs(run, results, options, statuses):
    pairs = [{**pair, "output": {**pair["output"], "no": 1}} for pair in PAIRS]
    del pairs[1]["output"]["no"]
    ended = run(
        *("--contexts", "x.jsonl", "--checks", "c.json", "-o", "out.jsonl", *options),
        x_jsonl=lines(pairs),
        c_json=whole([ABSENT]),
    )
    assert ended.code == 1
    assert [one.status for one in results()] == statuses


SCORES = b"""
from assay import Checker

class Score(Checker):
    type = "score"
    text: str

    async def run(self, services):
        return {"score": len(self.text) / 2, "mood": "good" if self.text == "x" else "bad"}

class Newer(Score):
    version = "1.2.0"

    def run(self, services):
        return {"passed": True}
"""


def test_checks_of_ones_own(run, results):
    checks = whole([{"type": "score", "arguments": {"text": "$.output.value"}}, MATCH])
    options = ["--check-module", "scores:Score", "--check-module", "scores:Newer"]
    arguments = ["--contexts", "x.jsonl", "--checks", "c.json", "-o", "out.jsonl", *options]
    assert run(*arguments, c_json=checks, scores_py=SCORES).code == 0
    metadata: Any = results()[0].check_results[0].metadata
    assert metadata["check_version"] == "1.2.0"  # the highest
    assert metadata["execution_time_ms"] >= 0  # it may wait


# messages


def table_of(out):
    """The lines before the cases that did not pass."""
    found = re.search(r"^(the first that )?did not pass:$", out, re.MULTILINE)
    return (out[: found.start()] if found else out).splitlines()


def test_the_table_shows_rates_with_their_intervals(run):
    checks = whole([MATCH, LOOSE, ABSENT, {"type": "score", "arguments": {"text": "$.output.value"}}])
    ended = run(
        *("--contexts", "x.jsonl", "--checks", "c.json", "--check-module", "scores:Score"),
        *("--experiment", "first [red]", "--min-pass-rate", "0.7"),
        c_json=checks,
        scores_py=SCORES,
    )
    assert ended.code == 1
    lines = [re.sub(r"\s{2,}", " | ", line.strip()) for line in table_of(ended.out)]
    assert re.sub(r"[0-9.]+ s$", "0 s", lines[0]) == "first [red]: 4 cases, 16 checks in 0 s"
    assert (
        lines[1:]
        == [
            "check | passed | failed | error | skip | cases | pass rate (95%) | values",
            "exact_match #1 | 2 | 2 | 0 | 0 | 4 | 50.0% (15.0–85.0%)",
            "contains | 3 | 1 | 0 | 0 | 4 | 75.0% (30.1–95.4%)",
            "exact_match #2 | 0 | 0 | 4 | 0 | – | –",  # errors are never failures
            "score | – | – | 0 | 0 | – | – | score: mean 0.75 (0.2812–0.9662) of 4; mood: | good 2, bad 2",
            "pass rate 62.5% (15.5–95.2%) over 4 cases, below the bar of 70.0%",  # of eight answers, which hang together by case
            "not measured: 4 errored of 16 checks",
            "exact_match #2: 4 errored, the first: actual: $.output.no finds nothing",
        ]
    )


LOUD = b"""import os
import assay
print("I am loaded")

class Loud(assay.Checker):
    type = "loud"

    def run(self, services):
        print("I am asked")
        os.system("echo me too")
        return {"passed": True}
"""


@pytest.mark.parametrize("options", [["-o", "-"], ["--json"], ["-o", "-", "--jobs", "2"]])
def test_the_output_of_a_check_is_not_on_standard_output(run, options):
    ended = run(
        *("--contexts", "x.jsonl", "--checks", "c.json", "--check-module", "loud.py:Loud", *options),
        c_json=whole([{"type": "loud", "arguments": {}}]),
        loud_py=LOUD,
    )
    assert ended.code == 0, ended.err
    statuses = [json.loads(line)["status"] for line in ended.out.splitlines()]
    assert statuses == (["completed"] if options == ["--json"] else ["completed"] * 4)
    assert ended.err.count("I am asked") == ended.err.count("me too") == 4
    assert "I am loaded" in ended.err


@pytest.mark.parametrize("value", ["[red]no markup[/red]", "x" * 500 + "\nand more"])
def test_why_checks_errored_is_one_line(run, value):
    clumsy = b"import assay\nclass Clumsy(assay.Checker):\n    type = 'clumsy'\n    text: str\n" \
             b"    def run(self, services):\n        raise ValueError(self.text)\n"  # fmt: skip
    pair = {"test_case": CASES[0], "output": {"value": value}}
    ended = run(
        *("--contexts", "x.jsonl", "--checks", "c.json", "--check-module", "clumsy:Clumsy"),
        x_jsonl=lines([pair, *PAIRS]),
        c_json=whole([{"type": "clumsy", "arguments": {"text": "$.output.value"}}]),
        clumsy_py=clumsy,
    )
    why = f"clumsy failed with ValueError: {value}"
    shown = why if len(why) <= 200 else f"{why[:199]}…"
    last = table_of(ended.out)[-1]
    assert last.startswith("  clumsy: 5 errored, the first: clumsy failed with ValueError: ")
    assert "".join(last.split()).endswith("".join(shown.split()))


def test_the_table_has_the_errors_of_the_first_10_checks(run):
    many = [
        {"type": "exact_match", "arguments": {"actual": "$.output.no", "expected": str(at)}}
        for at in range(12)
    ]
    ended = run("--contexts", "x.jsonl", "--checks", "c.json", "--limit", "1", c_json=whole(many))
    *_, tenth, more = table_of(ended.out)
    assert tenth == "  exact_match #10: 1 errored: actual: $.output.no finds nothing"
    assert more == "  … and 2 checks more"
    document = json.loads(run("--contexts", "x.jsonl", "--checks", "c.json", "--json").out)
    assert document["checks"]["exact_match #12"]["data"]["first_error"] == "actual: $.output.no finds nothing"


@pytest.mark.parametrize(
    ("many", "rate"),
    [
        (1, "100.0% (20.7–100.0%)"),
        (10_000, ">99.9% (99.9–>99.9%)"),
    ],  # not quite all never reads as all
)
def test_a_rate_says_how_sure_it_is(run, many, rate):
    pairs = PAIRS[:1] * many if many == 1 else PAIRS[:1] * (many - 1) + PAIRS[3:]
    ended = run("--contexts", "x.jsonl", "--checks", "checks.json", x_jsonl=lines(numbered(pairs)))
    cases = "1 case" if many == 1 else f"{many:,} cases"
    assert table_of(ended.out)[-1] == f"pass rate {rate} over {cases}"


SLOW = b"""
import asyncio
from assay import Checker

class Slow(Checker):
    type = "slow"
    text: str

    async def run(self, services):
        await asyncio.sleep(0.2)
        if self.text == "no":
            raise ValueError
        return {"passed": True}
"""


TONE = b"""
import assay

class Tone(assay.Checker):
    type = "mood"
    waits = False
    text: assay.Text

    def run(self, services):
        return {"words": len(self.text.split()), "tone": self.text}
"""


def test_progress_is_one_line_that_changes_on_a_terminal(run, tmp_path):
    (tmp_path / "slow.py").write_bytes(SLOW)
    (tmp_path / "r.json").write_bytes(
        whole({"test_cases": CASES * 2, "outputs": OUTPUTS[::-1] * 2, "checks": [{"type": "slow", "arguments": {"text": "$.output.value"}}]})
    )  # fmt: skip
    screen = run_on_terminal(
        "evaluate", "r.json", "--check-module", "slow:Slow", "--concurrency", "1", folder=tmp_path
    )
    shown = [part.split("\r\n")[0] for part in screen.split("\r\x1b[K")]
    progress = [part for part in shown if "cases" in part and "/s" in part]
    assert any(re.fullmatch(r"[1-8]/8 cases  [0-9]+/s  [12] with errors", part) for part in progress), shown
    assert shown[-1].startswith("4 cases, 8 trials, 8 checks")  # the line is gone when the table comes
    assert "pass rate" in screen


@pytest.mark.parametrize(
    ("columns", "how", "pattern"),
    [
        (20, (12, 3, None, 0.1), r"12/~120 cases  [0-9]+.*"),
        (80, (12, 3, None, 0.1), r"12/~120 cases  [0-9]+/s  3 with errors"),
        (0, (12, 3, None, 0.1), r"12/~120 cases  [0-9]+/s  3 with errors"),  # it does not know
        (80, (0, 0, None, 0.1), "0 cases  0/s"),  # nobody can guess from nothing
    ],
    ids=["narrow", "wide", "unknown", "nothing"],
)
def test_a_line_that_changes_never_runs_over(columns, how, pattern):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    with open(theirs, "w") as to:
        progress = ProgressLine(stream=to)
        while not select.select([ours], [], [], 0)[0]:
            progress(*how)
        line = os.read(ours, 4096).decode().removeprefix("\r\x1b[K")
    os.close(ours)
    assert re.fullmatch(pattern, line)
    assert columns == 0 or len(line) < columns


@pytest.mark.parametrize("columns", [40, 80, 160])
def test_a_narrow_terminal_cuts_no_number(tmp_path, columns):
    (tmp_path / "tone.py").write_bytes(TONE)
    (tmp_path / "x.jsonl").write_bytes(lines(numbered(PAIRS * 300)))
    tone = {"type": "mood", "arguments": {"text": "$.output.value"}}
    (tmp_path / "c.json").write_bytes(whole([MATCH, tone]))
    screen = run_on_terminal(
        *("evaluate", "--contexts", "x.jsonl", "--checks", "c.json", "--check-module", "tone:Tone"),
        folder=tmp_path,
        columns=columns,
        code=0,
    )
    shown_lines = [line.rstrip() for line in table_of(re.sub(r"\x1b\[[0-9;]*[mK]|\r(?=\n)", "", screen))]
    beside = "  words: mean 1 (no interval) of 1,200; tone: x 600, xx 300, no 300"
    wide = [
        "check        passed  failed  error  skip  cases  pass rate (95%)  values",
        "exact_match     600     600      0     0  1,200        50.0% (47.2–52.8%)",
        f"mood              –       –      0     0      –                         –{beside}",
        "pass rate 50.0% (47.2–52.8%) over 1,200 cases",
    ]
    counts = [*wide[1:2], "mood              –       –      0     0      –                         –"]
    if columns == 40:  # nothing was in error or skipped, so these columns are left out
        counts = ["exact_match     600     600  50.0% (47.2–52.8%)", "mood – – –"]
    narrow = [*counts, f"  mood:{beside[1:]}", wide[-1]]
    expected = " ".join(wide if columns == 160 else narrow)
    assert " ".join(" ".join(shown_lines).split()).endswith(" ".join(expected.split()))  # lines wrap at words


def test_a_quick_run_without_a_terminal_prints_no_progress(run):
    assert run("--contexts", "x.jsonl", "--checks", "checks.json").err == ""


# the other verbs


def test_schema_prints_the_schema_of_every_noun(command, tmp_path):
    for ended in command.each([["schema", name] for name in NOUNS], folder=tmp_path):
        assert ended.code == 0
        assert json.loads(ended.out)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


HELP_AND_SCHEMA = [
    (["schema"], 0, "TestCaseResult\n"),
    (
        ["schema", "TestCas"],
        2,
        "NAME: expected the name of a type or of a verb with --json, got 'TestCas'; did you mean TestCase or ",
    ),
    (["evaluate", "--help"], 0, "--min-pass-rate"),
    (["serve", "--help"], 0, '-H "Content-Type: application/json" \\\n'),
    (["-h"], 0, "evaluate"),
    (["--version"], 0, f"assay {__version__}\n"),
    ([], 2, "evaluate"),
    (["nope"], 2, "there is no command 'nope'"),
]


def test_help_and_schema(command, tmp_path):
    results = command.each([arguments for arguments, _, _ in HELP_AND_SCHEMA], folder=tmp_path)
    for (_, code, expected), ended in zip(HELP_AND_SCHEMA, results, strict=True):
        assert ended.code == code
        assert expected in ended.out + ended.err


def test_the_summary_of_every_verb_fits_on_a_line(command, tmp_path):
    lines = command("--help", folder=tmp_path, environ={"COLUMNS": "80"}).out.splitlines()
    verbs = [verb for section in SECTIONS.values() for verb in section]
    width = max(map(len, verbs))
    for verb in verbs:
        summary = HELP[verb].partition("\n")[0]
        assert summary.endswith(".")
        assert f"  {verb:{width}}  {summary}" in lines


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("concurrency = 3", 0, ""),
        ("nonsense = 1", 2, "assay.toml: there is no setting 'nonsense'"),
        ("concurrency = 0", 2, "settings: concurrency: expected a number above 0, got 0"),
        ("[limits]\ncheck_seconds = nan", 2, "settings: check_seconds: expected a number above 0, got nan"),
        ("[limits]\nrun_seconds = inf", 2, "settings: run_seconds: expected a number above 0, got inf"),
        ("concurrency = 'many'", 2, "settings: concurrency: expected a whole number, got 'many'"),
        (
            "[limits]\nmax_line_bytes = 10",
            1,
            "x.jsonl:1: longer than 10 bytes, which is the limit for a line",
        ),
        ("= 3", 2, "assay.toml: not TOML"),
    ],
)
def test_settings_come_from_a_file(run, text, code, words):
    ended = run("--contexts", "x.jsonl", "--checks", "checks.json", assay_toml=text.encode())
    assert ended.code == code
    assert words in "".join(ended.messages)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ASSAY_CONCURRENCY", "many", "ASSAY_CONCURRENCY: expected a whole number, got 'many'"),
        ("ASSAY_MAX_CASES", "1.5", "ASSAY_MAX_CASES: expected a whole number, got '1.5'"),
        ("ASSAY_MAX_CASES", "-1", "ASSAY_MAX_CASES: expected a number above 0, got -1"),
        ("ASSAY_GRPC_PORT", "70000", "ASSAY_GRPC_PORT: expected a whole number <= 65535"),
        ("ASSAY_JWT_LEEWAY_SECONDS", "soon", "ASSAY_JWT_LEEWAY_SECONDS: expected a number, got 'soon'"),
    ],
)
def test_a_wrong_environment_variable_is_refused_by_its_name(command, tmp_path, name, value, words):
    ended = command("list", folder=tmp_path, environ={name: value})
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err


@pytest.mark.parametrize(
    ("blocked", "environ", "packages", "extras"),
    [
        (["uvicorn"], {}, "uvicorn", "serve"),
        (
            ["uvicorn", "grpc"],
            {},
            "uvicorn, grpcio",
            "serve,grpc",
        ),  # gRPC is not necessary, but it would be the next
        (["jwt", "alembic"], {"ASSAY_EVIDENCE_KEY": "x"}, "alembic, pyjwt", "store,guard"),
        (["opentelemetry"], {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, None, "telemetry"),
    ],
)
def test_a_server_names_every_extra_that_it_lacks_before_it_opens_anything(
    tmp_path, blocked, environ, packages, extras
):
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({blocked})); from assay.cli.main import main; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, "serve", "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"assay: a server needs {packages or 'opentelemetry'}")
    lines = f": pip install 'openassay[{extras}]' (in a clone: pip install -e '.[{extras}]')\n"
    assert unwrap(ended.stderr).endswith(lines)
    assert not (tmp_path / ".assay").exists()  # nothing was begun
