"""Threads: turns of owners, calls that never return, and large values off the event loop."""

import asyncio
import gzip
import os
import random
import sys
import threading
import time

import pytest

from assay.concurrency import threads as threads_module
from assay.concurrency.check_threads import CheckThreads
from assay.concurrency.foreign_code import exception_text
from assay.concurrency.loop_budget import spend
from assay.concurrency.threads import (
    BEGUN,
    LARGE,
    CallerGone,
    Threads,
    in_place,
    in_thread,
    json_size,
    off_loop,
    run_blocking,
    run_foreign,
    source,
    too_many_abandoned,
)
from assay.concurrency.workers import batch
from assay.errors import ForeignFault, UsageError
from assay.import_code import load
from assay.packs.archive import write_tarball
from assay.protocol import redaction
from assay.serve.openwop import inventory
from support.packs import agent_of, files_of
from support.servers.rest_client import Server, sqlite
from support.waiting import PATIENCE, until, wait_until


@pytest.mark.parametrize(("size", "in_thread"), [(0, False), (LARGE, False), (LARGE + 1, True)])
def test_a_large_value_is_worked_on_in_a_thread(size, in_thread):
    worker = asyncio.run(off_loop(size, threading.current_thread))
    assert (worker is not threading.main_thread()) == in_thread


def submit(threads, owner, call):
    with batch.owner_scope(owner):
        return threads.future(call)[1]


def test_owners_take_turns():
    """The only thread is busy while A submits three calls and B one: B's comes second."""
    threads, busy, order = Threads(1, 1), threading.Event(), []
    first = submit(threads, "A", lambda: busy.wait(60))
    wait_until(first.running)
    later = [submit(threads, owner, lambda owner=owner: order.append(owner)) for owner in "AAAB"]
    unwanted = submit(threads, "B", lambda: order.append("cancelled"))
    assert unwanted.cancel()
    busy.set()
    assert first.result(60)
    assert [one.result(60) for one in later] == [None] * 4
    assert order == ["A", "B", "A", "A"]


def test_an_owner_has_a_share_of_the_threads():
    """A's calls do not end. B's calls run meanwhile, and A's third call waits."""
    threads, end = Threads(4, 2), threading.Event()
    calls = [submit(threads, "A", lambda: end.wait(60)) for _ in range(3)]
    assert [submit(threads, "B", threading.get_ident).result(60) for _ in range(3)]
    assert not calls[2].running()
    end.set()
    assert [one.result(60) for one in calls] == [True] * 3


def test_more_busy_owners_than_threads_all_get_their_turn():
    threads, order = Threads(2, 1), []
    gate = threading.Event()
    calls = [submit(threads, owner, lambda: gate.wait(60)) for owner in "AB"]
    calls += [submit(threads, owner, lambda owner=owner: order.append(owner)) for owner in "ABCD" * 3]
    gate.set()
    assert all(one.result(60) or True for one in calls)
    assert sorted(order) == sorted("ABCD" * 3)
    assert {"C", "D"} <= set(order[:6])


def test_a_long_call_lets_other_owners_go_first(monkeypatch):
    """There is one thread. A's call ends when B's has run, and B's when A's second call has begun; C's fails."""
    monkeypatch.setattr(threads_module, "TURN", 0.0)
    threads, ran = Threads(1, 2), {"A": threading.Event(), "B": threading.Event()}

    def long_call(other):
        until = time.monotonic() + PATIENCE
        while not ran[other].is_set():
            assert time.monotonic() < until, f"{other} had no turn"
            spend()
        return batch.owner.get()

    def short_call(owner):
        ran[owner].set()
        return owner

    calls = [submit(threads, "A", lambda: long_call("B"))]
    calls += [submit(threads, "B", lambda: [short_call("B"), long_call("A")][1])]
    calls += [submit(threads, "C", lambda: 1 / 0)]
    calls += [submit(threads, "A", lambda: short_call("A"))]
    assert [one.result(PATIENCE) for one in (calls[0], calls[1], calls[3])] == ["A", "B", "A"]
    assert isinstance(calls[2].exception(PATIENCE), ZeroDivisionError)
    wait_until(lambda: threads._busy == 0)
    assert (threads._waiting, +threads._running) == (0, {})


def test_two_long_calls_of_an_owner_take_turns_and_never_work_at_once(monkeypatch):
    """Each of the first two ends when the other has begun. The third begins when one has ended."""
    monkeypatch.setattr(threads_module, "TURN", 0.0)
    threads, started, ended, lock = Threads(), [], [], threading.Lock()

    def call(number):
        started.append(number)
        until = time.monotonic() + PATIENCE
        while len(started) < 2:
            assert time.monotonic() < until, "the other had no turn"
            assert lock.acquire(blocking=False), "two calls of an owner work at once"
            time.sleep(0)
            lock.release()
            spend()
        if number == 2:
            assert ended
        ended.append(number)
        return number

    calls = [submit(threads, "A", lambda number=number: call(number)) for number in range(3)]
    assert [one.result(PATIENCE) for one in calls] == [0, 1, 2]
    wait_until(lambda: threads._busy == 0)
    assert (threads._waiting, +threads._running, threads._queues) == (0, {}, {})


