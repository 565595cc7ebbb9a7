"""Interrupted and continued, alone or with several processes: the same bytes as a run that was left alone, clocks aside."""

import contextlib
import json
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

CHECKS = [
    {
        "type": "exact_match",
        "arguments": {"actual": "$.output.value.answer", "expected": "$.test_case.expected"},
    },
    {"type": "threshold", "arguments": {"value": "$.output.value.score", "min_value": 0.5}},
    {"type": "regex", "arguments": {"text": "$.output.value.answer", "pattern": "[02468]$"}},
]
CASES = 2_000
END = re.compile(rb',"metadata":{"run":[^}]*}}')  # of the run, in its last line


class Work(type(Path())):
    """A folder, and what forks processes to work there."""

    zygote: Any


def context(at):
    answer = {"answer": f"answer {at}", "padding": "x" * 1500}  # more than one range of bytes in all
    if at % 20:  # one in twenty has no score, and errs
        answer["score"] = (at % 10) / 10
    return {
        "test_case": {"id": str(at), "input": at, "expected": f"answer {at - at % 2}"},
        "output": {"value": answer},
    }


@pytest.fixture(scope="module")
def work(tmp_path_factory, zygote):
    folder = Work(tmp_path_factory.mktemp("resume"))
    folder.zygote = zygote
    (folder / "cases.jsonl").write_text("".join(json.dumps(context(at)) + "\n" for at in range(CASES)))
    (folder / "checks.json").write_text(json.dumps(CHECKS))
    assert finished(folder, "whole.jsonl")[0] == 1  # one case in twenty errs
    return folder


def evaluate(folder, output, *options, contexts="cases.jsonl", checks="checks.json", python=None):
    arguments = ["evaluate", "--contexts", contexts, "-o", output, *options]
    arguments += ["--checks", checks] if checks else []
    return folder.zygote.start(*arguments, folder=folder, python=python)


def finished(folder, output, *options, **files):
    process = evaluate(folder, output, *options, **files)
    _, stderr = process.communicate(timeout=120)
    return process.returncode, stderr


def timeless(path):
    return re.sub(rb'"evaluated_at":"[^"]*"', b"", Path(path).read_bytes())


@pytest.mark.parametrize("options", [[], ["--jobs", "2"]], ids=["one process", "two jobs"])
def test_killed_at_random_moments_it_ends_as_if_left_alone(work, options, series):
    wanted = series(6, 50)
    name = f"killed{len(options)}.jsonl"
    expected = timeless(work / "whole.jsonl")
    dice = random.Random(len(options))
    kills, ends, longest = 0, 0, 0.5
    while kills < wanted or ends == 0:
        began = time.monotonic()
        process = evaluate(work, name, "--resume", *options)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=dice.uniform(0, longest) if kills < wanted else 120)
        process.kill()
        _, stderr = process.communicate()
        if process.returncode == -signal.SIGKILL:
            kills += 1
            if (work / name).exists():
                *whole, _ = timeless(work / name).split(b"\n")
                pairs = zip(
                    whole, expected.split(b"\n"), strict=False
                )  # the last line gets its end when all are there
                assert [pair for pair in pairs if pair[0] not in (pair[1], END.sub(b"", pair[1]))][:1] == []
            continue
        longest = 1.2 * (time.monotonic() - began)  # so that most are killed, whatever the machine
        assert (process.returncode, "a worker ended" in stderr) == (1, False), stderr
        assert timeless(work / name) == expected
        ends += 1
        (work / name).unlink()
    assert kills == wanted


