"""The real loop with a crash between any two commits: nothing is committed after a fail, every history ends, and it ends as if left alone."""

import asyncio
import gc
import json
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from assay.backends.stores.memory import MemoryStore
from assay.backends.stores.open import open_store
from assay.errors import Conflict, EnvironmentFailure
from assay.ports import CLOSED, RunQuery
from assay.workflow.state.verdict_gating import combine
from support.workers.workflows import LEASE, verdict_of
from support.workflows import ME, ScriptedAgent, WorkflowHost, loop

TESTS = Path(__file__).parents[1]
VERDICTS = ["pass", "fail", "revise", "nonsense"]


class Mortal:
    """A store until it dies: before or after one of its commits; from then on it is away."""

    def __init__(self, inner):
        self._inner, self.left, self.after, self.dead = inner, 0, False, False

    async def commit(self, batch):
        if self.dead:
            raise EnvironmentFailure("dead")
        self.left -= 1
        self.dead = self.left == 0
        if self.dead and not self.after:
            raise EnvironmentFailure("dead before a commit")
        done = await self._inner.commit(batch)
        if self.dead:
            raise EnvironmentFailure("dead after a commit")
        return done

    def __getattr__(self, name):
        if self.dead and not name.startswith("_"):
            return self._abandoned
        return getattr(self._inner, name)

    async def _gone(self, *_, **__):
        raise EnvironmentFailure("dead")


def cast(script):
    """What each says is a function of the turn, so that a step that is done again comes to the same."""
    actor = ScriptedAgent("test.actor", lambda task, _: task["turn"] if isinstance(task, dict) else 1)
    critics = [
        ScriptedAgent(f"test.critic-{at}", lambda task, _, at=at: verdict_of(script, task["result"], at))
        for at in (0, 1)
    ]
    return actor, *critics


class Life:
    """One run in one world, through any number of processes."""

    def __init__(self, script, **more):
        self.script = script
        self.loop = loop(critics=["test.critic-0", "test.critic-1"], **more)
        self.inner = MemoryStore()
        self.run = "run-under-test"

    def born(self):
        self.store = Mortal(self.inner)
        self.host = WorkflowHost(*cast(self.script), loops={"loop": self.loop}, store=self.store, lease=60)
        return self.host

    async def start(self):
        self.born()
        await self.host.executor.open()
        await self.host.workflows.start(ME, "loop", {"task": "t"}, run=self.run)
        await self.rest()

    async def rest(self):
        """To its end, to a wait, or to death and beyond."""
        while True:
            with suppress(EnvironmentFailure):
                return await self.host.executor.wait(self.run)
            await self.reborn()

    async def reborn(self):
        """Another process, once nobody holds what the dead one held."""
        executor = self.host.executor
        tasks = [task for _, task in executor._conductors.values()]
        for task in (*tasks, executor._heartbeat_task):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.inner.release(self.run, executor.executor_id)
        await self.born().executor.open()

    async def answer(self, action):
        with suppress(EnvironmentFailure, Conflict):
            await self.host.workflows.respond(ME, self.run, "actor", {"action": action})
        if self.store.dead:
            await self.reborn()
        await self.rest()

    async def status(self):
        return (await self.inner.run(self.run)).status

    async def log(self):
        return [(event.type, json.loads(event.data)) for event in await self.inner.events(self.run)]


def law(log, *, gating, gives_up):
    """A result is committed only on the verdicts about it, and nothing follows a terminal event."""
    candidate, verdicts = None, []
    for at, (type, payload) in enumerate(log):
        if type == "agent.decided":
            candidate, verdicts = payload["eventId"], []
        elif type == "agent.verified":
            assert payload["causationId"] == candidate == payload["payload"]["target"]
            verdicts.append(payload["payload"]["verdict"])
        elif type == "variable.changed":
            assert not gating or combine(verdicts) == "pass"
        elif type in ("run.completed", "run.failed"):
            assert at == len(log) - 1
            assert type == "run.failed" or not gating or gives_up or combine(verdicts) == "pass"
    decided = [payload["payload"]["iteration"] for type, payload in log if type == "runOrchestrator.decided"]
    assert decided == list(range(1, len(decided) + 1))


