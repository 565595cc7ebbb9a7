"""
Runs on workers, as real processes on a real PostgreSQL: workers die and stand still, and every unit is recorded once.

`soak_workers.py` has the long storm.
"""

import json
import os
import random
import signal
import time
from collections import Counter

import httpx
import pytest

from assay.version import __version__
from support.models.judges import judge
from support.models.provider_server import ProviderServer
from support.servers.fleet import Fleet
from support.stores.postgres import server
from support.waiting import PATIENCE, wait_until

CASES, TASKS, TRIALS = 60, 15, 2


pytestmark = pytest.mark.together("fleet")  # a second fleet would take as much CPU time again


@pytest.mark.parametrize(
    ("verb", "environ", "words"),
    [
        (("worker",), {}, "expected postgresql://…, through which workers share runs"),
        (
            ("serve", "--port", "0"),
            {"ASSAY_ENGINE": "workers"},
            "settings: engine: expected PostgreSQL, through which workers share runs",
        ),
        (
            ("worker",),
            {"ASSAY_WORKERS_LEASE": "0"},
            "ASSAY_WORKERS_LEASE: expected a number above 0, got 0.0",
        ),
        (("worker",), {"ASSAY_ENGINE": "dask"}, "ASSAY_ENGINE"),
    ],
)
def test_invalid_worker_settings_are_refused(command, tmp_path, verb, environ, words):
    done = command(*verb, folder=tmp_path, environ={**os.environ, **environ})
    assert (done.code, words in done.err) == (2, True), done.err


@pytest.fixture(scope="module")
def fleet(zygote, tmp_path_factory):
    with server().database() as address, ProviderServer() as provider:
        settings = f'[providers.fake]\nbase_url = "{provider.base_url}"\napi_key = "k"\nmax_concurrency = 3\n'
        fleet = Fleet(zygote, tmp_path_factory.mktemp("fleet"), address, lease=2.0, settings=settings)
        fleet.provider = provider
        try:
            fleet.start_server()
            yield fleet
        finally:
            fleet.close()


def recorded(fleet, path):
    async def read(store):
        run = path.rpartition("/")[2]
        events = await store.events(run, limit=5000)
        assert [event.sequence for event in events] == list(range(len(events)))
        return [(event.type, json.loads(event.data)) for event in events]

    return fleet.read(read)


def check_evaluation(fleet, name, cases):
    """Every shard is recorded once, and the summary is that of one process."""
    events = recorded(fleet, fleet.runs[name])
    assert (events[0][0], events[-1][0]) == ("evaluation.started", "evaluation.completed")
    units = Counter(data["unit"] for _, data in events[1:-1])
    assert set(units.values()) == {1}
    summary = events[-1][1]["summary"]
    assert (summary["total_test_cases"], summary["completed_test_cases"]) == (cases, cases)
    run = fleet.runs[name].rpartition("/")[2]
    results = fleet.request("GET", f"/v1/evaluations/{run}?page_size=1000")["results"]
    passed = [one["check_results"][0]["results"]["passed"] for one in results]
    assert passed == [at % 3 == 0 for at in range(min(cases, 1000))]


def check_eval(fleet, name, tasks, trials):
    """Every trial is recorded once, and every task is scored once."""
    events = recorded(fleet, fleet.runs[name])
    kinds = Counter(type for type, _ in events)
    assert kinds["eval.scored"] == tasks
    assert kinds["agent.invocation.completed"] == tasks * trials
    assert events[-1][0] == "run.completed"
    summary = fleet.request("GET", f"{fleet.runs[name]}/eval-summary")
    scores = {one["taskId"]: one["score"] for one in summary["tasks"]}
    assert scores == {f"t{at}": float(at % 2) for at in range(tasks)}


