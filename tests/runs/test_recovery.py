"""Who conducts a run when several could: two that take it up at once, one whose lease ended while it worked, one that leaves (ADR-0011)."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

from assay.agenteval.planning.request import EvalRequest
from assay.agenteval.suites.suite import read_suite
from assay.backends.stores.memory import MemoryStore
from assay.backends.stores.open import open_store
from assay.ports import Transaction
from support.evals import AGENT, TENANT, EvalHost, FunctionAgent, golden, suite_of
from support.waiting import PATIENCE, heartbeat
from support.workflows import ME, WorkflowHost

ABC = suite_of(*(golden(name, name.upper(), name) for name in "abc"))


class Gated:
    """An agent that is not done with some tasks before it may be, whether or not it is cancelled."""

    def __init__(self, *tasks, deaf=True):
        self.asked, self.held, self.may = Counter(), set(tasks), asyncio.Event()
        self.reached, self._deaf = asyncio.Event(), deaf

    async def __call__(self, task):
        self.asked[task] += 1
        if task in self.held:
            self.reached.set()
            while not self.may.is_set():
                try:
                    await self.may.wait()
                except asyncio.CancelledError:
                    if not self._deaf:
                        raise
        return task.upper()


def in_processes(test):
    """Run a coroutine with whatever opens one store as another process would, on every kind of store."""

    def run(address, caplog):
        async def main():
            async with AsyncExitStack() as stack:
                only = MemoryStore()

                async def opened():
                    if address == "memory:":
                        return only
                    store = await open_store(address)
                    stack.push_async_callback(store.close)
                    return store

                await asyncio.wait_for(test(opened, caplog), PATIENCE)

        asyncio.run(main())

    run.__name__ = test.__name__
    return run


async def hosted(opened, agent):
    """A process: it looks for runs only on request."""
    made = EvalHost(await opened(), FunctionAgent(agent))
    made.executor._leases.seconds = 1_000.0
    return made


async def lost(host):
    """A run that somebody took in, who is gone."""
    read = read_suite(ABC)
    plan = await host.service.plan(EvalRequest(suite_ref=read.suite_id, agent_id=AGENT), TENANT, read)
    run = await host.service.submit(plan, TENANT, "somebody")
    await host.store.release(run.id, "somebody")
    return run


async def recorded(host, run, many):
    """Once so many tasks have a score."""
    after = -1
    while many:
        await host.store.wait_for_events(run.id, after=after, timeout=PATIENCE)
        for event in await host.store.events(run.id, after=after):
            many, after = many - (event.type == "eval.scored"), event.sequence


def conducting(run):
    """What its only conductor so far does: waited for, it has left."""
    return [task for task in asyncio.all_tasks() if task.get_name() == f"run {run.id}"]


async def scored(host, run):
    """How often each task has a score; and the log begins and ends once."""
    events = await host.events(run)
    types = Counter(event["type"] for event in events)
    assert [types[type] for type in ("run.started", "eval.started", "eval.completed", "run.completed")] == [
        1
    ] * 4
    return Counter(event["payload"]["taskId"] for event in events if event["type"] == "eval.scored")


@in_processes
async def test_of_two_concurrent_adoptions_one_has_each_run(opened, caplog):
    agents = [Gated(), Gated()]
    one, two = [await hosted(opened, agent) for agent in agents]
    runs = [await lost(one) for _ in range(6)]
    await asyncio.gather(
        heartbeat(one.executor), heartbeat(two.executor), heartbeat(two.executor), heartbeat(one.executor)
    )
    for run in runs:
        assert (await one.executor.wait(run.id)).status == "completed"
        assert await scored(one, run) == dict.fromkeys("abc", 1)
    assert agents[0].asked + agents[1].asked == dict.fromkeys("abc", 6)
    await asyncio.gather(one.executor.close(), two.executor.close())
    assert not caplog.records


async def _late(opened, caplog, second):
    """`b` and `c` are under way where the lease ends; the other is held at some tasks, too, or at none."""
    first = Gated("b", "c")
    one, two = await hosted(opened, first), await hosted(opened, second)
    run = await one.begin(ABC)
    await recorded(one, run, 1)
    await first.reached.wait()
    at_first = conducting(run)
    await one.store.release(run.id, one.executor.executor_id)  # as if it were over
    await heartbeat(two.executor)
    if second.held:
        await second.reached.wait()
    else:
        await two.executor.wait(run.id)
    first.may.set()
    await asyncio.wait(at_first)
    second.may.set()
    assert (await two.executor.wait(run.id)).status == "completed"
    assert await scored(two, run) == dict.fromkeys("abc", 1)
    assert (first.asked, second.asked) == (dict.fromkeys("abc", 1), dict.fromkeys("bc", 1))
    await asyncio.gather(one.executor.close(), two.executor.close())
    assert not caplog.records


@in_processes
async def test_a_write_after_its_lease_is_refused_while_another_works(opened, caplog):
    await _late(opened, caplog, Gated("c"))


@in_processes
async def test_a_write_after_its_lease_is_refused_when_the_run_has_ended(opened, caplog):
    await _late(opened, caplog, Gated())


async def _twice(opened):
    """A run that was one's, then another's who is done with all but `c` and leaves, while the first still works at `b` and `c`."""
    first, second = Gated("b", "c"), Gated("c", deaf=False)
    one, two = await hosted(opened, first), await hosted(opened, second)
    run = await one.begin(ABC)
    await recorded(one, run, 1)
    await first.reached.wait()
    at_first = conducting(run)
    await one.store.release(run.id, one.executor.executor_id)
    await heartbeat(two.executor)
    await recorded(two, run, 2)
    await second.reached.wait()
    await two.executor.close(seconds=0)
    left = await one.store.run(run.id)
    assert (left.status, left.holder) == ("running", None)
    return one, first, run, at_first


@in_processes
async def test_a_run_adopted_while_its_old_conductor_leaves_goes_on(opened, caplog):
    one, first, run, _ = await _twice(opened)
    await heartbeat(one.executor)  # it is somebody else's, and then nobody's
    first.may.set()
    ended = await one.executor.wait(run.id)
    assert ended.status == "completed"
    assert await scored(one, run) == dict.fromkeys("abc", 1)
    await one.executor.close()


@in_processes
async def test_a_paused_process_writes_nothing_after_its_lease(opened, caplog):
    one, first, run, at_first = await _twice(opened)
    claimed = await one.store.claim(run.id, one.executor.executor_id, seconds=1_000)
    one.executor.start(claimed)  # before it noticed that it had lost it
    first.may.set()
    await asyncio.wait(at_first)
    await heartbeat(one.executor)
    assert (await one.executor.wait(run.id)).status == "completed"
    assert await scored(one, run) == dict.fromkeys("abc", 1)
    await one.executor.close()


@in_processes
async def test_an_acknowledged_cancel_survives_its_process(opened, caplog):
    """What is under way does not stop in time: the response says that the run is stopping, and the store has it."""
    first = Gated("b")
    one, two = await hosted(opened, first), await hosted(opened, Gated())
    run = await one.begin(ABC)
    await first.reached.wait()
    status = await one.executor.cancel(run.id, TENANT, timeout=0.05)
    assert status.status == (await two.store.run(run.id)).status == "cancelling"
    await one.store.release(run.id, one.executor.executor_id)  # as if its process were gone
    await heartbeat(two.executor)
    assert (await two.executor.wait(run.id)).status == "cancelled"
    first.may.set()
    await asyncio.gather(one.executor.close(), two.executor.close())


class Slow(MemoryStore):
    """Waits at the moment when a run comes to rest: before that is written, or when it has been let go."""

    def __init__(self, where):
        super().__init__()
        self._address, self.reached, self.may = where, asyncio.Event(), asyncio.Event()

    async def commit(self, batch: Transaction):
        if self._address == "commit" and any(entry.status == "waiting-approval" for entry in batch.entries):
            self.reached.set()
            await self.may.wait()
        return await super().commit(batch)

    async def release(self, run, holder):
        await super().release(run, holder)
        if self._address == "release":
            self.reached.set()
            await self.may.wait()


def test_an_answer_during_the_suspension_of_a_run_counts():
    async def main():
        store = Slow("release")
        async with WorkflowHost(store=store, lease=1_000.0) as house:
            run = await house.workflows.start(ME, "conformance-approval")
            await store.reached.wait()
            await house.workflows.respond(ME, run.id, "gate", {"action": "accept"})
            store.may.set()
            ended = await asyncio.wait_for(house.executor.wait(run.id), PATIENCE)
            assert ended.status == "completed"

    asyncio.run(main())


def test_a_cancel_during_the_suspension_of_a_run_counts():
    async def main():
        store = Slow("commit")
        async with WorkflowHost(store=store, lease=1_000.0) as house:
            run = await house.workflows.start(ME, "conformance-approval")
            await store.reached.wait()
            cancelling = asyncio.create_task(house.executor.cancel(run.id, "t"))
            for _ in range(10):
                await asyncio.sleep(0)
            store.may.set()
            ended = await asyncio.wait_for(cancelling, PATIENCE)
            assert ended.status == "cancelled"
            assert [event["type"] for event in await house.events(ended)].count("run.cancelled") == 1

    asyncio.run(main())
