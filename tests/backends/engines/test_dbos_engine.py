"""What the queue of units promises beyond the contract of an engine: fencing, versions, shares, priorities, encryption."""

import asyncio
import base64
import contextlib
import re
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from sqlalchemy import text

from assay.backends.engines.dbos import engine
from assay.backends.engines.dbos.engine import DbosEngine
from assay.backends.engines.dbos.envelope import Envelope, UnitRefused
from assay.backends.engines.dbos.unit_queue import QueuedUnit, UnitQueue, UnitStatus, open_unit_engine
from assay.backends.engines.dbos.unit_worker import UnitWorker, WorkerLimits
from assay.backends.keyring import KeyRing
from assay.backends.otel import OtelTracer
from assay.backends.stores.records.codec import RecordCodec
from assay.backends.stores.sql.tenant_content import delete_units
from assay.errors import EnvironmentFailure
from assay.host.worker import FORGOTTEN, Worker
from assay.ports.kinds import UnitScope, unit_scope
from assay.ports.telemetry import telemetry
from support.servers.otlp_collector import Collector
from support.stores.postgres import server
from support.waiting import PATIENCE

KEYS = {"k1": b"k" * 32}


class Bench:
    """A worker and a conductor's engine in this process. `perform` may be replaced by each test."""

    def __init__(self, runner, address, limits):
        self.run, self.order, self.member = runner.run, [], True
        self.database = open_unit_engine(address, 6)
        self.queue = UnitQueue(self.database, "1")
        self.envelope = Envelope(RecordCodec(KeyRing(KEYS)))
        self.worker = UnitWorker(
            self.database, self.queue, self.envelope, self.execute, self.confirm, "1", limits
        )
        self.engine = DbosEngine(self.queue, self.envelope, "1", self.execute, window=lambda: 64)

    async def confirm(self):
        return self.member

    async def execute(self, work, unit):
        self.order.append((work, unit))
        return await self.perform(work, unit)

    async def open(self):
        self.worker.launch("executor-1")
        self.engine.open()

    async def close(self):
        await self.engine.close()
        self.worker.stop()
        self.queue.close()
        self.database.dispose()

    async def collect(self, work, units, tenant="acme", priority=5):
        unit_scope.set(UnitScope(tenant, priority))

        async def drawn():
            for unit in units:
                yield unit

        return [result async for result in self.engine.map(work, drawn())]

    def sql(self, statement, **values):
        with self.database.begin() as connection:
            return connection.execute(text(statement.replace("units", "assay_units.workflow_status")), values)


@contextlib.contextmanager
def opened(limits):
    with server().database() as address, asyncio.Runner() as runner:
        bench = Bench(runner, address, limits)
        bench.run(bench.open())
        try:
            yield bench
        finally:
            bench.run(bench.close())


@pytest.fixture(scope="module", params=[WorkerLimits(concurrency=2)], ids=["plain"])
def module_bench(request):
    """One at a time: DBOS has one instance in a process."""
    with opened(request.param) as bench:
        yield bench


@pytest.fixture
def bench(module_bench):
    module_bench.order.clear()
    module_bench.perform, module_bench.member = echo, True
    module_bench.worker._fenced.clear()  # as the next launch does it
    return module_bench


async def echo(work, unit):
    return b"done " + unit


async def until(condition):
    end = time.monotonic() + PATIENCE
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.02)


def test_a_unit_after_a_pause_is_sent_at_once(bench, monkeypatch):
    """Results of the run before wait to be deleted meanwhile, at looks that are far apart."""
    monkeypatch.setattr(engine, "AUDIT", 1000 * PATIENCE)
    looks, look = [], bench.engine._exchange

    async def counted(**how):
        await look(**how)
        looks.append(1)

    monkeypatch.setattr(bench.engine, "_exchange", counted)

    async def conduct():
        await bench.collect("pause", [b"before"])
        before = len(looks)
        await until(lambda: len(looks) > before)  # it rests after this look
        return await asyncio.wait_for(bench.collect("pause", [b"after"]), PATIENCE)

    assert bench.run(conduct()) == [b"done after"]


@pytest.fixture
def collector(monkeypatch):
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector


def test_a_unit_belongs_to_the_span_of_its_run(bench, monkeypatch, collector):
    tracer = OtelTracer()
    monkeypatch.setattr(telemetry, "tracer", tracer)

    async def with_span(work, unit):
        with telemetry.span("unit", {}):
            return unit

    async def conduct():
        with telemetry.span("run", {}):
            return await bench.collect("traced", [b"a", b"b"])

    bench.perform = with_span
    try:
        assert sorted(bench.run(conduct())) == [b"a", b"b"]
    finally:
        tracer.close()
    (run,) = [span for span in collector.spans() if span.name == "run"]
    units = [span for span in collector.spans() if span.name == "unit"]
    assert [(unit.trace_id, unit.parent_span_id) for unit in units] == [(run.trace_id, run.span_id)] * 2


