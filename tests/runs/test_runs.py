"""What an executor promises of its runs: cancelled, followed, parked, asked for by others, on every kind of store."""

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from assay.backends.engines.local import LocalEngine
from assay.backends.stores.open import open_store
from assay.checks import STANDARD
from assay.errors import Conflict, NotFound, Unavailable
from assay.fep.execution.execute import ExecutionOptions
from assay.fep.planning.request import contexts_of
from assay.fep.records import kind as kind_of_runs
from assay.fep.records.kind import EvaluationKind
from assay.fep.records.run_header import TALLY, ShardUnit, request_chunk
from assay.fep.records.service import EvaluationService, PlannedEvaluation
from assay.ports import EvidenceChunk, RunUpdate, Services, Transaction
from assay.ports.kinds import UnitOutcome
from assay.protocol.evaluation import Check, ExperimentMetadata
from assay.results.tally import Tally
from assay.runs.executor import RunExecutor
from support.waiting import PATIENCE, until
from support.workers.runs import Logged, Prompt

USUAL = ExecutionOptions()


class Stuck(Logged):
    """From the fourth case on it does not come back."""

    type = "stuck"

    async def run(self, services):
        if self.at >= 3:
            await asyncio.sleep(3600)
        return await super().run(services)


class Gate(Logged):
    """It ends when the test says so."""

    type = "gate"

    async def run(self, services):
        await Gate.go.wait()
        return await super().run(services)


class Tomorrow:
    def now(self):
        return datetime.now(UTC) + timedelta(days=1)


class ExecutorHost:
    """An executor in this process."""

    def __init__(self, store, lease=1.0, how=USUAL, clock=None, checks=(Logged, Prompt, Stuck, Gate)):
        services = Services(clock=clock) if clock else Services()
        registry = STANDARD.with_checks(checks)
        kind = self.kind = EvaluationKind(store, registry, services, how)
        engine = LocalEngine(lambda _, unit: kind.perform(unit), 4)
        self.executor = RunExecutor(store, engine, {kind.name: kind}, lease=lease)
        self.service = EvaluationService(store, registry, services, lease=lease)
        self.store = store

    async def start(self, cases, tenant="t", type="logged"):
        checks = [Check(type=type, arguments={"at": "$.test_case.input"})]
        contexts = contexts_of(
            [{"id": str(at), "input": at} for at in range(cases)],
            [{"value": at} for at in range(cases)],
            self.service.services.limits,
        )
        asked = PlannedEvaluation(self.service.plan(checks), checks, ExperimentMetadata(name="x"), cases)
        run = await self.service.submit(asked, contexts, tenant, self.executor.executor_id)
        self.executor.start(run)
        return run


def with_executor(test):
    """Run a coroutine with an executor on every kind of store."""

    def run(address, tmp_path, monkeypatch):
        monkeypatch.setenv("RUNS_LOG", str(tmp_path / "log"))

        async def main():
            store = await open_store(address)
            try:
                await test(ExecutorHost(store))
            finally:
                await store.close()

        asyncio.run(main())

    run.__name__ = test.__name__
    return run


@with_executor
async def test_a_cancelled_run_keeps_what_is_done_and_shows_the_rest_as_skip(host):
    await host.executor.open()
    run = await host.start(2_000)
    await host.store.wait_for_events(run.id, after=4, timeout=PATIENCE)
    ended = await host.executor.cancel(run.id, "t")
    assert ended.status == "cancelled"
    lines = [line async for line in host.service.results(ended)]
    cases = [json.loads(line) for line in lines]
    statuses = Counter([case["status"] for case in cases])
    assert statuses.total() == 2_000
    assert 0 < statuses["completed"] < 2_000
    summary = ended.metadata["summary"]
    assert summary["skipped_test_cases"] == statuses["skip"]
    for count in ("total_checks", "completed_checks", "skipped_checks"):
        assert summary[count] == sum(case["summary"][count] for case in cases)
    assert [line async for line in host.service.results(ended)] == lines  # what has ended does not change
    tally = await host.service.tally(ended)
    assert [line async for line in host.service.results(ended, tally=tally)] == lines
    assert msgspec.to_builtins(tally.summary()) == summary
    with pytest.raises(Conflict):
        await host.executor.cancel(run.id, "t")
    assert await host.executor.stop(run.id, "t") == ended  # what has ended is as good as stopped
    await host.executor.close()


