"""
Runs that survive: killed before and after every commit and at random instants, on both databases, they end as if left alone.

What is promised: a run that was acknowledged ends with every result once, and nothing recorded is executed twice. A request
that died while it was taken in was never acknowledged: what there is of it ends `failed` and was not executed, and sent
again with the same key it is done.
"""

import asyncio
import json
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from assay.backends.stores.open import open_store
from assay.checks import STANDARD
from assay.fep.records.service import EvaluationService
from assay.ports import RunQuery, Services
from support.workers.runs import Logged, Prompt

TESTS = Path(__file__).parents[1]
FAILPOINTS = ["commit.before", "commit.written", "commit.after", "commit.acknowledged"]
CASES = {
    "logged": 60,
    "prompt": 1_200,
}  # 60 units of one case; 3 units of many, which are taken in piece by piece
PARTIAL = "the server stopped before all cases were stored; send them again"


@pytest.fixture
def record(disk):
    """An empty store, seen from here while others write to it and die."""
    with asyncio.Runner() as loop:
        store = loop.run(open_store(disk))
        yield Record(loop, store, disk)
        loop.run(store.close())


class Record(NamedTuple):
    loop: asyncio.Runner
    store: Any
    address: str


class Host:
    """A host that is killed and started again, and what it leaves behind."""

    def __init__(self, zygote, record, folder, type, name="crash"):
        self._zygote, self._record, self.log, self.type, self.name = zygote, record, folder / name, type, name
        self.log.touch()
        self.acknowledged = set()

    def live(self, seconds=60.0, failpoint="", lease=10.0):
        """One life: what the record held before it is not executed in it. How it ended."""
        before, executed = self.finished_cases(), len(self.executed())
        process = self._zygote.start(
            self._record.address, str(CASES[self.type]), self.type, self.name,
            folder=TESTS, target="support.workers.runs:work",
            environ={"RUNS_LOG": str(self.log), "RUNS_LEASE": str(lease), "ASSAY_FAILPOINT": failpoint},
        )  # fmt: skip
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        stdout, trouble = process.communicate()
        self.acknowledged |= set(stdout.split())
        assert process.returncode in (0, -signal.SIGKILL), trouble
        assert not before & set(self.executed()[executed:]), "what is recorded was executed again"
        return process.returncode

    def executed(self):
        return [int(line) for line in self.log.read_text().split()]

    def ask(self, verb, *arguments, **more):
        return self._record.loop.run(getattr(self._record.store, verb)(*arguments, **more))

    def runs(self):
        return [run for run in self.ask("runs", RunQuery()) if run.name == self.name]

    def finished_cases(self):
        """The cases that have a result."""
        slots = [
            slot
            for run in self.runs()
            for slot in self.ask("chunk_infos", run.id, "results", limit=CASES[self.type])
        ]
        return {at for slot in slots for at in range(slot.first, slot.last + 1)}

    def forget_the_lease(self):
        """As if the time had passed after which another may take up what a dead one held."""
        for run in self.runs():
            if run.holder is not None:
                self.ask("release", run.id, run.holder)

    def results(self, run):
        service = EvaluationService(self._record.store, STANDARD.with_checks([Logged, Prompt]), Services())

        async def read():
            return [json.loads(line) async for line in service.results(run)]

        return self._record.loop.run(read())

    def check_the_end(self):
        """One run is complete, and it is what was acknowledged; what was not taken in whole says so and did nothing."""
        many = CASES[self.type]
        torn = [run for run in self.runs() if run.status != "completed"]
        (run,) = (run for run in self.runs() if run.status == "completed")
        lines, events = self.results(run), self.ask("events", run.id)
        assert self.acknowledged <= {run.id}
        assert [int(line["execution_context"]["test_case"]["id"]) for line in lines] == list(range(many))
        assert all(
            line["check_results"][0]["results"] == {"passed": at % 3 == 0} for at, line in enumerate(lines)
        )
        assert [event.sequence for event in events] == list(range(len(events)))
        assert events[0].type == "evaluation.started"
        assert events[-1].type == "evaluation.completed"
        assert json.loads(events[-1].data)["summary"]["total_test_cases"] == many
        units = Counter(json.loads(event.data)["unit"] for event in events[1:-1])
        assert set(units.values()) == {1}
        for run in torn:
            assert (run.status, run.metadata["error"], self.type) == ("failed", PARTIAL, "prompt")
            assert self.results(run) == []
            assert run.metadata["summary"]["total_test_cases"] == 0
            types = [event.type for event in self.ask("events", run.id)]
            assert types == ["evaluation.started", "evaluation.failed"]
        return len(torn)


@pytest.mark.sample(2)
@pytest.mark.parametrize("type", CASES)
@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_a_run_killed_at_a_commit_ends_as_without_the_kill(zygote, record, tmp_path, failpoint, type):
    host = Host(zygote, record, tmp_path, type)
    for count in (1, 2, 3, 4, 6):
        if host.live(failpoint=f"{failpoint}:{count}") == 0:
            break
        host.forget_the_lease()
    else:
        assert host.live() == 0
    assert (host.check_the_end() > 0) == (type == "prompt")


def test_runs_of_a_dead_process_are_adopted_after_their_lease(zygote, record, tmp_path):
    host = Host(zygote, record, tmp_path, "logged")
    assert host.live(failpoint="commit.acknowledged:5", lease=0.5) == -signal.SIGKILL
    assert host.live(lease=0.5) == 0
    assert host.check_the_end() == 0


def test_a_run_killed_at_random_instants_ends_as_without_the_kills(zygote, record, tmp_path, series):
    wanted = series(5, 50)
    dice = random.Random(7)
    kills, longest = 0, 0.3
    for name in map(str, range(wanted)):
        host = Host(zygote, record, tmp_path, dice.choice(list(CASES)), name)
        while True:
            began = time.monotonic()
            if host.live(dice.uniform(0, longest) if kills < wanted else 60) == 0:
                longest = 1.2 * (time.monotonic() - began)  # so that most are killed, whatever the machine
                break
            kills += 1
            host.forget_the_lease()
        host.check_the_end()
        if kills >= wanted:
            return
    pytest.fail(f"only {kills} were killed before their end")