def test_a_result_of_an_executor_that_lost_the_unit_is_refused(bench):
    """The row has another executor by the time that the first one writes: the unit is executed again, and has one result."""
    started, go = asyncio.Event(), asyncio.Event()

    async def slow_once(work, unit):
        if len(bench.order) == 1:
            started.set()
            await go.wait()
            return b"late"
        return b"in time"

    bench.perform, refused = slow_once, bench.engine.refused

    async def main():
        task = asyncio.create_task(bench.collect("fenced", [b"unit"]))
        await started.wait()
        await asyncio.to_thread(
            bench.sql, "UPDATE units SET executor_id = 'another' WHERE status = 'PENDING'"
        )
        go.set()
        return await task

    assert bench.run(main()) == [b"in time"]
    assert (bench.engine.refused - refused, len(bench.order)) == (1, 2)


def test_a_worker_that_lost_its_membership_writes_nothing(bench):
    async def main():
        bench.member, refused = False, bench.worker.refused
        task = asyncio.create_task(bench.collect("lost", [b"unit"]))
        await until(lambda: bench.worker.refused == refused + 1)
        rows = await asyncio.to_thread(
            bench.sql, "SELECT status FROM units WHERE name = 'assay.unit' AND status <> 'SUCCESS'"
        )
        assert [row.status for row in rows] == ["PENDING"]
        bench.member = True
        await asyncio.to_thread(bench.worker.recover, ["executor-1"])  # as another worker does it
        return await task

    assert bench.run(main()) == [b"done unit"]
    assert len(bench.order) == 2


def test_a_unit_that_kills_every_worker_is_set_aside(bench):
    started = asyncio.Event()

    async def hang(work, unit):
        started.set()
        await asyncio.sleep(600)

    bench.perform = hang

    async def main():
        task = asyncio.create_task(bench.collect("poison", [b"unit"]))
        for _ in range(3):
            await started.wait()
            started.clear()
            bench.worker.drop(bench.worker.running)
            await until(lambda: not bench.worker.running)
            await asyncio.to_thread(bench.worker.recover, ["executor-1"])
        return await task

    with pytest.raises(UnitRefused, match="3 workers in a row died or hung") as caught:
        bench.run(main())
    assert caught.value.code == "process_lost"
    assert len(bench.order) == 3


def test_a_worker_that_paused_or_stopped_costs_its_units_no_attempt(bench):
    """Five times, where three lost workers are allowed."""
    started = asyncio.Event()

    async def hang(work, unit):
        started.set()
        if len(bench.order) <= 5:
            await asyncio.sleep(600)
        return b"done"

    bench.perform = hang

    async def main():
        task = asyncio.create_task(bench.collect("paused", [b"unit"]))
        for _ in range(5):
            await started.wait()
            started.clear()
            running = bench.worker.running
            bench.worker.drop(running)
            await until(lambda: not bench.worker.running)
            await asyncio.to_thread(bench.worker.recover, ["executor-1"])
            await asyncio.to_thread(bench.engine._queue.forgive, running)
        return await task

    assert bench.run(main()) == [b"done"]
    assert len(bench.order) == 6


def test_a_unit_that_ends_after_its_worker_had_paused_costs_no_attempt(bench):
    """Five times, where three lost workers are allowed. Its result is refused, because others have the unit."""

    async def main():
        bench.member, refused = False, bench.worker.refused
        task = asyncio.create_task(bench.collect("late", [b"unit"]))
        for at in range(1, 6):
            await until(lambda at=at: bench.worker.refused == refused + at)
            (unit,) = bench.worker.give_up()
            bench.member = at == 5
            await asyncio.to_thread(bench.worker.recover, ["executor-1"])  # as another worker does it
            await asyncio.to_thread(bench.queue.forgive, [unit])
        return await task

    assert bench.run(main()) == [b"done unit"]
    assert len(bench.order) == 6


@pytest.mark.parametrize(
    "call",
    [
        lambda queue: queue.put([QueuedUnit("a", "work", "sealed", "acme", 5)]),
        lambda queue: queue.ended(["a"]),
        lambda queue: queue.statuses(["a"]),
        lambda queue: queue.units_of("one"),
        lambda queue: queue.put_back(["a"]),
        lambda queue: queue.forgive(["a"]),
        lambda queue: queue.executors(),
        lambda queue: queue.cancel(["a"]),
        lambda queue: queue.delete(["a"]),
        lambda queue: queue.sweep(datetime.now(UTC), {"1"}),
    ],
    ids=[
        "put",
        "ended",
        "statuses",
        "units_of",
        "put_back",
        "forgive",
        "executors",
        "cancel",
        "delete",
        "sweep",
    ],
)
def test_a_queue_without_its_database_is_an_environment_failure(call):
    database = open_unit_engine("postgresql://nobody@127.0.0.1:1/none", 1)
    try:
        with pytest.raises(EnvironmentFailure, match="the database does not answer"):
            call(UnitQueue(database, "1"))
    finally:
        database.dispose()


