"""The contract of the Engine port, on every engine: inline, local, and DBOS on a real PostgreSQL."""

import asyncio
import contextlib
from collections import Counter
from typing import Any

import pytest

from assay.backends.engines.dbos.engine import DbosEngine
from assay.backends.engines.dbos.envelope import Envelope
from assay.backends.engines.dbos.unit_queue import UnitQueue, open_unit_engine
from assay.backends.engines.dbos.unit_worker import UnitWorker, WorkerLimits
from assay.backends.engines.local import MAX_HELD, InlineEngine, LocalEngine
from assay.backends.stores.records.codec import RecordCodec
from assay.concurrency.parking import hold, parked
from assay.errors import InvalidRequest, Refusal, RunTimeout
from support.stores.postgres import server
from support.waiting import PATIENCE

WINDOW = 4


class Harness:
    """An engine on an event loop of its own. `perform` may be replaced by each test."""

    def __init__(self, runner):
        self.run, self.executed = runner.run, Counter()
        self.perform: Any = None

    async def execute(self, work, unit):
        self.executed[work, unit] += 1
        return await self.perform(work, unit)


@pytest.fixture(scope="module", params=["inline", "local", "dbos"])
def module_harness(request):
    with contextlib.ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        harness = Harness(runner)
        if request.param == "inline":
            harness.engine = InlineEngine(harness.execute)
        elif request.param == "local":
            harness.engine = LocalEngine(harness.execute, WINDOW)
        else:
            address = stack.enter_context(server().database())
            stack.enter_context(dbos_engine(harness, address))
        harness.name = request.param
        yield harness


@contextlib.contextmanager
def dbos_engine(harness, address):
    engine, envelope = open_unit_engine(address, 6), Envelope(RecordCodec())
    queue = UnitQueue(engine, "1")

    async def confirm():
        return True

    harness.worker = UnitWorker(
        engine, queue, envelope, harness.execute, confirm, "1", WorkerLimits(concurrency=8)
    )
    harness.engine = DbosEngine(queue, envelope, "1", harness.execute, window=lambda: WINDOW)

    async def launch():
        harness.worker.launch("executor-1")
        harness.engine.open()

    async def stop():
        await harness.engine.close()
        harness.worker.stop()

    harness.run(launch())
    try:
        yield
    finally:
        harness.run(stop())
        queue.close()
        engine.dispose()


@pytest.fixture
def harness(module_harness):
    module_harness.executed.clear()
    return module_harness


async def drawn(units, log=None):
    for unit in units:
        if log is not None:
            log.append(unit)
        yield unit


async def upper(work, unit):
    await asyncio.sleep(0)
    return work.encode() + unit.upper()


def test_each_unit_has_one_result_and_is_executed_once(harness):
    harness.perform = upper
    units = [b"unit %d" % number for number in range(30)] + [b"", bytes(range(256)), b"x" * 1_000_000]

    async def main():
        return [result async for result in harness.engine.map("once", drawn(units))]

    results = harness.run(main())
    assert Counter(results) == Counter(b"once" + unit.upper() for unit in units)
    assert set(harness.executed.values()) == {1}


def test_two_maps_at_the_same_time_do_not_mix(harness):
    harness.perform = upper

    async def collect(work):
        return [result async for result in harness.engine.map(work, drawn([b"a", b"b", b"c"]))]

    async def main():
        return await asyncio.gather(collect("one"), collect("two"))

    one, two = harness.run(main())
    assert (sorted(one), sorted(two)) == ([b"oneA", b"oneB", b"oneC"], [b"twoA", b"twoB", b"twoC"])


def test_units_are_drawn_only_when_they_can_start(harness):
    harness.perform, log = upper, []

    async def main():
        async with contextlib.aclosing(
            harness.engine.map("lazy", drawn([b"%d" % n for n in range(50)], log))
        ) as results:
            taken = 0
            async for _ in results:
                taken += 1
                assert len(log) <= taken + 2 * WINDOW
                if taken == 10:
                    break

    harness.run(main())
    assert 10 <= len(log) < 50


