"""The limits of a provider over several workers: they add up, and a 429 slows all of them."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.backends.models.fleet_limits import ROTATION, FleetLimits, Gates, ProviderReport, part
from assay.backends.models.rate_limit import AdaptiveLimiter, RequestRate


@given(slots=st.integers(1, 300), workers=st.integers(1, 40))
def test_the_parts_of_all_workers_are_the_whole(slots, workers):
    parts = [part(slots, workers, at) for at in range(workers)]
    assert sum(parts) == slots
    assert max(parts) - min(parts) <= 1


def fleet(count, ceiling):
    """Workers `w0` to `wN`, each with a gate for the provider `p`."""
    workers = {}
    for at in range(count):
        gates = Gates()
        gate = AdaptiveLimiter(ceiling)
        gates.add("p", gate)
        workers[f"w{at}"] = FleetLimits(gates), gate
    return workers


def exchange(workers, seconds=0.0):
    reports = {id: limits.report() for id, (limits, _) in workers.items()}
    for id, (limits, _) in workers.items():
        limits.apply(id, reports, seconds)


@pytest.mark.anyio
async def test_a_limit_is_divided_and_comes_back_whole():
    workers = fleet(3, RequestRate(8, 30.0))
    exchange(workers)
    assert sorted(gate.pace.slots for _, gate in workers.values()) == [2, 3, 3]
    assert sum(gate.pace.rate for _, gate in workers.values()) == pytest.approx(30)
    del workers["w1"], workers["w2"]
    exchange(workers)
    assert workers["w0"][1].pace[:2] == (8, 30.0)


@pytest.mark.anyio
async def test_one_slot_goes_from_worker_to_worker():
    """Of three workers one may send. A call at another one waits until the slot comes to it."""
    workers = fleet(3, RequestRate(1))
    holders = set()
    for turn in range(3):
        exchange(workers, turn * ROTATION)
        calls = {id: asyncio.ensure_future(gate.enter(0)) for id, (_, gate) in workers.items()}
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        entered = {id for id, call in calls.items() if call.done()}
        assert len(entered) == 1
        holders |= entered
        for id, call in calls.items():
            call.cancel()
            if id in entered:
                workers[id][1].leave()
    assert len(holders) == 3


@pytest.mark.anyio
async def test_a_429_of_one_worker_slows_all_of_them_once():
    workers = fleet(3, RequestRate(48))
    exchange(workers)
    loop = asyncio.get_running_loop()
    throttled = workers["w0"][1]
    throttled.on_throttle(sent_at=loop.time(), until=loop.time() + 30)
    for _ in range(3):
        exchange(workers)
    for _, gate in workers.values():
        assert gate.pace.slots == 4  # a quarter, and only once
        assert gate.closed_seconds > 25
    assert [gate.throttles for _, gate in workers.values()] == [1, 0, 0]


@pytest.mark.anyio
async def test_a_worker_that_begins_learns_of_a_provider_that_is_closed():
    workers = fleet(1, RequestRate(4))
    limits, gate = workers["w0"]
    limits.apply("w0", {"old": {"p": ProviderReport(7, 12.0)}, "calm": {"q": ProviderReport(9, 0.0)}}, 0)
    assert 11 < gate.closed_seconds <= 12
    assert gate.pace.rate == math.inf