class Histories(RuleBasedStateMachine):
    @initialize(
        script=st.lists(
            st.tuples(st.sampled_from(VERDICTS), st.sampled_from(VERDICTS)), min_size=1, max_size=4
        ),
        gating=st.booleans(),
        on_fail=st.sampled_from(["escalate", "retry", "give-up"]),
        max_turns=st.integers(1, 4),
        left=st.integers(0, 8),
        after=st.booleans(),
    )
    def start(self, script, gating, on_fail, max_turns, left, after):
        self.runner = asyncio.Runner()
        self.more = {"gating": gating, "on_fail": on_fail, "max_turns": max_turns}
        self.script, self.answers = script, []
        self.life = Life(script, **self.more)
        self.runner.run(self.begin(left, after))

    async def begin(self, left, after):
        born = self.life.born

        def armed():
            host = born()
            self.life.store.left, self.life.store.after = left, after
            self.life.born = born
            return host

        self.life.born = armed
        try:
            await self.life.start()
        except EnvironmentFailure:  # it died while it was being started: whoever asked asks again
            await self.life.reborn()
            if await self.life.inner.run(self.life.run) is None:
                await self.life.host.workflows.start(ME, "loop", {"task": "t"}, run=self.life.run)
            await self.life.rest()

    def resting(self):
        return hasattr(self, "runner") and self.runner.run(self.life.status()) not in CLOSED

    @precondition(lambda self: self.resting())
    @rule(action=st.sampled_from(["accept", "reject"]), left=st.integers(0, 6), after=st.booleans())
    def answered(self, action, left, after):
        self.life.store.left, self.life.store.after = left, after
        before = self.runner.run(self.life.log())
        self.runner.run(self.life.answer(action))
        if self.runner.run(self.life.log()) != before:
            self.answers.append(action)

    @precondition(lambda self: hasattr(self, "life"))
    @rule()
    def killed_at_rest(self):
        self.runner.run(self.life.reborn())

    @invariant()
    def nothing_is_committed_after_a_fail(self):
        if hasattr(self, "life"):
            gives_up = self.more["on_fail"] == "give-up"
            law(self.runner.run(self.life.log()), gating=self.more["gating"], gives_up=gives_up)

    def teardown(self):
        if not hasattr(self, "life"):
            return
        for _ in range(6):
            if self.runner.run(self.life.status()) in CLOSED:
                break
            self.answers.append("reject")
            self.runner.run(self.life.answer("reject"))
        assert self.runner.run(self.life.status()) in CLOSED, "a history that does not end"
        assert [type for type, _ in self.runner.run(self.life.log())] == self.runner.run(self.left_alone())
        self.runner.run(self.life.host.executor.close(0.1))
        self.runner.close()

    async def left_alone(self):
        other = Life(self.script, **self.more)
        await other.start()
        for action in self.answers:
            await other.answer(action)
        log = [type for type, _ in await other.log()]
        await other.host.executor.close(0.1)
        return log


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=25, stateful_step_count=4, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.anyio
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("commits", range(2, 7))
async def test_runs_are_resumed_when_their_store_comes_back(commits, after, caplog):
    """The same process, and one line; nothing is raised where nobody listens."""
    unheard = []
    asyncio.get_running_loop().set_exception_handler(lambda _, payload: unheard.append(payload["message"]))
    store, script = Mortal(MemoryStore()), [("revise", "pass"), ("pass", "pass")]
    actor, *critics = cast(script)
    declared = loop(critics=["test.critic-0", "test.critic-1"])
    async with WorkflowHost(actor, *critics, loops={"loop": declared}, store=store, lease=0.5) as host:
        store.left, store.after = commits, after
        run = await host.workflows.start(ME, "loop", {"task": "secret"})
        while run.id in host.executor._conductors:
            await asyncio.wait({host.executor._conductors[run.id][1]})
            await asyncio.sleep(0)
        assert store.dead
        gc.collect()
        store.dead = False
        ended = await host.executor.wait(run.id)
    assert (ended.status, ended.metadata["goalSatisfied"], unheard) == ("completed", True, [])
    messages = [record.getMessage() for record in caplog.records if record.name == "assay.runs"]
    assert messages == [f"run {run.id} is paused until the store can be written again: EnvironmentFailure"]
    assert len(actor.tasks) <= 3  # at most the turn that was under way is taken again


@pytest.fixture
def address(disk):
    return disk


def test_a_loop_killed_between_commits_ends_and_repeats_no_turn(zygote, address, tmp_path):
    log = tmp_path / "log"
    log.touch()
    codes = []
    for failpoint in ("commit.after:4", "commit.before:3", "commit.written:2", ""):
        environ = {"FLOWS_LOG": str(log), "ASSAY_FAILPOINT": failpoint}
        process = zygote.start(
            address, folder=TESTS, target="support.workers.workflows:work", environ=environ
        )
        _, trouble = process.communicate()
        codes.append(process.returncode)
        if process.returncode == 0:
            break
        time.sleep(LEASE)
    assert codes[0] == -signal.SIGKILL
    assert codes[-1] == 0, trouble

    async def read():
        store = await open_store(address)
        try:
            (run,) = await store.runs(RunQuery())
            return run, [event.type for event in await store.events(run.id)]
        finally:
            await store.close()

    run, types = asyncio.run(read())
    assert (run.status, run.metadata["goalSatisfied"]) == ("completed", True)
    assert types.count("agent.verified") == 6  # two critics, three turns
    assert types.count("variable.changed") == 1
    turns = [int(line) for line in log.read_text().split()]
    assert set(turns) == {1, 2, 3}
    assert len(turns) <= 3 + len(codes) - 1  # at most the step that was under way is done again
