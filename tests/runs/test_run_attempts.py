"""Runs that cost their process its life, and leases under a clock that is set back (ADR-0040, ADR-0011)."""

import asyncio
import contextlib
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from assay.agenteval.planning.request import EvalRequest
from assay.agenteval.suites.suite import read_suite
from assay.backends.stores.memory import MemoryStore
from assay.backends.stores.sql.connect import open_engine
from assay.backends.stores.sql.tables import runs as runs_table
from assay.ports import CreateRun, Event, RunQuery, RunUpdate, Transaction
from support.evals import AGENT, TENANT, EvalHost, FunctionAgent, golden, suite_of
from support.stores.opened import any_store
from support.stores.postgres import server
from support.waiting import PATIENCE, heartbeat, wait_until
from support.workflows import ME, WorkflowHost
from test_runs import ExecutorHost

pytestmark = pytest.mark.anyio
TESTS = Path(__file__).parents[1]
HOUR = timedelta(hours=1)


@contextlib.contextmanager
def database(where, folder, *, empty=False):
    if where == "postgres":
        with server().database() if empty else server().store_database() as url:
            yield url
    else:
        yield "memory:" if where == "memory" else f"sqlite:///{folder}/runs.db"


async def evaluation(store):
    host = ExecutorHost(store)
    run = await host.start(4, type="stuck")
    await host.executor.close(0)
    return host.executor, run


async def agent_eval(store):
    hosted = EvalHost(store, FunctionAgent(lambda task: task))
    suite = read_suite(suite_of(golden("a", "A", "a")))
    plan = await hosted.service.plan(EvalRequest(suite_ref=suite.suite_id, agent_id=AGENT), TENANT, suite)
    return hosted.executor, await hosted.service.submit(plan, TENANT, "gone")


async def workflow(store):
    host = WorkflowHost(store=store)
    asked = host.workflows.request(ME, "conformance-noop", {}, {})
    return host.executor, await host.workflows.open(asked, ME.tenant, "run-poison")


async def lose(store, run, times):
    """So many processes take the run up and are never heard of again."""
    await store.release(run, (await store.run(run)).holder)
    for at in range(times):
        assert await store.claim(run, f"lost-{at}", seconds=-1)
        await executes(store, run, f"lost-{at}", ["unit 0"])
    assert await store.claim(run, "next", seconds=-1)
    await store.release(run, "next")


async def executes(store, run, holder, units):
    await store.commit(Transaction(entries=[RunUpdate(run=run, holder=holder, executing=units)]))


@pytest.mark.parametrize("kind", [evaluation, agent_eval, workflow])
async def test_a_run_of_any_kind_that_loses_its_processes_is_set_aside(address, kind):
    async with any_store(address) as store:
        left, run = await kind(store)
        await lose(store, run.id, 3)
        executor = type(left)(store, left._engine, left._kinds, lease=60, attempts=3, grace=0)
        await executor.open()
        ended = await asyncio.wait_for(executor.wait(run.id), PATIENCE)
        await executor.close()
        assert (ended.status, ended.takeovers) == ("failed", 3)
        error = ended.metadata["error"]
        code, message = (
            (error["code"], error["message"]) if kind is workflow else (ended.metadata["code"], error)
        )
        assert code == "process_lost"
        assert "3 processes in a row died or hung while they executed unit 0" in message
        assert {"executing", "losses"}.isdisjoint(ended.metadata)
        (first, *_, last) = await store.events(run.id)
        assert first.type in ("run.started", "evaluation.started")
        assert last.type == ("evaluation.failed" if kind is evaluation else "run.failed")
        assert b"process_lost" in last.data
        if kind is evaluation:
            summary = ended.metadata["summary"]
            assert (summary["total_test_cases"], summary["skipped_test_cases"]) == (4, 4)
            assert (summary["total_checks"], summary["skipped_checks"]) == (4, 4)


@pytest.mark.parametrize(("where", "type"), [("sqlite", "killed"), ("postgres", "stopped")])
def test_a_run_that_kills_or_stops_its_process_is_set_aside(zygote, where, type, tmp_path):
    """With real processes: three are lost, the fourth sets the run aside and goes on."""
    log = tmp_path / "log"
    log.touch()
    with database(where, tmp_path) as address, contextlib.ExitStack() as ending:

        def live():
            process = zygote.start(
                address, "1", type, "poison", folder=TESTS, target="support.workers.runs:work",
                environ={"RUNS_LOG": str(log), "RUNS_LEASE": "0.5", "RUNS_ATTEMPTS": "3"},
            )  # fmt: skip
            ending.callback(process.communicate)
            ending.callback(process.kill)
            return process

        async def found():
            async with any_store(address) as store:
                return await store.runs(RunQuery())

        until = time.monotonic() + PATIENCE
        for many in (1, 2, 3):
            live()
            while len(log.read_text().split()) < many:
                assert time.monotonic() < until
                time.sleep(0.02)
        assert live().wait(PATIENCE) == 0
        (run,) = asyncio.run(found())
        assert (run.status, run.metadata["code"]) == ("failed", "process_lost")
        assert len(log.read_text().split()) == 3