@pytest.mark.anyio
async def test_a_call_ends_at_its_next_turn_once_its_caller_is_gone():
    begun, ended = [], []

    def work():
        begun.append(1)
        try:
            while True:
                spend()
        except BaseException as error:
            ended.append(type(error))
            raise

    calls = [asyncio.ensure_future(in_thread(work)) for _ in range(BEGUN)]
    await until(lambda: len(begun) == BEGUN)
    for call in calls:
        call.cancel()
    assert await in_thread(lambda: "a third") == "a third"  # it begins when one of them has ended
    await until(lambda: len(ended) == BEGUN)
    assert ended == [CallerGone] * BEGUN
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one) for one in answers] == [asyncio.CancelledError] * BEGUN


def test_turns_of_many_owners_keep_the_number_of_working_threads(monkeypatch):
    monkeypatch.setattr(threads_module, "TURN", 0.0)
    threads, lock = Threads(3, 2), threading.Lock()
    working = {"now": 0, "most": 0}

    def call():
        for _ in range(20):
            with lock:
                working["now"] += 1
                working["most"] = max(working.values())
            time.sleep(0)
            with lock:
                working["now"] -= 1
            spend()
        return batch.owner.get()

    owners = [f"owner {number % 9}" for number in range(60)]
    calls = [submit(threads, owner, call) for owner in owners]
    assert [one.result(PATIENCE) for one in calls] == owners
    assert working["most"] <= 3
    wait_until(lambda: threads._busy == 0)
    assert (threads._waiting, +threads._running, threads._queues) == (0, {}, {})


def test_an_owner_that_held_the_loop_too_long_gets_a_thread_at_once():
    def call():
        threads.append(threading.current_thread())
        spend()
        return len(threads)

    async def scenario():
        with batch.owner_scope("slow"):
            return await in_place(call, seconds=-1), await in_place(call)

    threads, here = [], threading.main_thread()
    assert asyncio.run(scenario()) == (2, 3)
    assert [one is here for one in threads] == [True, False, False]
    with batch.owner_scope("another"):
        assert asyncio.run(in_place(threading.current_thread)) is here


@pytest.mark.anyio
async def test_checks_and_agents_that_hang_count_together(monkeypatch):
    """Two may hang: a check that passes its deadline, and an agent whose caller is cancelled. Our own work may start."""
    lost, end, answers = source(os.getpid()), threading.Event(), []
    before = lost.abandoned
    monkeypatch.setattr(threads_module, "MAX_ABANDONED", before + 2)
    checks = CheckThreads(4, 0.01)
    checks.submit(lambda: end.wait(60), answers.append)
    await until(lambda: answers)
    assert [str(one) for one in answers] == ["no answer within 0.01 s"]
    assert too_many_abandoned() is None
    started = threading.Event()
    hanging = asyncio.ensure_future(run_foreign(lambda: started.set() or end.wait(60)))
    await until(started.is_set)
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    with pytest.raises(ForeignFault, match=f"{before + 2} calls hang in threads"):
        await run_foreign(threading.get_ident)
    assert await run_blocking(max, 1, 2) == 2
    end.set()
    await until(lambda: lost.abandoned == before)
    assert await run_foreign(threading.get_ident) != threading.get_ident()
    assert len(answers) == 1
    checks.close()


@pytest.mark.anyio
async def test_checks_that_block_run_at_once_up_to_the_limit():
    """Four meet each other, the fifth waits. Closing abandons what runs and drops what waits."""
    lost, meeting, end, answers = source(os.getpid()), threading.Barrier(4), threading.Event(), []
    before, checks = lost.abandoned, CheckThreads(4, 60)
    for _ in range(4):
        checks.submit(lambda: meeting.wait(PATIENCE) in range(4), answers.append)
    await until(lambda: answers == [True] * 4)
    for _ in range(5):
        checks.submit(lambda: end.wait(60), answers.append)
    await until(lambda: sum(one.start_time > 0 and not one.is_over for one in checks._calls) == 4)
    checks.close()
    assert lost.abandoned == before + 4
    end.set()
    await until(lambda: lost.abandoned == before)
    assert answers == [True] * 4


@pytest.mark.anyio
async def test_many_quick_checks_share_a_thread():
    names, checks = [], CheckThreads(64, 60)
    for _ in range(1_000):
        checks.submit(threading.get_ident, names.append)
    await until(lambda: len(names) == 1_000)
    assert len(set(names)) < 8  # more only where the machine stood still
    checks.close()


@pytest.mark.anyio
async def test_an_exception_of_foreign_code_reaches_the_caller():
    def stop():
        raise StopIteration

    for call, kind in ((stop, RuntimeError), (sys.exit, SystemExit), (lambda: 1 / 0, ZeroDivisionError)):
        with pytest.raises(kind):
            await run_foreign(call)


def test_the_place_of_an_exception_is_the_last_line_of_foreign_code():
    with pytest.raises(UsageError) as raised:
        load("nothing_here:nothing", "a setting")
    assert "test_threads.py:" in exception_text(raised.value)


