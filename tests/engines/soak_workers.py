"""
The long storm, for `make soak`: 3 workers and 2 servers, and everything that happens to them.

Every second a process is killed. Workers stand still for longer than their lease, one has another clock, one reaches the database
through a proxy that is cut, and the database restarts. Every run ends with each unit recorded once, in the result of one process.
"""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from support.fleet import Fleet, Proxy
from support.postgres import server
from test_worker_processes import check_eval, check_evaluation, recorded

SECONDS = float(os.environ.get("STORM_SECONDS", "60"))
CASES, TASKS, TRIALS = int(os.environ.get("STORM_CASES", "3000")), 250, 2
FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)


@pytest.mark.parametrize(
    "faults",
    [("kill",), ("kill", "stop", "cut", "restart")],
    ids=["killed every second", "everything"],
)
def test_a_storm_ends_as_one_process_would(zygote, tmp_path, faults):
    with server().database() as address:
        proxy = Proxy(address)
        fleet = Fleet(zygote, tmp_path, address, lease=2.0, FLEET_SECONDS="0.02")
        try:
            said = storm(fleet, proxy, address, faults)
        finally:
            fleet.close()
            proxy.close()
    print(said)  # noqa: T201


def start(fleet, proxy, dice):
    """A worker: some of them reach the database through the proxy."""
    through = {"ASSAY_DATABASE_URL": proxy.address} if dice.random() < 0.4 else {}
    fleet.start_worker(wait=False, **through)


def storm(fleet, proxy, address, faults):
    dice, counts = random.Random(24), dict.fromkeys(("kill", "server", "stop", "cut", "restart"), 0)
    for _ in range(2):
        fleet.start_server()
    for _ in range(3):
        start(fleet, proxy, dice)
    fleet.submit_workflow("calm")
    fleet.wait()
    calm = [type for type, _ in recorded(fleet, fleet.runs["calm"])]
    fleet.submit_evaluation("cases", CASES)
    fleet.submit_eval("tasks", TASKS, TRIALS)
    workflows = [f"flow{number}" for number in range(10)]
    for name in workflows:
        fleet.submit_workflow(name)
    began = time.monotonic()
    while time.monotonic() - began < SECONDS and (time.monotonic() - began < 5 or _unfinished(fleet)):
        time.sleep(1.0)
        fault = dice.choice(faults)
        if fault == "stop":
            alive = [one for one in fleet.workers if one.poll() is None]
            victim = dice.choice(alive)
            victim.send_signal(signal.SIGSTOP)
            time.sleep(1.5 * fleet.lease)
            victim.send_signal(signal.SIGCONT)
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
    ended = fleet.wait()
    assert set(ended.values()) == {"completed"}, (ended, counts)
    check_evaluation(fleet, "cases", CASES)
    check_eval(fleet, "tasks", TASKS, TRIALS)
    for name in workflows:
        assert [type for type, _ in recorded(fleet, fleet.runs[name])] == calm
    executions = fleet.executions()
    units = CASES + TASKS * TRIALS
    repeated = sum(many for unit, many in executions.items() if not unit.startswith("workflow")) - units
    bound = 2 * fleet.concurrency * sum(counts.values())
    assert 0 <= repeated <= bound, (repeated, bound, counts)
    return (
        f"\n{units} units, {len(workflows)} workflows, faults {counts}: {repeated} repeated executions (bound {bound}), the storm"
        f" took {quiet - began:.0f} s, the rest {time.monotonic() - quiet:.0f} s; the workers say {fleet.counts()}"
    )


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