def test_a_torn_last_line_is_cut_and_the_other_files_are_made_again(work):
    lines = (work / "cases.jsonl").read_text().splitlines(keepends=True)[:200]
    (work / "some.jsonl").write_text("".join(lines))
    finished(work, "intact.jsonl", contexts="some.jsonl")
    whole = (work / "intact.jsonl").read_bytes()
    for cut in (0, 1, len(whole) // 3, len(whole) - 1):
        (work / "torn.jsonl").write_bytes(whole[:cut])
        (work / ".torn.jsonl.assay").write_bytes((work / ".intact.jsonl.assay").read_bytes())
        files = ("-o", "torn.json", "-o", "torn.csv")
        code, stderr = finished(work, "torn.jsonl", "--resume", *files, contexts="some.jsonl")
        assert code == 1
        assert timeless(work / "torn.jsonl") == timeless(work / "intact.jsonl")
        held = whole[:cut].count(b"\n")
        assert ("already has " in stderr) is bool(held)
        document = json.loads((work / "torn.json").read_bytes())
        assert document["summary"]["total_test_cases"] == len(document["results"]) == len(lines)
        assert (work / "torn.csv").read_bytes().count(b"\n") == len(lines) * len(CHECKS) + 1


def test_results_in_the_file_are_not_evaluated_again(work):
    half = b"".join((work / "whole.jsonl").read_bytes().splitlines(keepends=True)[: CASES // 2])
    (work / "half.jsonl").write_bytes(half)
    (work / ".half.jsonl.assay").write_bytes((work / ".whole.jsonl.assay").read_bytes())
    finished(work, "half.jsonl", "--resume")
    assert (work / "half.jsonl").read_bytes().startswith(half)  # clocks included


@pytest.mark.parametrize(
    ("files", "options", "words"),
    [
        ({"checks": "other.json"}, [], "done.jsonl: expected the checks and options of its results"),
        ({}, ["--no-resolved-arguments"], "done.jsonl: expected the checks and options of its results"),
        (
            {"contexts": "other.jsonl"},
            [],
            "output.value of case '2' differs; restore the input, or remove done.jsonl",
        ),
        ({"contexts": "short.jsonl"}, [], "has more results than there are inputs"),
    ],
)
def test_other_checks_or_inputs_are_refused_and_nothing_is_changed(work, files, options, words):
    lines = (work / "cases.jsonl").read_text().splitlines(keepends=True)
    (work / "other.jsonl").write_text("".join([*lines[:2], lines[2].replace("answer", "other"), *lines[3:]]))
    (work / "short.jsonl").write_text("".join(lines[:10]))
    (work / "other.json").write_text(json.dumps(CHECKS[:2]))
    (work / "done.jsonl").write_bytes(
        b"".join((work / "whole.jsonl").read_bytes().splitlines(keepends=True)[:50])
    )
    (work / ".done.jsonl.assay").write_bytes((work / ".whole.jsonl.assay").read_bytes())
    before = (work / "done.jsonl").read_bytes()
    code, stderr = finished(work, "done.jsonl", "--resume", *options, **files)
    assert (code, words in stderr, "Traceback" in stderr) == (2, True, False), stderr
    assert (work / "done.jsonl").read_bytes() == before


def test_results_of_unknown_origin_are_refused(work):
    (work / "stray.jsonl").write_text('{"status":"completed"}\n')
    code, stderr = finished(work, "stray.jsonl", "--resume")
    assert (code, "which says how its results were made" in stderr) == (2, True)


def test_checks_in_the_cases_are_part_of_what_may_not_differ(work):
    own = [
        {**context(at), "test_case": {**context(at)["test_case"], "checks": CHECKS[:1]}} for at in range(50)
    ]
    (work / "own.jsonl").write_text("".join(json.dumps(one) + "\n" for one in own))
    code, _ = finished(work, "own-out.jsonl", contexts="own.jsonl", checks=None)
    assert code == 0
    whole = timeless(work / "own-out.jsonl")
    (work / "own-out.jsonl").write_bytes((work / "own-out.jsonl").read_bytes()[:5000])
    assert finished(work, "own-out.jsonl", "--resume", contexts="own.jsonl", checks=None)[0] == 0
    assert timeless(work / "own-out.jsonl") == whole
    own[-1]["test_case"]["checks"] = CHECKS[2:]  # not echoed in the results, and yet another run
    (work / "own.jsonl").write_text("".join(json.dumps(one) + "\n" for one in own))
    code, stderr = finished(work, "own-out.jsonl", "--resume", contexts="own.jsonl", checks=None)
    assert (code, "expected the inputs of its results" in stderr) == (2, True)


def test_checks_listed_per_case_go_on_at_their_own_case(work):
    lists = [
        [{"type": "threshold", "arguments": {"value": "$.test_case.input", "max_value": at}}]
        for at in range(50)
    ]
    (work / "each.json").write_text(json.dumps(lists))
    (work / "fifty.jsonl").write_text("".join(json.dumps(context(at)) + "\n" for at in range(50)))
    files = {"contexts": "fifty.jsonl", "checks": "each.json"}
    assert finished(work, "each.jsonl", **files)[0] == 0
    whole = timeless(work / "each.jsonl")
    (work / "each.jsonl").write_bytes((work / "each.jsonl").read_bytes()[:9000])
    assert finished(work, "each.jsonl", "--resume", **files)[0] == 0
    assert timeless(work / "each.jsonl") == whole


@pytest.mark.parametrize(
    ("options", "code"), [([], 1), (["--skip-bad-lines"], 1), (["--skip-bad-lines", "--allow-errors"], 0)]
)
def test_jobs_meet_bad_lines_as_one_process_does(work, options, code):
    lines = (work / "cases.jsonl").read_text().splitlines(keepends=True)
    lines[1_750] = "not json\n"
    lines[3] = "\n"  # blank lines count as lines
    (work / "bad.jsonl").write_text("".join(lines))
    alone = finished(work, "bad1.jsonl", *options, contexts="bad.jsonl")
    several = finished(work, "bad2.jsonl", *options, "--jobs", "2", contexts="bad.jsonl")
    assert alone == several
    assert alone[0] == code
    assert "bad.jsonl:1751: not JSON" in alone[1]
    assert timeless(work / "bad1.jsonl") == timeless(work / "bad2.jsonl")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--limit", "7"], "--limit and --fail-fast need the cases in order"),
        (["--fail-fast"], "need the cases in order"),
    ],
)
def test_jobs_say_when_one_process_does_it_all(work, options, words):
    _, stderr = finished(work, "alone.jsonl", "--jobs", "2", *options)
    assert words in stderr


def test_a_worker_that_dies_is_reported_and_the_run_can_be_resumed(work, tmp_path):
    (work / "dying.py").write_text(
        "import os, pathlib, assay\n"
        "class Dies(assay.Checker):\n"
        "    type = 'dies'\n"
        "    waits = False\n"
        "    at: int\n"
        "    def run(self, services):\n"
        "        if self.at == 1_750 and not pathlib.Path('died').exists():\n"
        "            pathlib.Path('died').touch()\n"
        "            os._exit(9)\n"
        "        return {'passed': True}\n"
    )
    (work / "dies.json").write_text(json.dumps([{"type": "dies", "arguments": {"at": "$.test_case.input"}}]))
    options = ["--check-module", "dying:Dies", "--jobs", "2"]
    code, stderr = finished(work, "died.jsonl", *options, checks="dies.json", python=sys.executable)
    assert (code, "a worker process ended early" in stderr) == (1, True), stderr
    assert finished(work, "died.jsonl", *options, "--resume", checks="dies.json")[0] == 0
    assert (work / "died.jsonl").read_bytes().count(b"\n") == CASES


@pytest.mark.parametrize(("many", "workers"), [(5, 1), (40, 2)])
def test_a_small_file_is_shared_too(work, many, workers):
    (work / "whose.py").write_text(
        "import os, assay\n"
        "class Whose(assay.Checker):\n"
        "    type = 'whose'\n"
        "    waits = False\n"
        "    def run(self, services):\n"
        "        return {'pid': os.getpid()}\n"
    )
    (work / "whose.json").write_text(json.dumps([{"type": "whose", "arguments": {}}]))
    lines = (work / "cases.jsonl").read_text().splitlines(keepends=True)[:many]
    (work / "small.jsonl").write_text("".join(lines))
    options = ("--check-module", "whose:Whose", "--jobs", "2")
    assert finished(work, "whose.jsonl", *options, contexts="small.jsonl", checks="whose.json")[0] == 0
    results = [json.loads(line) for line in (work / "whose.jsonl").read_text().splitlines()]
    assert [one["execution_context"]["test_case"]["input"] for one in results] == list(range(many))
    assert len({one["check_results"][0]["results"]["pid"] for one in results}) == workers


def test_jobs_run_checks_that_wait(work):
    (work / "waiting.py").write_text(
        "import asyncio, assay\n"
        "class Waits(assay.Checker):\n"
        "    type = 'waits'\n"
        "    at: int\n"
        "    async def run(self, services):\n"
        "        await asyncio.sleep(0)\n"
        "        return {'passed': self.at % 2 == 0, 'at': self.at}\n"
    )
    (work / "waits.json").write_text(
        json.dumps([{"type": "waits", "arguments": {"at": "$.test_case.input"}}])
    )
    lines = (work / "cases.jsonl").read_text().splitlines(keepends=True)[:1000]
    (work / "few.jsonl").write_text("".join(lines))
    options = ["--check-module", "waiting:Waits"]
    began = time.monotonic()
    assert finished(work, "w1.jsonl", *options, contexts="few.jsonl", checks="waits.json")[0] == 0
    assert (
        finished(work, "w2.jsonl", *options, "--jobs", "2", contexts="few.jsonl", checks="waits.json")[0] == 0
    )
    assert time.monotonic() - began < 60

    def answers(name):
        return [
            json.loads(line)["check_results"][0]["results"]["at"]
            for line in (work / name).read_text().splitlines()
        ]

    assert answers("w1.jsonl") == answers("w2.jsonl") == list(range(1000))
