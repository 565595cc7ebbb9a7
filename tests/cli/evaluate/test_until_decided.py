"""`assay evaluate --until decided`: it stops as soon as it has decided, and says what it did not run (ADR-0239)."""

import json

import pytest

CHECKS = [
    {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}
]
ASKED = """
import asyncio
from pathlib import Path

async def asked(output):
    await asyncio.sleep(0)
    with Path("asked").open("a") as file:
        file.write(f"{output}\\n")
    return {"passed": output != "no", "score": 0.5}

async def broken(output):
    await asyncio.sleep(0)
    if output == "no":
        raise ValueError("broken")
    return True
"""
EVALUATE = ("evaluate", "--contexts", "after.jsonl", "--checks", "checks.json", "--until", "decided")


@pytest.fixture
def assay(command, tmp_path):
    (tmp_path / "checks.json").write_text(json.dumps(CHECKS))
    (tmp_path / "mine.py").write_text(ASKED)
    write(tmp_path / "before.jsonl", ["yes"] * 50 + ["no"] * 150)
    write(tmp_path / "after.jsonl", ["yes"] * 150 + ["no"] * 50)

    def run(*arguments, **more):
        return command(*arguments, folder=tmp_path, **more)

    return run


def write(path, answers, ids=None):
    lines = (
        {"test_case": {"id": id, "input": id, "expected": "yes"}, "output": {"value": answer}}
        for id, answer in zip(ids or [f"c{at}" for at in range(len(answers))], answers, strict=True)
    )
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))


def baseline(assay, name="before"):
    done = assay(
        "evaluate", "--contexts", f"{name}.jsonl", "--checks", "checks.json", "-o", f"{name}.out.jsonl"
    )
    assert done.code == 0
    return f"{name}.out.jsonl"


@pytest.mark.parametrize(
    ("old", "new", "margin", "decision", "code"),
    [
        ("before", "after", (), "improved", 0),
        ("after", "before", (), "regressed", 3),
        ("after", "after", ("--margin", "0.2"), "equivalent", 0),
        ("after", "after", (), "not enough data", 1),
    ],
)
def test_the_difference_to_a_baseline_decides(assay, old, new, margin, decision, code):
    saved = baseline(assay, old)
    done = assay(*EVALUATE[:2], f"{new}.jsonl", *EVALUATE[3:], "--baseline", saved, *margin, "--json")
    found = json.loads(done.out)["until"]
    assert (done.code, found["decision"]) == (code, decision)
    assert found["run"] + found["not_run"] == 200
    assert found["run"] == 200 if code == 1 else found["run"] < 200
    assert found["low"] <= found["estimate"] <= found["high"]


@pytest.mark.parametrize(
    ("bar", "decision", "code"),
    [("0.5", "above the bar", 0), ("0.95", "below the bar", 3), ("0.75", "not enough data", 1)],
)
def test_a_bar_decides(assay, bar, decision, code):
    done = assay(*EVALUATE, "--min-pass-rate", bar)
    assert done.code == code
    assert f"against a bar of {float(bar):.1%}: {decision}, passed " in done.out
    if code == 1:
        assert "200 of 200 cases in 20 rounds (seed 0)\n" in done.out
    else:
        assert "only a part: " in done.out
        assert " not run" in done.out


def test_a_seed_gives_one_order_and_no_case_is_asked_that_is_not_in_the_results(assay, tmp_path):
    """The check waits, so each round has an event loop of its own."""
    command = (
        "evaluate",
        "--contexts",
        "after.jsonl",
        "--check-module",
        "mine.py:asked",
        "--until",
        "decided",
    )
    orders = []
    for seed in ("7", "7", "8"):
        (tmp_path / "asked").unlink(missing_ok=True)
        done = assay(*command, "--min-pass-rate", "0.4", "--seed", seed, "-o", "-")
        assert done.code == 0, done.err
        results = [json.loads(line) for line in done.out.splitlines()]
        orders.append([one["execution_context"]["test_case"]["id"] for one in results])
        assert len((tmp_path / "asked").read_text().split()) == len(results) < 200
    assert orders[0] == orders[1] != orders[2]