@with_executor
async def test_a_run_with_an_unknown_check_ends_and_is_read(host):
    await host.executor.open()
    run, stopped = await host.start(30, type="stuck"), await host.start(30, type="stuck")
    await host.store.wait_for_events(stopped.id, after=1, timeout=PATIENCE)
    await host.executor.cancel(stopped.id, "t")
    await host.executor.close(seconds=0)
    other = ExecutorHost(host.store, checks=[Logged])
    await other.executor.open()
    failed = await other.executor.wait(run.id)
    assert failed.status == "failed"
    assert failed.metadata["error"].startswith("checks[0].type: there is no check 'stuck'; there are")
    for run in (failed, await other.store.run(stopped.id)):
        cases = [json.loads(line) async for line in other.service.results(run)]
        assert len(cases) == 30
        assert cases[-1]["status"] == "skip"
        assert [check["check_type"] for check in cases[-1]["check_results"]] == ["stuck"]
        assert run.metadata["summary"]["total_checks"] == sum(
            case["summary"]["total_checks"] for case in cases
        )
    await other.executor.close()


@with_executor
async def test_a_follower_gets_every_event_once_from_its_cursor(host):
    await host.executor.open()
    run = await host.start(50)
    followers = [asyncio.create_task(collect(host.executor, run.id, after)) for after in (-1, -1, 10)]
    await host.executor.wait(run.id)
    seen = await asyncio.gather(*followers)
    whole = [event.sequence for event in await host.store.events(run.id)]
    assert seen == [whole, whole, whole[11:]]
    await host.executor.close()


async def collect(desk, run, after):
    return [event.sequence async for event in desk.follow(run, "t", after) if event is not None]


@with_executor
async def test_a_closing_executor_releases_its_runs_and_another_adopts_them(host):
    await host.executor.open()
    Gate.go = asyncio.Event()
    run = await host.start(300, type="gate")
    while (await host.store.run(run.id)).status != "running":  # noqa: ASYNC110  # the store tells of events alone
        await asyncio.sleep(0.01)
    await host.executor.close(seconds=5)
    Gate.go.set()
    with pytest.raises(Unavailable):
        host.executor.start(run)
    parked = await host.store.run(run.id)
    assert (parked.status, parked.holder) == ("running", None)
    other = ExecutorHost(host.store)
    await other.executor.open()
    assert (await other.executor.wait(run.id)).status == "completed"
    assert len([line async for line in other.service.results(await other.store.run(run.id))]) == 300
    await other.executor.close()


@with_executor
async def test_a_run_of_another_tenant_is_not_found(host):
    run = await host.start(1)
    statuses = []
    for name, tenant in ((run.id, "other"), ("eval_none", "t")):
        try:
            await host.executor.get(name, tenant)
        except NotFound as unknown:
            statuses.append(str(unknown).replace(name, "…"))
    assert len(set(statuses)) == 1
    assert len(statuses) == 2
    with pytest.raises(NotFound):
        await host.executor.cancel(run.id, "other")
    assert [event async for event in host.executor.follow(run.id, "other")] == []
    assert (await host.executor.wait(run.id)).status == "completed"
    await host.executor.close()


@with_executor
async def test_another_process_can_cancel_a_run(host):
    await host.executor.open()
    run = await host.start(5_000)
    other = ExecutorHost(host.store)
    ended = await other.executor.cancel(run.id, "t")
    assert ended.status == "cancelled"
    await host.executor.close()


@with_executor
async def test_a_cancelled_run_whose_units_ended_first_ends_cancelled(host):
    """As on workers: each stops the units that it executes, and the holder of the run may be another one."""
    await host.executor.open()
    Gate.go = asyncio.Event()
    run = await host.start(1, type="gate")
    while (await host.store.run(run.id)).status != "running":  # noqa: ASYNC110  # the store tells of events alone
        await asyncio.sleep(0.01)
    update = RunUpdate(run=run.id, when=frozenset({"running"}), status="cancelling")
    await host.store.commit(Transaction(entries=[update]))
    Gate.go.set()
    assert (await host.executor.wait(run.id)).status == "cancelled"
    await host.executor.close(1)


async def check_it_was_too_late(host, run):
    """The first three are done and stay; the rest is `skip`, and the reason says which limit and how to raise it."""
    ended = await host.executor.wait(run.id)
    assert (ended.status, ended.metadata["code"]) == ("failed", "run_timeout")
    assert "(ASSAY_RUN_SECONDS); finished results are stored" in ended.metadata["error"]
    statuses = [json.loads(line)["status"] async for line in host.service.results(ended)]
    assert statuses == ["completed"] * 3 + ["skip"] * 17
    summary = ended.metadata["summary"]
    assert (summary["total_test_cases"], summary["skipped_test_cases"]) == (20, 17)
    assert host.service.operation(ended).error.error == "run_timeout"