@pytest.mark.parametrize("where", ["sqlite", "postgres"])
@pytest.mark.parametrize(
    ("fatal", "ends"),
    [
        pytest.param(["3", "9", "21", ""], "completed", id="different units"),
        pytest.param(["5", "5", "5", "5", "5"], "process_lost", id="one unit"),
    ],
)
def test_a_run_is_set_aside_for_one_unit_and_not_for_the_number_of_deaths(
    zygote, where, fatal, ends, tmp_path
):
    """The units of the first process are not known: its death counts for unit 5 if no unit has ended since then."""
    log = tmp_path / "log"
    log.touch()
    with database(where, tmp_path) as address:

        async def found():
            async with any_store(address) as store:
                return await store.runs(RunQuery())

        codes = list[int]()
        for unit in fatal:
            process = zygote.start(
                address, "30", "fated", "fate", folder=TESTS, target="support.workers.runs:work",
                environ={"RUNS_LOG": str(log), "RUNS_LEASE": "0.5", "RUNS_ATTEMPTS": "3", "RUNS_FATAL": unit},
            )  # fmt: skip
            try:
                codes.append(process.wait(PATIENCE))
            finally:
                process.kill()
                process.communicate()
            if codes[-1] == 0:
                break
        deaths = len(codes) - 1
        assert codes == [-signal.SIGKILL] * deaths + [0]
        assert log.read_text().split() == fatal[:deaths]
        assert deaths in ((3,) if ends == "completed" else (3, 4))
        (run,) = asyncio.run(found())
        if ends == "completed":
            assert run.status == "completed"
        else:
            assert (run.status, run.metadata["code"]) == ("failed", ends)
            assert "while they executed unit 5 (from case 6) (" in run.metadata["error"]


@pytest.mark.parametrize("where", ["sqlite", "postgres"])
@pytest.mark.parametrize(
    ("preparing", "grace", "ends"),
    [("paused", 10 * PATIENCE, "completed"), ("killed", 0.5, "process_lost")],
    ids=["pauses", "kills"],
)
def test_a_run_whose_preparation_pauses_its_process_is_not_set_aside(
    zygote, where, preparing, grace, ends, tmp_path
):
    """Three processes are lost while they prepare the run. The fourth waits for those that come back."""
    log = tmp_path / "log"
    log.touch()
    with database(where, tmp_path) as address, contextlib.ExitStack() as ending:

        def live(preparing=""):
            process = zygote.start(
                address, "3", "prompt", "prepared", folder=TESTS, target="support.workers.runs:work",
                environ={"RUNS_LOG": str(log), "RUNS_LEASE": "0.5", "RUNS_ATTEMPTS": "3",
                         "RUNS_GRACE": str(grace), "RUNS_PREPARING": preparing},
            )  # fmt: skip
            ending.callback(process.communicate)
            ending.callback(process.kill)
            return process

        async def found():
            async with any_store(address) as store:
                (run,) = await store.runs(RunQuery())
                return run

        lost = []
        for many in (1, 2, 3):
            lost.append(live(preparing))
            wait_until(lambda many=many: log.read_text().split() == [preparing] * many)
        if preparing == "killed":
            assert [one.wait(PATIENCE) for one in lost] == [-signal.SIGKILL] * 3
        last = live()
        if preparing == "paused":
            wait_until(lambda: asyncio.run(found()).takeovers == 3)
            Path(f"{log}.go").touch()
            assert [one.wait(PATIENCE) for one in lost] == [0, 0, 0]
        assert last.wait(PATIENCE) == 0
        run = asyncio.run(found())
        if ends == "completed":
            assert run.status == "completed", run.metadata
        else:
            assert (run.status, run.metadata["code"]) == ("failed", ends)
            assert (
                "3 processes in a row died or hung while they executed its start (" in run.metadata["error"]
            )


def recorded(executor, store):
    """What the executor does from now on: `start` and `release`, in order."""
    done: list[str] = []
    start, release = executor.start, store.release

    def started(run):
        done.append("start")
        return start(run)

    async def released(run, holder):
        done.append("release")
        return await release(run, holder)

    executor._adoption._start = started
    executor.start, store.release = started, released
    return done