def test_a_unit_may_follow_from_the_result_of_an_earlier_one(harness):
    harness.perform = upper

    async def main():
        seen: asyncio.Queue[bytes] = asyncio.Queue()

        async def chain():
            yield b"a"
            for _ in range(3):
                yield b"after " + await seen.get()

        results = []
        async for result in harness.engine.map("", chain()):
            results.append(result)
            seen.put_nowait(result)
        return results

    assert harness.run(main()) == [b"A", b"AFTER A", b"AFTER AFTER A", b"AFTER AFTER AFTER A"]


@pytest.mark.parametrize(
    ("error", "type", "code"),
    [
        (InvalidRequest("expected a name, got 3"), Refusal, "validation_error"),
        (RunTimeout(3.0), Refusal, RunTimeout(3.0).code),
        (ZeroDivisionError("with content"), Exception, None),
    ],
    ids=["refusal", "limit", "bug"],
)
def test_the_error_of_a_unit_reaches_its_caller(harness, error, type, code):
    async def fail(work, unit):
        raise error

    harness.perform = fail

    async def main():
        async for _ in harness.engine.map(f"fails {error.__class__.__name__}", drawn([b"unit"])):
            pass

    with pytest.raises(type) as caught:
        harness.run(main())
    if code is None:
        assert caught.value.__class__.__name__ == "ZeroDivisionError"
    else:
        assert (str(caught.value), caught.value.code) == (str(error), code)


def test_a_closed_map_stops_its_units(harness):
    started, stopped = asyncio.Event(), asyncio.Event()

    async def hang(work, unit):
        if unit == b"first":
            return b""
        started.set()
        try:
            await asyncio.sleep(600)
        finally:
            stopped.set()

    harness.perform = hang

    async def main():
        results = harness.engine.map("closed", drawn([b"first", b"second"]))
        await anext(results)
        following = asyncio.ensure_future(anext(results))
        await asyncio.wait_for(started.wait(), PATIENCE)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await results.aclose()
        if harness.name == "dbos":  # a worker notices it at its next look
            while not stopped.is_set():
                statuses = await asyncio.to_thread(harness.engine._queue.statuses, harness.worker.running)
                harness.worker.drop([id for id in harness.worker.running if statuses[id].status != "PENDING"])
                await asyncio.sleep(0.05)
        await asyncio.wait_for(stopped.wait(), PATIENCE)

    harness.run(main())
    assert harness.executed == {("closed", b"first"): 1, ("closed", b"second"): 1}


def test_the_local_engine_fills_a_free_slot_before_it_yields_a_result():
    """A caller that takes its time for a result does not keep the next unit waiting."""
    started = []

    async def perform(_, unit):
        started.append(unit)
        if unit != b"0":
            await gate.wait()
        return unit

    async def units():
        for unit in (b"0", b"1", b"2"):
            yield unit

    async def check():
        results = LocalEngine(perform, 2).map("w", units())
        first = await anext(results)
        await asyncio.sleep(0)  # the caller is busy with it
        assert (first, started) == (b"0", [b"0", b"1", b"2"])
        gate.set()
        assert {result async for result in results} == {b"1", b"2"}

    gate = asyncio.Event()
    asyncio.run(check())


@pytest.mark.parametrize(
    ("size", "at_once"), [(0, 20), (MAX_HELD // 4, 4), (MAX_HELD // 4 + 1, 4), (MAX_HELD, 2)]
)
def test_units_that_wait_with_much_in_memory_hold_others_back(size, at_once):
    """Each gives its place up. Two begin before the size of either is known; others begin as these end."""

    async def use():
        waiting, most, answered = list[asyncio.Event](), 0, 0

        async def perform(work, unit):
            nonlocal most
            hold(size)
            with parked():
                waiting.append(asyncio.Event())
                most = max(most, len(waiting))
                await waiting[-1].wait()
            return unit

        async def units():
            for at in range(20):
                yield b"%d" % at

        async def answer():
            """A batch comes back when no more calls arrive: nothing else runs on this loop."""
            nonlocal answered
            while answered < 20:
                for _ in range(200):
                    await asyncio.sleep(0)
                answered += len(waiting)
                for one in waiting:
                    one.set()
                waiting.clear()

        answering = asyncio.create_task(answer())
        results = [result async for result in LocalEngine(perform, 2).map("w", units())]
        await answering
        assert sorted(map(int, results)) == list(range(20))
        return most

    assert asyncio.run(use()) == at_once