def test_runs_wait_for_workers_and_survive_them(fleet):
    """The server conducts nothing; two workers are killed and one stands still for longer than its lease."""
    fleet.submit_evaluation("first", CASES)
    time.sleep(0.3)
    assert fleet.request("GET", fleet.runs["first"])["status"] == "pending"
    assert not fleet.executions()
    waiting = {"checks": [{"type": "counted", "arguments": {"name": "waiting", "at": 1}}], "test_cases": [{"id": "1", "input": 1}],
               "outputs": [{"value": 1}]}  # fmt: skip
    answer = httpx.post(
        f"{fleet.urls[0]}/v1/evaluate", json=waiting, headers={"X-API-Key": fleet.key}, timeout=PATIENCE
    )
    assert (answer.status_code, "start `assay worker`" in answer.text) == (503, True), answer.text
    for _ in range(3):
        fleet.start_worker(wait=False)
    fleet.submit_eval("second", TASKS, TRIALS)
    frames, follower = fleet.follow("second")
    fleet.submit_workflow("third")
    dice, killed = random.Random(24), 0
    wait_until(lambda: len(fleet.executions()) >= CASES / 4, lambda: "no worker executes anything")
    stopped = fleet.workers[2]
    stopped.send_signal(signal.SIGSTOP)
    for _ in range(2):
        victim = fleet.workers[dice.randrange(2)]
        killed += victim.poll() is None
        victim.kill()
        fleet.start_worker(wait=False)
        time.sleep(0.4)
    time.sleep(1.5 * fleet.lease)
    stopped.send_signal(signal.SIGCONT)
    assert fleet.wait() == {"first": "completed", "second": "completed", "third": "completed"}
    check_evaluation(fleet, "first", CASES)
    check_eval(fleet, "second", TASKS, TRIALS)
    follower.join(PATIENCE)
    steps = Counter(
        (data["taskId"], data["trial"], data["state"]) for type, data in frames if type == "progress"
    )
    assert steps == {(f"t{task}", trial, "ended"): 1 for task in range(TASKS) for trial in range(TRIALS)}
    assert frames[-1][0] == "run.completed"
    executions = fleet.executions()
    assert executions["waiting:1"] >= 1
    beside = executions["workflow:3"] + executions["waiting:1"]
    repeated = sum(executions.values()) - CASES - TASKS * TRIALS - beside
    assert {f"first:{at}" for at in range(CASES)} <= executions.keys()
    assert 0 <= repeated <= (killed + 1) * fleet.concurrency * 2


def leave_two(fleet):
    """Two workers: each that only looks for work takes a tenth of a processor."""
    alive = [one for one in fleet.workers if one.poll() is None]
    for one in alive[2:]:
        one.close()
    for _ in range(2 - len(alive)):
        fleet.start_worker()


def test_a_cancelled_run_stops_its_units_on_every_worker(fleet):
    leave_two(fleet)
    fleet.submit_eval("long", 12, 1, seconds=600)
    wait_until(lambda: len([unit for unit in fleet.executions() if unit.startswith("long:")]) >= 12)
    fleet.request("POST", f"{fleet.runs['long']}/cancel", b"{}")
    ended = fleet.wait()
    assert ended["long"] == "cancelled", recorded(fleet, fleet.runs["long"])[-3:]
    wait_until(lambda: fleet.executions()["long interrupted"] >= 12)
    events = recorded(fleet, fleet.runs["long"])
    assert events[-1][0] == "run.cancelled"


def test_a_provider_has_at_most_its_requests_at_once_from_all_workers(fleet):
    """Both workers begin together. `soak_limits.py` has more of it."""
    check = judge(
        "Is {{$.test_case.input}} right?", model="slow:0.03", provider_config={"provider_name": "fake"}
    )
    leave_two(fleet)
    fleet.submit_evaluation("judged", 40, check)
    fleet.wait_for("judged")
    assert len(fleet.provider.seen) >= 40
    assert fleet.provider.most_at_once <= 3


def test_the_workers_are_listed(fleet, command):
    leave_two(fleet)
    done = command("worker", "--list", "--json", folder=fleet.folder, environ=fleet.environ)
    assert done.code == 0, done.err
    assert {one["version"] for one in json.loads(done.out)} == {__version__}
    assert "units executed" in command("worker", "--list", folder=fleet.folder, environ=fleet.environ).out