def test_units_that_were_there_at_every_loss_of_a_worker_count(caplog):
    """`poison` has lost two workers, `unlucky` none before this one."""
    forgiven = []
    attempts = {"one": {"poison": 3, "unlucky": 1}, "two": {"first": 1, "second": 1}, "three": {}}

    class Queue:
        def units_of(self, executor):
            return set(attempts[executor])

        def statuses(self, ids):
            return {
                id: UnitStatus(id, "PENDING", "", some[id], None)
                for some in attempts.values()
                for id in ids
                if id in some
            }

        def forgive(self, ids):
            forgiven.extend(ids)

    class Lost(Worker):
        def __init__(self):
            self._queue = Queue()
            self.units = SimpleNamespace(recover=lambda executors: 4)

    Lost()._recover(["one", "two", "three"])
    assert forgiven == ["unlucky"]
    assert caplog.messages == ["took over 4 units of workers that are gone: one, two, three"]


class Units:
    """The queue and the units of a worker that has forgotten nothing."""

    executor_id = "me"

    def __init__(self, held, running=()):
        self.held, self.running = set(held), list(running)
        self.dropped, self.forgiven, self.recovered = [], [], []

    def units_of(self, executor):
        return set(self.held)

    def drop(self, ids):
        self.dropped += ids

    def forgive(self, ids):
        self.forgiven += ids

    def recover(self, executors):
        self.recovered += executors
        self.held.clear()


class PausedWorker(Worker):
    def __init__(self, units):
        self._queue = self.units = units
        self.registry = SimpleNamespace(executor_id=units.executor_id)


def test_units_that_others_took_from_a_paused_worker_cost_no_attempt():
    units = Units(held=["mine"], running=["mine", "taken"])
    asyncio.run(PausedWorker(units)._compare_units(Counter()))
    assert units.dropped == units.forgiven == ["taken"]


def test_a_worker_that_stops_costs_no_unit_an_attempt():
    """Also not those that it has taken and not begun."""
    units = Units(held=["begun", "not begun"], running=["begun"])
    PausedWorker(units)._give_back()
    assert (units.recovered, sorted(units.forgiven)) == (["me"], ["begun", "not begun"])


def test_a_worker_leaves_a_unit_it_cannot_execute_to_another(bench):
    async def second_time(work, unit):
        if len(bench.order) < 2:
            raise EnvironmentFailure("this host has no such agent")
        return b"found"

    bench.perform = second_time
    assert bench.run(bench.collect("agentless", [b"unit"])) == [b"found"]


def test_a_unit_of_another_version_is_left(bench):
    other = UnitQueue(bench.database, "2")
    sealed = bench.envelope.seal_unit(b"unit", "version-1")

    async def main():
        unit = QueuedUnit("version-1", "newer", sealed, "acme", 5)
        await asyncio.to_thread(other.put, [unit])
        assert sorted(await bench.collect("older", [b"a", b"b"])) == [b"done a", b"done b"]
        assert (await asyncio.to_thread(other.statuses, ["version-1"]))["version-1"].status == "ENQUEUED"
        await asyncio.to_thread(other.delete, ["version-1"])

    bench.run(main())
    other.close()
    assert {work for work, _ in bench.order} == {"older"}


def test_a_claimed_unit_that_is_not_executed_returns_to_the_queue(bench):
    """DBOS took the unit, and the connection was cut before the answer to its commit: the executor lives, and knows nothing of it."""
    id = bench.engine.id_of("unanswered", b"unit")
    other = UnitQueue(bench.database, "2")  # this worker does not take it
    worker = SimpleNamespace(units=bench.worker, _queue=bench.queue)

    async def main():
        unit = QueuedUnit(id, "unanswered", bench.envelope.seal_unit(b"unit", id), "acme", 5)
        await asyncio.to_thread(other.put, [unit])
        took = "UPDATE units SET status = 'PENDING', executor_id = 'executor-1', application_version = '1' WHERE workflow_uuid = :id"
        await asyncio.to_thread(lambda: bench.sql(took, id=id))
        waiting = asyncio.create_task(bench.collect("unanswered", [b"unit"]))
        idle = Counter()
        for _ in range(FORGOTTEN - 1):
            await Worker._compare_units(worker, idle)
        assert (idle[id], bench.order, waiting.done()) == (FORGOTTEN - 1, [], False)  # it may be starting
        await Worker._compare_units(worker, idle)
        return await asyncio.wait_for(waiting, PATIENCE)

    assert bench.run(main()) == [b"done unit"]
    other.close()