async def test_runs_that_were_lost_together_have_their_last_attempt_alone(address):
    async with any_store(address) as store:
        left = [(await evaluation(store)) for _ in range(3)]
        for _, run in left:
            await lose(store, run.id, 2)
        executor = type(left[0][0])(store, left[0][0]._engine, left[0][0]._kinds, lease=60, attempts=3)
        done = recorded(executor, store)
        await executor.open()
        assert done == ["release", "release", "start"]
        for many in (2, 1, 0):
            assert executor.active_runs == 1
            waiting = [run for run in await store.runs(RunQuery()) if run.holder is None and not run.ended]
            assert [run.takeovers for run in waiting] == [2] * many
            (conducted,) = executor._conductors
            await asyncio.wait_for(executor.cancel(conducted, "t"), PATIENCE)
            await heartbeat(executor)
        assert {run.status for run in await store.runs(RunQuery())} == {"cancelled"}
        await executor.close()


LIVES = [  # what each process records in turn that it executes, until it is lost; the number of losses after each
    ([[["a"]], [["a"]], [["a"]]], [1, 2, 3]),
    ([[["a", "b"]], [["b", "c"]], [["c", "b"]]], [1, 2, 3]),
    ([[["a"]], [["b"]], [["c"]]], [1, 1, 1]),  # only losses in a row count
    ([[["a"]], [["b"]], [["a"]]], [1, 1, 1]),
    ([[[]], [[]], [[]]], [0, 0, 0]),
    ([[["a"]], [[]], [["a"]]], [1, 1, 2]),
    ([[], [["a"]], [["a"]]], [1, 2, 3]),  # the first dies before it has recorded what it executes
    ([[], [[]], [[]]], [1, 1, 1]),
    ([[], [["a"]], [["b"]]], [1, 2, 1]),
    # a later process ended the unit and went on, so it is not what ended the processes before
    ([[["start"], [], ["a"]], [["start"], [], ["a"]]], [1, 2]),
    ([[["start"]], [["start"], []], [["start"]], [["start"], []]], [1, 0, 1, 0]),
    ([[["start"]], [["start"]], [["start"], []], [["start"]]], [1, 2, 0, 1]),
    ([[["a", "b"]], [["a", "b"], ["b"]], [["b"]]], [1, 2, 3]),
    ([[["a"]], [["a"], ["b"]], [["a"]]], [1, 1, 1]),
]


async def test_consecutive_losses_count_for_the_units_that_were_executed(address):
    async with any_store(address) as store:
        for run, (lives, expected) in enumerate(LIVES):
            opens = CreateRun(tenant="t", kind="k", holder="0", seconds=-1)
            await store.commit(Transaction(entries=[RunUpdate(run=f"r{run}", opens=opens)]))
            counts = []
            for at, life in enumerate(lives):
                for units in life:
                    await executes(store, f"r{run}", str(at), units)
                counts.append((await store.claim(f"r{run}", str(at + 1), seconds=-1)).takeovers)
            assert counts == expected, lives


async def test_takeovers_count_until_progress_and_a_release_does_not_count(address):
    async with any_store(address) as store:
        await store.commit(
            Transaction(entries=[RunUpdate(run="r", opens=CreateRun(tenant="t", kind="k", holder="a"))])
        )
        await store.release("r", "a")
        assert (await store.claim("r", "b", seconds=-1)).takeovers == 0
        assert (
            await store.claim("r", "b", seconds=-1)
        ).takeovers == 0  # a holder does not lose a run to itself
        assert [run.takeovers for run in await store.adopt("c", seconds=-1)] == [1]
        assert await store.adopt("d", seconds=-1, max_takeovers=1) == []
        await executes(store, "r", "c", ["unit"])
        assert [run.takeovers for run in await store.adopt("d", seconds=60)] == [2]
        assert (await store.run("r")).takeovers == 2
        step = Event("step", b"{}", datetime.now(UTC))
        await store.commit(Transaction(entries=[RunUpdate(run="r", holder="d", events=[step])]))
        assert (await store.run("r")).takeovers == 0


