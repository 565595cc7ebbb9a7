"""Worker processes: answers in order, limits that hold, turns that are fair, and none that outlives its parent."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from assay import settings
from assay.cli.server import serve
from assay.concurrency.memory import GROWTH
from assay.concurrency.workers import machine, process, process_pool
from assay.concurrency.workers import pool as workers
from assay.concurrency.workers.batch import Batch
from assay.concurrency.workers.process_pool import Pool
from assay.errors import ForeignFault, TimeFault, ValueFault
from support.checks import pool_program
from support.checks.pool_program import batch
from support.waiting import wait_until


@pytest.fixture(scope="module")
def pool():
    pool = Pool(2)
    yield pool
    pool.close()


def outcomes(pool, *items, **how):
    return pool.submit(batch(*items, **how)).result(60)


@pytest.mark.parametrize(
    ("item", "kind", "words"),
    [
        (b"spin", TimeFault, "no answer within 0.2 s"),
        (b"stick", TimeFault, "its process was killed"),
        (b"die", ForeignFault, "exit code 3"),
        (b"eat", ForeignFault, "more memory"),
        (b"fault", ValueFault, "not this"),
        (b"else", ForeignFault, "KeyError"),
    ],
)
def test_a_failed_item_does_not_fail_the_others(pool, item, kind, words):
    before, bad, after = outcomes(pool, b"say a", item, b"say b", common=b">")
    assert (before, after) == (b">a", b">b")
    assert type(bad) is kind
    assert words in str(bad)


def test_a_worker_gives_back_the_memory_that_an_item_needed():
    pool = Pool(1)
    try:
        (before,) = outcomes(pool, b"resident")
        (full,) = outcomes(pool, b"fill 200", seconds=5.0)
        (after,) = outcomes(pool, b"resident")
    finally:
        pool.close()
    assert full == b""
    assert int(after) < int(before) + GROWTH


def test_a_process_ends_soon_while_another_is_free(tmp_path, monkeypatch):
    monkeypatch.setattr(process_pool, "SPARE_IDLE", 0.001)
    pool = Pool(3, memory=0, idle=3_600.0)
    try:
        meet = b"meet %s 2" % os.fsencode(tmp_path)
        together = [pool.submit(batch(meet, seconds=None, wall_seconds=60)) for _ in range(2)]
        assert [one.result(60) for one in together] == [[b""]] * 2
        wait_until(lambda: pool.processes == 1)
        (left,) = outcomes(pool, b"pid")
    finally:
        pool.close()
    assert left.decode() in os.listdir(tmp_path)


@pytest.fixture(scope="module")
def pool_of_a_run():
    pool = Pool(5, memory=0, idle=None)
    yield pool
    pool.close()


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (b"sleep 60", "no answer within 0.5 s; its process was killed"),
        (b"stick", "no answer within 0.5 s; its process was killed"),
        (b"die", "latency ended its process (exit code 3)"),
        (b"fault", "not this"),
        (b"map", b"4 GiB"),
    ],
)
def test_an_item_with_wall_seconds_is_killed_by_them_alone(pool_of_a_run, item, expected):
    how = {"seconds": None, "name": "latency"}
    (outcome,) = outcomes(pool_of_a_run, item, wall_seconds=60 if item == b"map" else 0.5, **how)
    assert (outcome if isinstance(outcome, bytes) else str(outcome)) == expected
    assert outcomes(pool_of_a_run, b"say a", wall_seconds=60, **how) == [b"a"]


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system does not say it")
def test_the_time_without_a_core_does_not_count(pool, monkeypatch):
    """Two busy neighbours leave the worker, which is nice, a twentieth of its core: 0.1 s of work take two seconds."""
    monkeypatch.setattr(process, "MARGIN", 0.3)
    core = min(os.sched_getaffinity(0))
    spin = [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"]
    neighbours = [subprocess.Popen(spin) for _ in range(2)]
    try:
        assert outcomes(pool, b"work 0.1 %d" % core, seconds=0.15) == [b""]
        (late,) = outcomes(pool, b"sleep 60", seconds=0.05)  # it needs no core: its time counts
        assert isinstance(late, TimeFault)
    finally:
        for one in neighbours:
            one.kill()
            one.wait()


def test_a_process_without_a_core_is_waited_for_until_it_has_one(monkeypatch):
    """The system counts the time without a core when the process has one again: until then nothing changes."""
    replies, source = os.pipe()[::-1]
    reply = process.HEAD.pack(process.DONE, 1) + b"a"
    looks = iter([(1.0, 2.0)] * 5)

    def times(_):
        if (look := next(looks, None)) is None:
            os.write(replies, reply)
            return process.CoreTimes(1.0, 9.0)
        return process.CoreTimes(*look)

    monkeypatch.setattr(process, "core_times", times)
    monkeypatch.setattr(process, "is_runnable", lambda _: True)
    try:
        assert next(process._frames(source, 0.001, os.getpid())) == (process.DONE, b"a")
    finally:
        os.close(replies)
        os.close(source)


@pytest.mark.parametrize(
    ("looks", "runnable"),
    [
        ([(1.0, 2.0), (1.0, 2.0)], False),  # it sleeps
        ([(1.0, 2.0), (1.5, 2.0)], True),  # it had a core, and did not answer
    ],
)
def test_a_process_that_had_its_time_is_late(monkeypatch, looks, runnable):
    found = (process.CoreTimes(*look) for look in looks)
    monkeypatch.setattr(process, "core_times", lambda _: next(found))
    monkeypatch.setattr(process, "is_runnable", lambda _: runnable)
    source, replies = os.pipe()
    try:
        with pytest.raises(TimeoutError):
            next(process._frames(source, 0.001, os.getpid()))
    finally:
        os.close(replies)
        os.close(source)


def test_as_many_items_of_one_owner_wait_at_a_time_as_its_share(pool_of_a_run, tmp_path):
    waiting = [
        pool_of_a_run.submit(batch(b"meet %s 4" % os.fsencode(tmp_path), seconds=None, wall_seconds=60))
        for _ in range(4)
    ]
    assert [one.result(60) for one in waiting] == [[b""]] * 4


def test_a_process_starts_only_beside_one_that_is_ready():
    pool = Pool(10)
    try:
        with pool._changed:  # no process becomes ready meanwhile
            waiting = [pool.submit(batch(b"say a")) for _ in range(9)]
            assert pool.processes == 1
        assert [one.result(60) for one in waiting] == [[b"a"]] * 9
    finally:
        pool.close()


def test_a_bug_in_a_task_is_logged_in_the_parent(pool, caplog):
    outcomes(pool, b"else")
    (records,) = (one for one in caplog.records if one.name == "assay.workers")
    assert records.levelname == "ERROR"
    assert "a bug in assay: KeyError at" in records.getMessage()
    assert "pool_program.py:" in records.getMessage()


def test_outcomes_are_in_order_and_processes_are_used_again(pool):
    many = [b"say %d" % at for at in range(10_000)]
    assert outcomes(pool, *many) == [b"%d" % at for at in range(10_000)]
    assert len({outcomes(pool, b"pid")[0] for _ in range(8)}) <= 2
    assert outcomes(pool) == []


def test_an_unknown_task_is_a_fault(pool):
    (outcome,) = pool.submit(Batch("support.checks.pool_program:nothing", [b""], 1.0)).result(60)
    assert isinstance(outcome, ForeignFault)


def test_a_long_queue_of_one_owner_delays_no_other(pool):
    greedy = [pool.submit(batch(*[b"sleep 0.1"] * 50, tenant="greedy")) for _ in range(20)]
    began = time.monotonic()
    assert pool.submit(batch(b"say a", tenant="modest")).result(60) == [b"a"]
    assert time.monotonic() - began < 60  # of 100 s that wait in the other's line
    assert not any(one.done() for one in greedy)
    for one in greedy:
        one.cancel()
    assert outcomes(pool, b"say b", tenant="greedy") == [b"b"]


def test_the_event_loop_is_free_while_a_worker_works(pool):
    async def main():
        waiting = asyncio.wrap_future(pool.submit(batch(b"sleep 0.3", b"say a", seconds=5.0)))
        ticks = 0
        while not waiting.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return await waiting, ticks

    answers, ticks = asyncio.run(main())
    assert answers == [b"", b"a"]
    assert ticks > 2


def test_a_closed_pool_answers_waiting_calls():
    pool = Pool(1)
    held = [pool.submit(batch(b"sleep 30", seconds=30.0)) for _ in range(3)]
    pool.close()
    late = pool.submit(batch(b"say a"))
    assert all(isinstance(one, ForeignFault) for future in [*held, late] for one in future.result(60))


def test_a_fork_has_a_pool_of_its_own():
    assert workers.submit(batch(b"say a")).result(60) == [b"a"]
    child = os.fork()
    if child == 0:
        os._exit(0 if workers.processes() == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert workers.submit(batch(b"say b")).result(60) == [b"b"]


def test_a_busy_worker_ends_with_its_parent():
    program = [sys.executable, "-m", pool_program.__name__]
    tests = Path(pool_program.__file__).parents[2]
    parent = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tests)
    try:
        worker = int(parent.stdout.readline())
        time.sleep(0.1)
        parent.send_signal(signal.SIGKILL)
    finally:
        parent.kill()
        parent.communicate()
    until = time.monotonic() + 60
    while alive(worker) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(worker)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_default_size_is_that_of_the_cores_that_the_process_may_use(pool, monkeypatch):
    """A CPU mask or a quota of a container counts, for the pool and for each process of `assay serve --processes`."""
    monkeypatch.setattr(machine, "available_cores", lambda: 5)
    assert outcomes(pool, b"say 1") == [b"1"]
    pool.resize(0)
    assert pool._limit == 6
    pool.resize(2)
    config = msgspec.structs.replace(settings.load(), server_processes=2, worker_processes=0)
    assert serve._check_processes(config) == 3


def test_a_new_pool_has_the_default_size(monkeypatch):
    monkeypatch.setattr(machine, "available_cores", lambda: 1)
    pool = Pool()
    try:
        assert outcomes(pool, b"say 1") == [b"1"]
        assert pool._limit == 2
    finally:
        pool.close()