@pytest.mark.parametrize(
    ("value", "size"), [({"a": "é"}, 10), ([1, None], 8), (object(), LARGE + 1), ("\ud800", LARGE + 1)]
)
def test_the_size_of_a_value(value, size):
    assert json_size(value) == size


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(sqlite(tmp_path_factory.mktemp("large")), seeded=True) as server, server.client() as client:
        yield server, client


TEXT = "x" * (2 * LARGE)
SUITE = {"suiteId": "local.mine.evals.large", "version": "1.0.0", "modes": ["golden"]}
TASK = {
    "taskId": "a",
    "input": TEXT,
    "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "a"}},
}


@pytest.mark.parametrize("what", ["create", "run", "snapshot", "note", "correction", "suite"])
def test_large_values_are_not_walked_on_the_event_loop(server, what, monkeypatch):
    host, client = server
    loop = host._thread.ident
    start = {"workflowId": "conformance-identity", "inputs": {"payload": TEXT}, "metadata": {"text": TEXT}}
    run = client.post("/v1/runs", json=start).json()["runId"]
    while client.get(f"/v1/runs/{run}").json()["status"] not in ("completed", "failed"):
        time.sleep(0.05)
    looking: list[tuple[int, str]] = []
    maybe, hide = redaction._maybe_secret, redaction.hide

    def record_line(line):
        looking.append((threading.get_ident(), "line")) if len(line) > LARGE else None
        return maybe(line)

    def record_text(text):
        looking.append((threading.get_ident(), "text")) if len(text) > LARGE else None
        return hide(text)

    monkeypatch.setattr(redaction, "_maybe_secret", record_line)
    monkeypatch.setattr(redaction, "hide", record_text)
    monkeypatch.setattr("assay.agenteval.suites.suite_store.canonical", _recording(looking))
    path = f"/v1/runs/{run}"
    if what == "create":
        client.post("/v1/runs", json={**start, "workflowId": "conformance-delay"}).raise_for_status()
        client.post("/v1/runs", json={**start, "workflowId": "conformance-noop", "inputs": {"x": TEXT}})
    elif what == "run":
        another = client.post("/v1/runs", json=start).json()["runId"]
        while client.get(f"/v1/runs/{another}").json()["status"] not in ("completed", "failed"):
            time.sleep(0.05)
    elif what == "snapshot":
        assert client.get(path).json()["inputs"] == start["inputs"]
    elif what == "suite":
        assert client.post("/v1/host/assay/suites", json={**SUITE, "tasks": [TASK]}).status_code == 201
    else:
        signal = {"kind": "flag"} if what == "note" else {"kind": "correction", "correction": TEXT}
        body = {"signal": signal} | ({"note": TEXT} if what == "note" else {})
        client.post(f"{path}/annotations", json=body).raise_for_status()
    assert looking
    assert [kind for thread, kind in looking if thread == loop] == []


def _recording(looking):
    from assay.protocol.canonical import canonical

    def record_canonical(document):
        looking.append((threading.get_ident(), "canonical"))
        return canonical(document)

    return record_canonical


def test_an_inventory_of_many_agents_is_made_in_threads(server, monkeypatch):
    """In parts, and with the content that one part would have."""
    host, client = server
    name = "local.mine.many"
    agents = [
        agent_of(name, agentId=f"{name}.a{at}", evalSuiteRef=None, handoff=None, role=None)
        for at in range(250)
    ]
    files = files_of(name, agents=agents)
    sent = {"content": write_tarball(files), "headers": {"Content-Type": "application/gzip"}}
    published = client.post("/v1/host/assay/packs", **sent)
    assert published.status_code == 201, published.text
    makers = []
    make = inventory.agent_document

    def record(card):
        makers.append(threading.get_ident())
        return make(card)

    monkeypatch.setattr(inventory, "agent_document", record)
    listed = client.get("/v1/agents").json()
    assert listed["total"] == len(listed["agents"]) == len(makers) >= 250
    assert host._thread.ident not in makers
    ids = [one["agentId"] for one in listed["agents"]]
    assert ids == sorted(ids)
    one = client.get(f"/v1/agents/{name}.a7").json()
    assert one == listed["agents"][ids.index(f"{name}.a7")]


def test_a_pack_of_empty_lists_is_refused_before_it_is_read(server, monkeypatch):
    _, client = server
    read = []
    monkeypatch.setattr("assay.agenteval.suites.suite.is_deeper", lambda *_: read.append(1))
    lists = b",".join(random.Random(1).choices((b"[]", b"[ ]", b"[  ]"), k=300_000))
    files = files_of("local.mine.lists") | {"evals/bot.json": b"[" + lists + b"]"}
    packed = gzip.compress(gzip.decompress(write_tarball(files)))
    got = client.post("/v1/host/assay/packs", content=packed, headers={"Content-Type": "application/gzip"})
    assert (got.status_code, read) == (400, [])
    assert "more than 500000 brackets" in got.json()["message"]
