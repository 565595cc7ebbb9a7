"""
The time that the units of a killed worker take to run elsewhere, for `make soak`: with the default lease, on a real PostgreSQL.

It prints the figures of docs/workers.md.
"""

import json
import statistics
import time

import psycopg

from assay.settings import Settings
from support.servers.fleet import Fleet
from support.stores.postgres import server

ROUNDS, KILLS, UNITS = 6, 2, 12
LEASE = Settings().workers.lease
BOUND = 1.4 * LEASE  # a lease and two heartbeats
WORK = 6.0  # seconds of a unit


def test_units_of_a_killed_worker_run_elsewhere_within_the_bound(zygote, tmp_path):
    again, recorded = [], []
    with server().database() as address:
        fleet = Fleet(zygote, tmp_path, address, lease=LEASE)
        try:
            fleet.start_server()
            for round in range(ROUNDS):
                while sum(one.poll() is None for one in fleet.workers) < KILLS + 2:
                    fleet.start_worker()
                times, end = kill(fleet, address, f"round{round}")
                again += times
                recorded.append(end)
        finally:
            fleet.close()
    print(  # noqa: T201
        f"\n{len(again)} killed workers, a lease of {LEASE:g} s: their units ran elsewhere after {statistics.median(again):.1f} s"
        f" (median), {max(again):.1f} s (maximum), bound {BOUND:g} s; units of {WORK:g} s were recorded after"
        f" {statistics.median(recorded):.1f} s (median), {max(recorded):.1f} s (maximum)"
    )
    assert len(again) >= 10
    assert max(again) < 2 * BOUND + 10  # another process may have the machine


def kill(fleet, address, name):
    """Kill workers that execute units; the seconds until all units of each run elsewhere, and until the run has ended."""
    fleet.submit_eval(name, UNITS, 1, seconds=WORK)
    until = time.monotonic() + 60
    with psycopg.connect(address, autocommit=True) as connection:
        while len(holders := executors(connection, ["PENDING"])) < UNITS:
            assert time.monotonic() < until, holders
            time.sleep(0.05)
        processes = fleet.read(process_ids)
        victims = [one for one in set(holders.values()) if one in processes][:KILLS]
        for one in fleet.workers:
            if one.pid in [processes[victim] for victim in victims]:
                one.kill()
        began, times = time.monotonic(), {}
        lost = {victim: [unit for unit, holder in holders.items() if holder == victim] for victim in victims}
        while len(times) < len(victims):
            assert time.monotonic() < began + 120, (times, lost, fleet.state())
            now = executors(connection, ["PENDING", "SUCCESS"])
            for victim, units in lost.items():
                if victim not in times and all(now.get(unit, victim) != victim for unit in units):
                    times[victim] = time.monotonic() - began
            time.sleep(0.05)
    fleet.wait_for(name)
    return list(times.values()), time.monotonic() - began


def executors(connection, statuses):
    """The executors of the units of agent evals with these statuses, by unit."""
    rows = connection.execute(
        "SELECT workflow_uuid, executor_id FROM assay_units.workflow_status WHERE status = ANY(%s) AND workflow_uuid LIKE %s",
        [statuses, "agent-eval-%"],
    )
    return dict(rows.fetchall())


async def process_ids(store):
    return {
        one.key: json.loads(one.data)["process"] for one in await store.documents("", "worker", limit=1000)
    }