def test_a_case_with_its_repeats_is_one_value(assay, tmp_path):
    write(tmp_path / "after.jsonl", ["yes"] * 2_000, [f"c{at % 4}" for at in range(2_000)])
    done = assay(*EVALUATE, "--min-pass-rate", "0.8", "--json")
    found = json.loads(done.out)["until"]
    assert (done.code, found["decision"], found["measured"]) == (1, "not enough data", 4)


def test_unmeasured_cases_are_not_scores(assay):
    done = assay(
        "evaluate", "--contexts", "after.jsonl", "--check-module", "mine.py:broken", "--until", "decided",
        "--min-pass-rate", "0.9", "--allow-errors",
    )  # fmt: skip
    assert done.code == 1
    assert "not enough data, passed 100.0% (" in done.out
    assert "50 cases not measured; a decision that they could turn is not made" in done.out


def test_a_stored_run_and_a_file_say_that_they_are_a_part(assay, tmp_path):
    saved = baseline(assay)
    done = assay(*EVALUATE, "--baseline", saved, "--name", "early", "-o", "early.csv")
    assert done.code == 0
    part = "cases of its data, in random order until the run had decided"
    assert part in assay("show", "early").out
    for run in ("early", "early.csv"):
        gated = assay("gate", run, "--baseline", saved)
        assert gated.code == 1
        assert "a part of a run" in gated.out
        compared = assay("compare", saved, run)
        assert " ".join(compared.out.split()).count(part) == 1, compared.out


def test_money_that_ends_first_decides_nothing(assay, tmp_path):
    (tmp_path / "dear.py").write_text(
        "def dear(output):\n    return {'passed': True, 'metadata': {'cost_usd': 0.01}}\n"
    )
    done = assay(
        "evaluate", "--contexts", "after.jsonl", "--check-module", "dear.py:dear", "--until", "decided",
        "--min-pass-rate", "0.9", "--max-cost", "0.145",
    )  # fmt: skip
    assert done.code == 1
    assert "against a bar of 90.0%: not enough data, passed 100.0% (" in done.out
    assert "20 of 200 cases in 2 rounds (seed 0); 180 cases not run" in done.out
    assert "stopped after 20 cases; the others were not measured" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--until", "tomorrow", "--min-pass-rate", "0.5"), "--until: expected decided, got 'tomorrow'"),
        (("--until", "decided"), "expected one thing to decide"),
        (("--until", "decided", "--min-pass-rate", "exact_match=0.5"), "expected one thing to decide"),
        (("--until", "decided", "--min-pass-rate", "0.5", "--baseline", "b"), "expected one thing to decide"),
        (
            ("--until", "decided", "--min-pass-rate", "0.5", "--margin", "0.1"),
            "--margin: expected --baseline",
        ),
        (("--until", "decided", "--min-pass-rate", "0.5", "--resume"), "--until and --resume"),
        (("--until", "decided", "--min-pass-rate", "0.5", "--jobs", "2"), "--until and --jobs"),
        (("--until", "decided", "--min-pass-rate", "0.5", "--only", "c1"), "--until and --only"),
        (("--margin", "0.1"), "--margin: expected --until decided with it"),
        (("--seed", "4"), "--seed: expected --until decided with it"),
    ],
)
def test_what_contradicts_it_is_refused_before_anything_runs(assay, tmp_path, arguments, message):
    done = assay(
        "evaluate", "--contexts", "after.jsonl", "--checks", "checks.json", "-o", "o.jsonl", *arguments
    )
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "o.jsonl").exists()


def test_standard_input_is_refused(assay):
    done = assay(
        "evaluate", "--contexts", "-", "--checks", "checks.json", "--until", "decided", "--min-pass-rate", "0.5",
        stdin=b"",
    )  # fmt: skip
    assert done.code == 2
    assert "expected a file, got standard input" in done.err
