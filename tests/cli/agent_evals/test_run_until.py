"""`assay run --until decided`: it stops as soon as it has decided, also after it was killed (ADR-0239)."""

import asyncio
import io
import json
from functools import partial
from itertools import pairwise

import pytest

from assay.agenteval.planning.stopping import EvalUntil
from assay.backends.stores.open import open_store
from assay.cli.agent_evals.run_progress import RunProgress
from assay.cli.agent_evals.run_until import last_look_text
from assay.cli.console.console import StatusLine
from assay.ports import RunQuery
from assay.results.last_look import look_in
from support.evals import TENANT, eval_host, golden, suite_of
from support.waiting import until

AGENT = """
import hashlib, os, signal
from pathlib import Path

def share(text):
    return hashlib.sha256(text.encode()).digest()[0] / 256

def good(text):
    return "yes" if share(text) < 0.9 else "no"

def bad(text):
    with Path("asked").open("a") as file:
        file.write(f"{text}\\n")
    if Path("kill").exists() and len(Path("asked").read_text().split()) > 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return "yes" if share(text) < 0.5 else "no"

def broken(text):
    if share(text) < 0.5:
        raise ValueError("broken")
    return "yes"
"""
RUN = ("run", "suite.json", "--agent")
UNTIL = ("--until", "decided")


@pytest.fixture
def assay(command, tmp_path):
    (tmp_path / "mine.py").write_text(AGENT)
    write(tmp_path, [f"t{at}" for at in range(100)])

    def run(*arguments, **more):
        return command(*arguments, folder=tmp_path, **more)

    return run


def write(folder, ids):
    expected = {"kind": "golden", "match": {"strategy": "exact", "value": "yes"}}
    tasks = [{"taskId": id, "input": id, "expected": expected} for id in ids]
    suite = {"suiteId": "local.evals.until", "version": "1.0.0", "modes": ["golden"], "tasks": tasks}
    (folder / "suite.json").write_text(json.dumps(suite))


def decided(done):
    return json.loads(done.out)["until"]


@pytest.mark.parametrize(
    ("old", "new", "margin", "decision", "code"),
    [
        ("bad", "good", (), "improved", 0),
        ("good", "bad", (), "regressed", 3),
        ("bad", "bad", ("--margin", "0.2"), "equivalent", 0),
        ("bad", "bad", (), "not enough data", 1),
    ],
)
def test_the_difference_to_a_baseline_decides(assay, old, new, margin, decision, code):
    assay(*RUN, f"mine:{old}", "--name", "before")
    done = assay(*RUN, f"mine:{new}", "--baseline", "before", *UNTIL, *margin, "--json")
    found = decided(done)
    assert (done.code, found["decision"]) == (code, decision), done.err
    assert found["run"] + found["not_run"] == 100
    assert found["run"] == 100 if code == 1 else found["run"] < 100
    document = json.loads(done.out)
    assert len(document["report"]["tasks"]) == found["run"]
    assert (document["summary"] is None) == (found["run"] < 100)  # a part has no summary of the suite


@pytest.mark.parametrize(
    ("agent", "bar", "decision", "code"),
    [
        ("good", "0.5", "above the bar", 0),
        ("bad", "0.9", "below the bar", 3),
        ("good", "0.9", "not enough data", 1),
    ],
)
def test_a_bar_decides_and_every_door_says_that_it_is_a_part(assay, agent, bar, decision, code):
    done = assay(*RUN, f"mine:{agent}", "--min-pass-rate", bar, *UNTIL, "--name", "early", "--trials", "2")
    assert done.code == code, done.err
    assert f"against a bar of {float(bar):.1%}: {decision}, passed " in done.out
    if code == 1:
        return
    part = "of 100 tasks of its suite, in random order until the run had decided"
    assert "tasks not run" in done.out
    assert part in assay("show", "early").out
    assert part in assay("gate", "early").out
    assert "of the suite's 100" in assay("list").out