def set_back(address, by):
    """What a clock that was set back leaves: leases that were granted in the future."""
    engine = open_engine(address)
    shift = {name: runs_table.c[name] + by // timedelta(microseconds=1) for name in ("leased", "granted")}
    with engine.connect() as connection, connection.begin():
        connection.execute(sa.update(runs_table).values(shift))
    engine.dispose()


async def test_a_clock_set_back_delays_no_run(disk):
    """A dead process's run is taken up a lease later; a living process keeps its own."""
    async with any_store(disk) as store:
        for run, holder in (("r", "dead"), ("s", "living")):
            opens = CreateRun(tenant="t", kind="k", holder=holder, seconds=2)
            await store.commit(Transaction(entries=[RunUpdate(run=run, opens=opens)]))
        await asyncio.to_thread(set_back, disk, HOUR)
        assert await store.adopt("new", seconds=60) == []  # its lease is counted from now on
        leased = (await store.run("r")).leased
        assert leased is not None
        assert leased - datetime.now(UTC) < HOUR / 2
        assert await store.claim("r", "other", seconds=60) is None
        await store.renew("living", seconds=60)
        await asyncio.sleep(2.1)
        assert [run.id for run in await store.adopt("new", seconds=60)] == ["r"]
        await asyncio.to_thread(set_back, disk, HOUR)
        assert (await store.claim("r", "other", seconds=60)) is None
        leased = (await store.run("r")).leased
        assert leased is not None
        assert leased - datetime.now(UTC) < HOUR / 2


def test_a_run_can_be_cancelled_after_the_clock_was_set_back():
    class Adjusted:
        offset = timedelta(0)

        def now(self):
            return datetime.now(UTC) + self.offset

    async def main():
        clock = Adjusted()
        store = MemoryStore(clock)
        left, run = await evaluation(store)
        await store.release(run.id, (await store.run(run.id)).holder or "")
        assert await store.claim(run.id, "dead", seconds=0.5)
        clock.offset = -HOUR
        executor = type(left)(store, left._engine, left._kinds, lease=0.5, attempts=3)
        await executor.open()
        ended = await asyncio.wait_for(executor.cancel(run.id, "t"), PATIENCE)
        assert ended.status == "cancelled"
        await executor.close()

    asyncio.run(main())


async def test_a_process_that_paused_does_not_count_as_lost(address):
    """Its lease ended, another has the run, and it is back: by its heartbeat, or by a commit that is refused."""
    async with any_store(address) as store:
        left, run = await evaluation(store)
        await store.release(run.id, (await store.run(run.id)).holder)
        for at in range(5):
            executor = type(left)(store, left._engine, left._kinds, lease=-1, attempts=3)
            claimed = await store.claim(run.id, executor.executor_id, seconds=-1)
            assert claimed is not None
            assert claimed.takeovers == 0
            await executes(store, run.id, executor.executor_id, ["unit 0"])
            assert (await store.claim(run.id, f"another-{at}", seconds=60)).takeovers == 1
            executor.conduct(claimed)
            await heartbeat(executor)
            await asyncio.gather(*(task for _, task in executor._conductors.values()), return_exceptions=True)
            assert (await store.run(run.id)).takeovers == 0
            await store.release(run.id, f"another-{at}")


@pytest.mark.parametrize("back", ["its database was away", "it adopts the run again"])
async def test_a_process_that_comes_back_without_its_conductor_does_not_count_as_lost(address, back):
    async with any_store(address) as store:
        left, run = await evaluation(store)
        await store.release(run.id, (await store.run(run.id)).holder)
        executor = type(left)(store, left._engine, left._kinds, lease=60, attempts=3)
        for holder in ("dead", executor.executor_id):
            await store.claim(run.id, holder, seconds=-1)
            await executes(store, run.id, holder, ["unit 0"])
        assert (await store.claim(run.id, "another", seconds=-1)).takeovers == 2
        if back == "its database was away":
            executor._leases.orphan(run.id)
            await executor._leases.renew()
        else:
            assert await store.claim(run.id, executor.executor_id, seconds=60)
        found = await store.run(run.id)
        assert (found.takeovers, found.metadata["losses"]) == (1, {"unit 0": ["dead"]})


async def test_only_another_process_takes_back_a_loss_and_never_below_zero(address):
    async with any_store(address) as store:
        await store.commit(
            Transaction(entries=[RunUpdate(run="r", opens=CreateRun(tenant="t", kind="k", holder="a"))])
        )
        await store.release("r", "a")
        for holder in ("b", "c", "d"):
            await store.claim("r", holder, seconds=-1)
            await executes(store, "r", holder, ["unit"])
        counts = []
        for holder in ("d", "x", "c", "c", "b", "b"):  # d holds it, and x never did
            await store.forgive("r", holder)
            counts.append((await store.run("r")).takeovers)
        assert counts == [2, 2, 1, 1, 0, 0]
        await store.forgive("none", "b")
