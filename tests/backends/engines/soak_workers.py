"""
The long storm, for `make soak`: 3 workers and 2 servers, and everything that happens to them.

Every second a process is killed. Workers and servers stand still for 3 to 25 s, longer than their lease. One worker has
another clock, one reaches the database through a proxy that is cut, and the database restarts. Every run ends with each
unit recorded once, in the result of one process.
"""

import contextlib
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from support.servers.fleet import Fleet, Proxy
from support.stores.postgres import server
from test_worker_processes import check_eval, check_evaluation, recorded

SECONDS = float(os.environ.get("STORM_SECONDS", "60"))
CASES, TASKS, TRIALS = int(os.environ.get("STORM_CASES", "3000")), 50, 2
EVALS = [f"tasks{number}" for number in range(6)]
WORKFLOWS = [f"flow{number}" for number in range(10)]
PAUSE = 3.0, 25.0  # seconds
# A kill every second hits the start of a run three times in a row where a start takes about a second, as on a busy
# machine. That is what a run that kills its processes looks like (ADR-0040).
ATTEMPTS = "12"
FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)


@pytest.mark.parametrize(
    "faults",
    [("kill",), ("kill", "pause", "cut", "restart")],
    ids=["killed every second", "everything"],
)
def test_a_storm_ends_as_one_process_would(zygote, tmp_path, faults):
    with server().database() as address:
        proxy = Proxy(address)
        fleet = Fleet(
            zygote, tmp_path, address, lease=2.0, FLEET_SECONDS="0.02", ASSAY_MAX_RUN_ATTEMPTS=ATTEMPTS
        )
        try:
            summary = storm(fleet, proxy, address, faults)
        finally:
            fleet.close()
            proxy.close()
    print(summary)  # noqa: T201


def start(fleet, proxy, dice):
    """A worker: some of them reach the database through the proxy."""
    through = {"ASSAY_DATABASE_URL": proxy.address} if dice.random() < 0.4 else {}
    fleet.start_worker(wait=False, **through)


class Pauses:
    """Processes that stand still, while others are killed. One worker and one server always go on."""

    def __init__(self, dice):
        self._dice, self._timers = dice, {}

    def begin(self, fleet):
        """Stop a process for a while, and say whether there is one that may be stopped."""
        groups = [[one for one in group if one.poll() is None] for group in (fleet.workers, fleet.servers)]
        awake = [[one for one in group if not self._rests(one)] for group in groups]
        group = self._dice.choice(awake)
        if len(group) < 2:
            return False
        victim = self._dice.choice(group)
        victim.send_signal(signal.SIGSTOP)
        self._timers[victim] = threading.Timer(self._dice.uniform(*PAUSE), go_on, [victim.pid])
        self._timers[victim].start()
        return True

    def _rests(self, one):
        return one in self._timers and self._timers[one].is_alive()

    def wait(self):
        for timer in self._timers.values():
            timer.join()


def go_on(pid):
    with contextlib.suppress(ProcessLookupError):  # it was killed meanwhile
        os.kill(pid, signal.SIGCONT)


def storm(fleet, proxy, address, faults):
    dice, counts = random.Random(24), dict.fromkeys(("kill", "server", "pause", "cut", "restart"), 0)
    for _ in range(2):
        fleet.start_server()
    for _ in range(3):
        start(fleet, proxy, dice)
    fleet.submit_workflow("calm")
    fleet.wait()
    calm = [type for type, _ in recorded(fleet, fleet.runs["calm"])]
    submit_all(fleet)
    pauses = Pauses(dice)
    began = time.monotonic()
    while time.monotonic() - began < SECONDS and (time.monotonic() - began < 5 or _unfinished(fleet)):
        time.sleep(1.0)
        fault = dice.choice(faults)
        if fault == "pause" and pauses.begin(fleet):
            pass
        elif fault == "cut":
            proxy.cut()
            time.sleep(dice.uniform(0.5, 1.5 * fleet.lease))
            proxy.restore()
        elif fault == "restart" and counts["restart"] < 2:
            with server().away(address):
                time.sleep(1.0)
        elif dice.random() < 0.15:
            fault, at = "server", dice.randrange(len(fleet.servers))
            fleet.servers.pop(at).close()
            fleet.urls.pop(at)
            fleet.start_server()
        else:
            fault = "kill"
            alive = [one for one in fleet.workers if one.poll() is None]
            dice.choice(alive).kill()
            start(fleet, proxy, dice)
        counts[fault] += 1
    quiet = time.monotonic()
    pauses.wait()
    ended = fleet.wait()
    wrong = {name: recorded(fleet, fleet.runs[name])[-1] for name in ended if ended[name] != "completed"}
    assert not wrong, (wrong, counts, fleet.state())
    check_all(fleet, calm)
    executions = fleet.executions()
    units = CASES + len(EVALS) * TASKS * TRIALS
    repeated = sum(many for unit, many in executions.items() if not unit.startswith("workflow")) - units
    bound = 2 * fleet.concurrency * sum(counts.values())
    assert 0 <= repeated <= bound, (repeated, bound, counts)
    return (
        f"\n{units} units, {len(WORKFLOWS)} workflows, faults {counts}: {repeated} repeated executions (bound {bound}), the storm"
        f" took {quiet - began:.0f} s, the rest {time.monotonic() - quiet:.0f} s; the workers say {fleet.counts()}"
    )


def submit_all(fleet):
    fleet.submit_evaluation("cases", CASES)
    for name in EVALS:
        fleet.submit_eval(name, TASKS, TRIALS)
    for name in WORKFLOWS:
        fleet.submit_workflow(name)


def check_all(fleet, calm):
    """Every unit was recorded once; `calm` are the events of a workflow before the storm."""
    check_evaluation(fleet, "cases", CASES)
    for name in EVALS:
        check_eval(fleet, name, TASKS, TRIALS)
    for name in WORKFLOWS:
        assert [type for type, _ in recorded(fleet, fleet.runs[name])] == calm


def _unfinished(fleet):
    return any(fleet.request("GET", path)["status"] in ("pending", "running") for path in fleet.runs.values())


def test_workers_whose_clocks_differ_agree(zygote, tmp_path):
    """One clock is an hour ahead and one an hour behind; the limit of the run is ten minutes."""
    if FAKETIME is None:
        pytest.skip("libfaketime is not installed")
    with server().database() as address:
        fleet = Fleet(zygote, tmp_path, address, lease=2.0, ASSAY_RUN_SECONDS="600", FLEET_SECONDS="0.02")
        try:
            fleet.start_server()
            for hours in ("+1h", "-1h"):
                fleet.start_worker(preload=str(FAKETIME), FAKETIME=hours, DONT_FAKE_MONOTONIC="1")
            fleet.start_worker()
            fleet.submit_evaluation("cases", 200)
            fleet.submit_eval("tasks", 30, TRIALS)
            fleet.workers[2].kill()
            time.sleep(1.0)
            assert set(fleet.wait().values()) == {"completed"}
            check_evaluation(fleet, "cases", 200)
            check_eval(fleet, "tasks", 30, TRIALS)
        finally:
            fleet.close()