def test_a_second_conductor_finds_the_results_of_the_first(bench):
    """It has the same units: those that have ended are not executed again."""
    second = DbosEngine(bench.queue, bench.envelope, "1", bench.execute, window=lambda: 64)

    async def main():
        first = await bench.collect("taken-over", [b"a", b"b"])
        bench.engine, before = second, bench.engine
        second.open()
        try:
            return first, await bench.collect("taken-over", [b"a", b"b", b"c"])
        finally:
            bench.engine = before
            await second.close()

    first, again = bench.run(main())
    assert sorted(again) == [*sorted(first), b"done c"]
    assert Counter(bench.order) == {("taken-over", unit): 1 for unit in (b"a", b"b", b"c")}


def test_units_of_a_lower_number_start_first(bench):
    go = asyncio.Event()

    async def wait(work, unit):
        if work == "blocks":
            await go.wait()
        return b""

    bench.perform = wait

    async def main():
        blocking = asyncio.create_task(bench.collect("blocks", [b"1", b"2"]))
        await until(lambda: len(bench.order) == 2)
        late = asyncio.create_task(bench.collect("late", [b"%d" % n for n in range(4)], priority=9))
        soon = asyncio.create_task(bench.collect("soon", [b"%d" % n for n in range(4)], priority=1))
        queued = "SELECT count(*) FROM units WHERE status = 'ENQUEUED'"
        await until(lambda: bench.sql(queued).scalar() == 8)
        go.set()
        await asyncio.gather(blocking, late, soon)

    bench.run(main())
    assert [work for work, _ in bench.order[2:]] == ["soon"] * 4 + ["late"] * 4


def test_a_long_queue_of_a_tenant_does_not_delay_another(bench):
    async def main():
        many = asyncio.create_task(bench.collect("many", [b"%d" % n for n in range(24)], tenant="large"))
        await until(lambda: len(bench.order) >= 2)
        await bench.collect("few", [b"%d" % n for n in range(3)], tenant="small")
        done = len(bench.order)
        await many
        return done

    assert bench.run(main()) < 27


def test_the_tables_of_the_queue_hold_no_content(bench):
    async def secret(work, unit):
        return b"the secret answer"

    bench.perform = secret
    assert bench.run(bench.collect("sealed", [b"the secret question"])) == [b"the secret answer"]
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'assay_units'"
    with bench.database.begin() as connection:
        names = connection.execute(text(tables)).scalars().all()
        rows = [
            str(row)
            for name in names
            for row in connection.execute(text(f'SELECT one::text FROM assay_units."{name}" one')).scalars()
        ]
    assert any("sealed-" in row for row in rows)
    for row in rows:
        assert "secret" not in row
        for part in re.findall(r"[A-Za-z0-9+/]{8,}={0,2}", row):
            with contextlib.suppress(ValueError):
                assert b"secret" not in base64.b64decode(part, validate=True)


@pytest.mark.parametrize(
    "module_bench",
    [WorkerLimits(concurrency=4, tenant_concurrency=1, tenant_units_per_minute=50)],
    indirect=True,
    ids=["limited"],
)
def test_a_tenant_has_at_most_its_units_at_once(bench):
    running, most = Counter(), Counter()

    async def count(work, unit):
        running[work] += 1
        most[work] = max(most[work], running[work])
        most["all"] = max(most["all"], running.total())
        await until(lambda: most["all"] >= 2)  # both tenants have met
        await asyncio.sleep(0.15)
        running[work] -= 1
        return b""

    bench.perform = count

    async def main():
        units = [b"%d" % n for n in range(3)]
        await asyncio.gather(bench.collect("a", units, tenant="a"), bench.collect("b", units, tenant="b"))

    bench.run(main())
    assert most == {"a": 1, "b": 1, "all": 2}


def test_the_deletion_of_a_tenant_deletes_its_old_units(bench):
    units = [QueuedUnit(f"{tenant}-unit", "work", "sealed", tenant, 1) for tenant in ("leaving", "other")]
    bench.queue.put(units)
    bench.sql("UPDATE units SET status = 'SUCCESS' WHERE workflow_uuid IN ('leaving-unit', 'other-unit')")
    now = datetime.now(UTC)

    def delete(before):
        with bench.database.begin() as connection:
            return delete_units(connection, "leaving", before, 100)

    assert [delete(now - timedelta(hours=1)), delete(now + timedelta(seconds=5)), delete(now)] == [0, 1, 0]
    assert bench.queue.statuses(["leaving-unit", "other-unit"]).keys() == {"other-unit"}
