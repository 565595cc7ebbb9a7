"""Checks of several families run at a time: none meets another of its family, and reports have the order of the catalog."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from assay.conform import check as check_module
from assay.conform.catalog import all_checks
from assay.conform.check import Budget, Check, Failed
from assay.conform.http_client import Answer
from assay.conform.memory import Memory
from assay.conform.run import LANES, TOGETHER, run_checks
from support.waiting import PATIENCE


class Still:
    """A host that answers nothing, and that nobody asks."""

    def __init__(self):
        self.limits = []

    def limit(self, seconds):
        self.limits.append(seconds)

    def reach(self): ...


def row(name, run=lambda host: None, **more):
    return Check(name, "the text", "rule", "sent", "must come", run, **more)


def test_families_run_at_the_same_time_and_are_told_in_order():
    """Each waits until all are under way, and the first ends last."""
    meeting, others = threading.Barrier(LANES), threading.Semaphore(0)

    def meet(host, *, first):
        meeting.wait(PATIENCE)
        if first:
            assert all(others.acquire(timeout=PATIENCE) for _ in range(LANES - 1))
        others.release()

    checks = [row(f"a.{at}.x", lambda host, at=at: meet(host, first=at == 0)) for at in range(LANES)]
    told = []
    outcomes = run_checks(Still(), checks, told.append)
    assert [one.check for one in outcomes] == checks
    assert told == outcomes
    assert {one.result for one in outcomes} == {"passed"}


def test_checks_of_a_lane_run_one_after_the_other():
    running, most, order = [], [], []

    def note(host, name):
        running.append(name)
        most.append(len(running))
        order.append(name)
        running.pop()

    (two, one), *_ = TOGETHER.items()
    names = [f"{one}.a", f"{two}.b", f"{one}.c", f"{two}.d"]
    run_checks(Still(), [row(name, lambda host, name=name: note(host, name)) for name in names])
    assert order == names
    assert {*most} == {1}


def test_what_is_about_all_answers_runs_last():
    order = []
    names = ["a.a.last", "a.b.first", "a.c.second"]
    checks = [
        row(name, lambda host, name=name: order.append(name), last=name.endswith("last")) for name in names
    ]
    run_checks(Still(), checks)
    assert order[-1] == "a.a.last"
    assert {one.name for one in all_checks() if one.last} == {
        "fep.rest.hides-the-key",
        "fep.grpc.hides-the-key",
        "openwop.content.hides-the-key",
    }


def test_a_bug_of_a_check_ends_the_run():
    """It is raised, and no check begins after it."""

    def break_down(host):
        raise ArithmeticError("a bug")

    host, after = Still(), []
    with pytest.raises(ArithmeticError):
        run_checks(host, [row("a.a.a", break_down), row("a.a.b", after.append)])
    assert after == []
    assert host.limits[-1] == 0


def test_a_bug_ends_the_checks_of_other_lanes_too():
    """The first lane ends only because the host sends no request any more."""
    stopped = threading.Event()

    class Stoppable(Still):
        def limit(self, seconds):
            if seconds == 0:
                stopped.set()

    def break_down(host):
        raise ArithmeticError("a bug")

    def wait(host):
        assert stopped.wait(PATIENCE)

    with pytest.raises(ArithmeticError):
        run_checks(Stoppable(), [row("a.a.a", wait), row("a.b.a", break_down)])


def test_an_outcome_has_its_time():
    slow = row("a.a.slow", lambda host: threading.Event().wait(0.02))
    (outcome,) = run_checks(Still(), [slow])
    assert 0.02 <= outcome.seconds < PATIENCE


def test_what_is_learnt_once_is_learnt_by_one_thread():
    memory, made, go = Memory(), [], threading.Event()

    def make():
        made.append(1)
        go.wait(PATIENCE)
        raise Failed("so it is")

    def ask(_):
        with pytest.raises(Failed, match="so it is"):
            memory.once("it", make, (Failed,))

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask, at) for at in range(4)]
        go.set()
        [one.result(PATIENCE) for one in asked]
    assert made == [1]


def test_what_is_no_answer_is_asked_again():
    memory, tries = Memory(), iter((OSError("away"), None))

    def make():
        if (trouble := next(tries)) is not None:
            raise trouble
        return "there"

    with pytest.raises(OSError, match="away"):
        memory.once("it", make, (Failed,))
    assert memory.once("it", make, (Failed,)) == "there"


def test_waits_of_several_threads_for_a_busy_host_count_once(monkeypatch):
    """Four that wait for a second have waited a second, not four."""
    slept = []
    monkeypatch.setattr(check_module, "PATIENCE", 1.5)
    monkeypatch.setattr(check_module.time, "sleep", slept.append)
    monkeypatch.setattr(check_module.time, "monotonic", lambda: 100.0)
    budget, answer = Budget(), Answer(429, {"retry-after": "1"}, b"")
    assert [budget.wait(answer) for _ in range(4)] == [True] * 4
    assert slept == [1.0] * 4
    monkeypatch.setattr(check_module.time, "monotonic", lambda: 101.0)
    assert not budget.wait(answer)
