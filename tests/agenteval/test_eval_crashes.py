"""Eval runs that survive: killed at every commit and at random instants, on both databases, they end as if left alone."""

import asyncio
import random
import signal
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from assay.backends.stores.open import open_store
from assay.ports import RunQuery
from assay.runs.log_reader import read_page
from support.workers.evals import TASKS, TRIALS, open_host, suite

TESTS = Path(__file__).parents[1]
FAILPOINTS = ["commit.before", "commit.written", "commit.after", "commit.acknowledged"]
OWN = {"invocationId", "latencyMs", "durationMs"}  # ids and clocks differ from run to run


@pytest.fixture
def record(disk):
    with asyncio.Runner() as loop:
        store = loop.run(open_store(disk))
        yield loop, store, disk
        loop.run(store.close())


def without_own(value):
    if isinstance(value, dict):
        return {name: without_own(one) for name, one in value.items() if name not in OWN}
    return [without_own(one) for one in value] if isinstance(value, list) else value


def by_node(events):
    """What happened of each task, of the run itself under '': the order of units and of trials aside, but not their insides."""
    found = defaultdict(lambda: [[]])
    for event in events:
        node = event.get("nodeId", "").partition(":")[2]
        payload = without_own({k: v for k, v in event["payload"].items() if k != "trial"})
        found[node][-1].append((event["type"], payload))
        if event["type"] == "assay.trial.ended":
            found[node].append([])
    return {node: [*sorted(trials, key=repr), rest] for node, (*trials, rest) in found.items()}


async def read(store):
    (run,) = await store.runs(RunQuery())
    events = await read_page(store, run.id, limit=100_000)
    results = await store.chunk_infos(run.id, "results", limit=1000)
    return run, events, results


@pytest.fixture(scope="module")
def alone():
    """The same run, never interrupted."""

    async def main():
        store = await open_store("memory:")
        host = open_host(store)
        run = await host.run(suite(), trials=TRIALS)
        events = await host.events(run)
        await store.close()
        return by_node(events)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNS_LOG", "/dev/null")
        return asyncio.run(main())


class Host:
    def __init__(self, zygote, record, folder):
        self._zygote, (self._loop, self._store, self._address) = zygote, record
        self.log = folder / "log"
        self.log.touch()

    def live(self, seconds=60.0, failpoint=""):
        """One life, and how it ended: what was recorded before is not executed in it."""
        before, ran = self._recorded(), len(self.log.read_text().split())
        environ = {"RUNS_LOG": str(self.log), "ASSAY_FAILPOINT": failpoint}
        process = self._zygote.start(
            self._address, folder=TESTS, target="support.workers.evals:work", environ=environ
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        _, trouble = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), trouble
        again = self.log.read_text().split()[ran:]
        for task, trials in before.items():
            assert again.count(task) <= TRIALS - trials, f"{task} was executed again"
        for run in self._loop.run(self._store.runs(RunQuery())):
            if run.holder is not None:
                self._loop.run(self._store.release(run.id, run.holder))
        return process.returncode

    def _recorded(self):
        found = defaultdict(int)
        for run in self._loop.run(self._store.runs(RunQuery())):
            for event in self._loop.run(read_page(self._store, run.id, limit=100_000)):
                if event["type"] == "agent.invocation.completed":
                    found[event["nodeId"].partition(":")[2]] += 1
        return found

    def check_the_end(self, alone):
        run, events, results = self._loop.run(read(self._store))
        assert run.status == "completed"
        assert [event["sequence"] for event in events] == list(range(len(events)))
        assert len(results) == TASKS * TRIALS
        assert by_node(events) == alone
        found = [
            task["taskId"] for task in events[-1]["payload"]["outputs"]["tasks"] if task["safetyFindings"]
        ]
        assert found == ["t-3", "t-7", "t-11"]
        ids = {event["eventId"] for event in events}
        assert len(ids) == len(events)
        assert all(event.get("causationId", next(iter(ids))) in ids for event in events)


@pytest.mark.sample(2)
@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_a_run_killed_at_a_commit_ends_as_without_the_kill(zygote, record, tmp_path, failpoint, alone):
    host = Host(zygote, record, tmp_path)
    for count in (1, 2, 3, 5):
        if host.live(failpoint=f"{failpoint}:{count}") == 0:
            break
    else:
        assert host.live() == 0
    host.check_the_end(alone)


def test_a_run_killed_at_random_instants_ends_as_without_the_kills(zygote, record, tmp_path, alone):
    host, dice = Host(zygote, record, tmp_path), random.Random(7)
    for longest in (0.1, 0.2, 0.3, 0.5, 0.5):
        if host.live(dice.uniform(0.02, longest)) == 0:
            break
    else:
        assert host.live() == 0
    host.check_the_end(alone)