@with_executor
async def test_a_run_that_times_out_keeps_its_results(host):
    timed = ExecutorHost(host.store, how=ExecutionOptions(run_seconds=4))
    await timed.executor.open()
    await check_it_was_too_late(timed, await timed.start(20, type="stuck"))
    await timed.executor.close()


@with_executor
async def test_a_restart_does_not_extend_the_timeout_of_a_run(host):
    day = ExecutionOptions(run_seconds=86_400)
    first = ExecutorHost(host.store, how=day)
    await first.executor.open()
    run = await first.start(20, type="stuck")
    await host.store.wait_for_events(
        run.id, after=2, timeout=PATIENCE
    )  # three units are done, and the rest is stuck
    await first.executor.close(seconds=0.1)
    second = ExecutorHost(host.store, how=day, clock=Tomorrow())
    await second.executor.open()
    await check_it_was_too_late(second, run)
    await second.executor.close()


@with_executor
async def test_the_table_of_an_inline_run_is_read_in_every_stored_form(host):
    checks = [Check(type="exact_match", arguments={"actual": "$.output.value", "expected": 1})]
    contexts = contexts_of(
        [{"id": str(at), "input": at} for at in range(3)],
        [{"value": at} for at in range(3)],
        host.service.services.limits,
    )
    asked = PlannedEvaluation(host.service.plan(checks), checks, None, 3)
    scored = await host.service.run_inline(asked, contexts, "t")
    await host.service.save(scored)
    now = await host.service.tally(scored.run)
    assert [(row.passed, row.failed) for row in now.rows.values()] == [(1, 2)]

    before = await host.service.run_inline(asked, contexts, "t")  # once it was a piece of its own
    apart = [
        request_chunk(asked.request()),
        EvidenceChunk(kind=TALLY, last=2, data=msgspec.json.encode(now.record(final=True))),
    ]
    entry = msgspec.structs.replace(before.entry, evidence=[*apart, before.entry.evidence[1]])
    await host.store.commit(Transaction(entries=[entry]))
    assert (await host.service.tally(before.run)).record(final=True) == now.record(final=True)

    while await host.store.erase(scored.run.id):
        pass
    assert (await host.service.tally(scored.run)).record() == Tally().record()


@with_executor
async def test_a_unit_that_waited_past_the_time_of_its_run_does_not_begin(host):
    """As in a queue of workers. Its cases count as skipped, as those of units that were never drawn."""
    run = await host.start(3, type="stuck")
    await host.executor.close(0)
    kind = host.executor._kinds[run.kind]
    state = await kind.restore(host.store, run)
    units = [unit async for unit in state.units(host.store)]
    state._time_budget.seconds = 1e-9  # the kind has the same
    assert [state.outcome(await kind.perform(unit)) for unit in units] == [UnitOutcome([])] * len(units)
    assert units
    summary = state.ending("completed").metadata["summary"]
    assert (summary["total_test_cases"], summary["skipped_test_cases"]) == (3, 3)


@pytest.mark.parametrize("between", [0.0, 0.2], ids=["at once", "with pauses"])
def test_a_process_that_only_executes_units_keeps_a_plan_until_no_more_come(monkeypatch, tmp_path, between):
    """As a worker does, which is not told of the end of the run."""
    monkeypatch.setattr(kind_of_runs, "IDLE", 0.3)
    monkeypatch.setenv("RUNS_LOG", str(tmp_path / "log"))

    async def main():
        store = await open_store("memory:")
        conducting, executing = ExecutorHost(store), ExecutorHost(store).kind
        await conducting.executor.open()
        run = await conducting.start(2)
        await conducting.executor.wait(run.id)
        unit = msgspec.msgpack.encode(ShardUnit(run=run.id, number=0, first=0, lines=[]))
        for _ in range(3):
            await executing.perform(unit)
            assert len(executing._plans) == 1
            await asyncio.sleep(between)
        await until(lambda: len(executing._plans) == 0)
        await executing.perform(unit)
        assert len(executing._plans) == 1
        await conducting.executor.close()
        await store.close()

    asyncio.run(main())


@with_executor
async def test_an_executor_keeps_no_plan_of_a_run_that_has_ended(host):
    await host.executor.open()
    runs = [await host.start(8) for _ in range(3)] + [await host.start(4, type="stuck")]
    await host.executor.cancel(runs[-1].id, "t")
    assert [(await host.executor.wait(run.id)).status for run in runs] == ["completed"] * 3 + ["cancelled"]
    assert len(host.executor._kinds[runs[0].kind]._plans) == 0
    await host.executor.close()
