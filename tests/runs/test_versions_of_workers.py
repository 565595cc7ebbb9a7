"""Runs that a newer version of assay stored: older workers leave them, and a client reads that none can execute them."""

import asyncio

import pytest

from assay.backends.engines.local import InlineEngine
from assay.backends.stores.open import open_store
from assay.errors import Unavailable
from assay.ports import RunUpdate, Transaction
from assay.ports.kinds import REQUIRED_VERSION
from assay.runs import work_queue
from assay.runs.work_queue import DelegatingExecutor, WorkerRegistry
from assay.version import __version__, is_older
from support.waiting import PATIENCE, heartbeat
from support.workers.runs import Logged
from test_runs import ExecutorHost


@pytest.mark.parametrize(
    ("version", "other", "older"),
    [
        ("1.2.0", "1.10.0", True), ("1.10.0", "1.2.0", False), ("1.2", "1.2.0", False), ("1.2.0", "1.2", False),
        ("1.2.0", "1.2.1", True), ("1.2.0rc1", "1.2.0", False), ("2", "10", True), ("0.1.0", "", False), ("", "0.1", True),
        ("1.0.dev3", "1.0", False),
    ],
)  # fmt: skip
def test_versions_are_compared_by_their_numbers(version, other, older):
    assert is_older(version, other) is older


@pytest.fixture
def run_in_store(monkeypatch, tmp_path):
    monkeypatch.setenv("RUNS_LOG", str(tmp_path / "log"))

    def run(test):
        async def main():
            store = await open_store("memory:")
            try:
                await test(store)
            finally:
                await store.close()

        asyncio.run(main())

    return run


async def stored(host, version):
    """A run that a server of this version stored, and that no process has yet."""
    monitor = host.executor.start
    host.executor.start = lambda run: None
    run = await host.start(1)
    host.executor.start = monitor
    entry = RunUpdate(run=run.id, metadata={**run.metadata, REQUIRED_VERSION: version})
    await host.store.commit(Transaction(entries=[entry]))
    await host.store.release(run.id, host.executor.executor_id)
    return run.id


def test_a_run_of_a_newer_version_is_left_and_one_of_this_version_is_executed(run_in_store):
    async def test(store):
        newer = [await stored(ExecutorHost(store), "999.0.0") for _ in range(3)]
        older = await stored(ExecutorHost(store), "0.0.1")
        worker = ExecutorHost(store, lease=0.2, checks=(Logged,))
        await worker.executor.open()
        done = await worker.executor.wait(older)
        assert (done.status, done.metadata[REQUIRED_VERSION]) == ("completed", "0.0.1")
        await heartbeat(worker.executor)
        assert [(run.status, run.takeovers) for run in [await store.run(id) for id in newer]] == [
            ("pending", 0)
        ] * 3
        await worker.executor.close()

    run_in_store(test)


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (None, "no worker is running"),
        ("0.0.1", f"every running worker is older than assay {__version__}"),
        ("999.0", None),
    ],
)
def test_a_waiting_client_reads_that_no_worker_can_execute_its_run(run_in_store, monkeypatch, version, words):
    monkeypatch.setattr(work_queue, "PATIENCE", 0.05)

    async def test(store):
        if version is not None:
            registry = WorkerRegistry(store, 10.0)
            await registry.register()
            await registry.beat(lambda: {"version": version})
        host = ExecutorHost(store)
        server = DelegatingExecutor(store, InlineEngine(lambda _work, _unit: None), host.executor._kinds)
        await server.open()
        host.executor = server
        run = await host.start(1)
        await asyncio.sleep(0.1)
        waiting = asyncio.ensure_future(server.wait(run.id))
        if words is None:
            await asyncio.sleep(0.3)
            assert not waiting.done()
            waiting.cancel()
        else:
            with pytest.raises(Unavailable, match=words):
                await asyncio.wait_for(waiting, PATIENCE)
            assert server.no_worker().startswith(words)  # what `assay serve` says at its start
        assert (await store.run(run.id)).metadata[REQUIRED_VERSION] == __version__
        await server.close()

    run_in_store(test)


def test_a_handover_of_a_run_that_another_process_holds_is_not_logged_as_a_bug(run_in_store, caplog):
    """A server that was slower than its lease finds that a worker has the run already."""

    async def test(store):
        run = await store.run(await stored(ExecutorHost(store), __version__))
        worker = await store.claim(run.id, "a worker", seconds=60)
        server = DelegatingExecutor(store, InlineEngine(lambda _work, _unit: None), {})
        await server.open()
        server.start(run)
        await asyncio.gather(*server._handovers)
        assert (await store.run(run.id)).holder == worker.holder == "a worker"
        await server.close()

    run_in_store(test)
    assert "a bug in assay" not in caplog.text