def test_a_run_that_was_killed_goes_on_to_the_same_decision(zygote, assay, tmp_path):
    arguments = (
        *RUN,
        "mine:bad",
        "--min-pass-rate",
        "0.9",
        *UNTIL,
        "--seed",
        "3",
        "--json",
        "--concurrency",
        "1",
    )
    whole = assay(*arguments)
    (tmp_path / "asked").unlink()
    (tmp_path / "kill").touch()
    process = zygote.start(*arguments, folder=tmp_path)
    process.communicate()
    assert process.returncode == -9
    (tmp_path / "kill").unlink()

    async def let_go():
        store = await open_store(f"sqlite:///{tmp_path}/.assay/assay.db")
        (run,) = await store.runs(RunQuery(statuses=frozenset({"running"})))
        await store.release(run.id, run.holder)  # as if its lease had ended
        await store.close()
        return run

    run = asyncio.run(let_go())
    resumed = assay("run", "--resume", run.id, "--agent", "mine:bad", "--json")
    assert resumed.out, resumed.err
    assert decided(resumed) == decided(whole)
    assert resumed.code == whole.code == 3


async def run_with_progress(address):
    """An eval whose agent waits in its second round until the progress shows the first look."""
    shown, asked = io.StringIO(), []

    async def agent(task):
        asked.append(task)
        if len(asked) == 12:
            await until(lambda: "passed 100.0% (" in shown.getvalue(), shown.getvalue)
        return "yes" if len(asked) % 20 else "no"

    suite = suite_of(*(golden(f"t{at}", "yes") for at in range(100)))
    async with eval_host(agent, address, concurrency=1) as host:
        run = await host.begin(suite, until=EvalUntil(bar=0.8))
        line = StatusLine(stream=shown, seconds=0)
        progress = RunProgress(
            run.id, 100, quiet=False, note=partial(last_look_text, host.store, run), line=line
        )
        await progress.follow(host.executor.follow(run.id, TENANT))
        ended = await host.executor.wait(run.id)
    return shown.getvalue().splitlines(), ended


def test_the_progress_shows_the_last_look_and_its_limits_narrow(address):
    lines, run = asyncio.run(run_with_progress(address))
    last = look_in(run.metadata)
    notes = [line.split("  ", 1)[1] for line in lines if "  " in line]
    assert notes[0].startswith("passed 100.0% (")
    assert notes[-1] == last.text
    assert last.look.decision == "above the bar"
    assert (last.cases, last.total, last.rounds) == (run.metadata["done"], 100, run.metadata["done"] // 10)
    limits = [tuple(map(float, note.split("(")[1].rstrip("%)").split("…"))) for note in notes]
    assert all(before[0] <= after[0] <= after[1] <= before[1] for before, after in pairwise(limits))


def test_unmeasured_tasks_decide_nothing(assay):
    done = assay(*RUN, "mine:broken", "--min-pass-rate", "0.9", *UNTIL)
    assert done.code in (1, 3)
    assert "above the bar" not in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--until", "soon", "--min-pass-rate", "0.5"), "--until: expected decided, got 'soon'"),
        (UNTIL, "expected one thing to decide"),
        ((*UNTIL, "--min-pass-rate", "0.5", "--baseline", "latest"), "expected one thing to decide"),
        ((*UNTIL, "--min-pass-rate", "0.5", "--margin", "0.1"), "--margin: expected --baseline"),
        (
            (*UNTIL, "--baseline", "latest", "--margin", "2"),
            "--margin: expected a number above 0 and below 1",
        ),
        ((*UNTIL, "--min-pass-rate", "0.5", "--limit", "3"), "--until and --only"),
        ((*UNTIL, "--baseline", "latest"), "expected a completed run of this suite"),
        (("--min-pass-rate", "0.5"), "--min-pass-rate: expected --until decided with it"),
        (("--seed", "4"), "--seed: expected --until decided with it"),
    ],
)
def test_what_contradicts_it_is_refused_before_anything_runs(assay, tmp_path, arguments, message):
    done = assay(*RUN, "mine:bad", *arguments)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "asked").exists()


def test_standard_input_is_refused(assay, tmp_path):
    done = assay("run", "-", "--agent", "mine:bad", *UNTIL, "--min-pass-rate", "0.5", stdin=b"")
    assert done.code == 2
    assert "--until: expected a file, got standard input" in done.err
