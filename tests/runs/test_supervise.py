"""Background tasks go on whatever they die of; of several answers to one interrupt one counts."""

import asyncio
import logging
from datetime import timedelta

import pytest

from assay.backends.stores.open import open_store
from assay.checks.checker import Checker
from assay.checks.runner import fault_of
from assay.checks.standard.contains import Contains
from assay.concurrency.event_loop import run_guarded, supervise
from assay.errors import Conflict, EnvironmentFailure, Unavailable
from assay.ports.telemetry import telemetry
from assay.seams.sample_workflows import samples
from assay.workflow.state.definition import document_of, read
from support.waiting import PATIENCE
from support.workflows import ME, WorkflowHost

pytestmark = pytest.mark.anyio
SECRET = "what the user wrote"


@pytest.fixture
def deaths(monkeypatch):
    """How often each task died."""
    monkeypatch.setattr(telemetry, "on", True)
    monkeypatch.setattr(telemetry, "counts", {})
    return lambda name: telemetry.counts.get(("assay_task_deaths", name), 0)


@pytest.mark.parametrize(
    "trouble", [ValueError, AssertionError, RecursionError, EnvironmentFailure, Unavailable]
)
def test_a_background_task_is_restarted_after_any_exception(trouble, deaths, caplog):
    async def main():
        lives = 0
        done = asyncio.Event()

        async def work():
            nonlocal lives
            lives += 1
            if lives <= 3:
                raise trouble(SECRET) if trouble is not Unavailable else Unavailable(SECRET, retry_after=1)
            done.set()

        task = supervise("test", work, restart_seconds=0.001)
        await asyncio.wait_for(done.wait(), PATIENCE)
        await asyncio.wait_for(task, PATIENCE)
        assert deaths("test") == 3

    with caplog.at_level(logging.DEBUG):
        asyncio.run(main())
    messages = [record.getMessage() for record in caplog.records if record.name == "assay.tasks"]
    assert len(messages) == 3
    assert all(trouble.__name__ in line and "test_supervise.py:" in line for line in messages)
    assert SECRET not in caplog.text


def fails(depth=0):
    """A bug that hides another one."""
    if depth:
        fails(depth - 1)
    try:
        raise KeyError(SECRET)
    except KeyError:
        raise ValueError(SECRET)  # noqa: B904


@pytest.mark.parametrize("depth", [0, 200])
def test_a_logged_traceback_has_types_and_places_and_no_message(depth, caplog):
    with pytest.raises(ValueError, match=SECRET) as caught:
        fails(depth)
    assert SECRET in str(fault_of(caught.value, Contains)), "the caller sees it"
    (records,) = caplog.records
    assert records.levelname == "ERROR"
    line = records.getMessage()
    assert line.startswith("the check contains failed: a bug in assay: ValueError at runs/test_supervise.py:")
    assert ", after KeyError at runs/test_supervise.py:" in line
    assert " fails" in line
    assert len(line) < 3_000
    assert SECRET not in caplog.text


def test_an_exception_of_a_foreign_check_is_not_internal(caplog):
    class Foreign(Checker):
        type = "foreign"

    assert SECRET in str(fault_of(ValueError(SECRET), Foreign))
    assert not caplog.records


def test_an_expected_failure_is_not_a_crash_and_a_cancel_ends_the_task(deaths):
    async def fails():
        raise EnvironmentFailure("away")

    async def main():
        assert isinstance(await run_guarded("test", fails(), EnvironmentFailure), EnvironmentFailure)
        assert deaths("test") == 0
        task = supervise("test", asyncio.Event().wait, restart_seconds=0.001)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def gate(seconds):
    shown = document_of(samples()["conformance-approval"])
    shown["nodes"][0]["config"]["expiresSeconds"] = seconds
    return read(shown | {"id": "gate"})


class Later:
    """A clock that may be set forward."""

    def __init__(self, clock):
        self._clock, self.offset = clock, timedelta(0)

    def now(self):
        return self._clock.now() + self.offset


async def test_one_interrupt_that_cannot_expire_does_not_delay_the_others(address, deaths):
    store = await open_store(address)
    async with WorkflowHost(workflows=[gate(seconds=60)], store=store, lease=60.0) as host:
        runs = [await host.run("gate") for _ in range(3)]
        clock = host.workflows._clock = Later(host.workflows._clock)
        clock.offset = timedelta(hours=1)
        bad, story = runs[1].id, host.kind.restore

        async def torn(store, run):
            if run.id == bad:
                raise KeyError(SECRET)
            return await story(store, run)

        host.kind.restore = torn
        assert await host.workflows.expire_waits() == 2
        assert deaths("expiry") == 1
        host.kind.restore = story
        assert await host.workflows.expire_waits() == 1
        for run in runs:
            ended = await asyncio.wait_for(host.executor.wait(run.id), PATIENCE)
            assert ended.status == "failed"
    await store.close()


async def test_of_concurrent_answers_one_counts_and_the_others_conflict(address, deaths, series):
    """While the time runs out: silence answers too."""
    stores = [await open_store(address)]
    stores.append(stores[0] if address == "memory:" else await open_store(address))
    one = WorkflowHost(workflows=[gate(seconds=60)], store=stores[0], lease=60.0)
    two = WorkflowHost(workflows=[gate(seconds=60)], store=stores[1], lease=60.0)
    async with one, two:
        for clock in (one.workflows, two.workflows):
            clock._clock = Later(clock._clock)
        for late in [False, True] * series(1, 5):
            run = await one.run("gate")
            two.workflows._clock.offset = timedelta(hours=late)
            answers = [
                host.workflows.respond(ME, run.id, "gate", {"action": "accept"})
                for host in (one, two)
                for _ in range(3)
            ]
            came = await asyncio.gather(
                *answers,
                one.workflows.expire_waits(),
                two.workflows.expire_waits(),
                return_exceptions=True,
            )
            refused = [one for one in came[:6] if isinstance(one, BaseException)]
            assert all(isinstance(one, Conflict) for one in refused), came
            silent = [one for one in came[6:] if isinstance(one, int)]
            assert len(silent) == 2, came
            accepted, expired = 6 - len(refused), sum(silent)
            assert accepted + expired <= 1 if late else (accepted, expired) == (1, 0)
            ended = await asyncio.wait_for(one.executor.wait(run.id), PATIENCE)
            assert ended.status == ("completed" if accepted else "failed")
        assert not any(map(deaths, ("expiry", "heartbeat", "adoption")))
    for store in {*stores}:
        await store.close()
