"""The limits of a provider over several workers: they add up, and a 429 slows all of them."""

import asyncio
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.backends.models import fleet_limits
from assay.backends.models.fleet_limits import ROTATION, FleetLimits, Gates, ProviderReport, part
from assay.backends.models.rate_limit import AdaptiveLimiter, RequestRate


@given(slots=st.integers(1, 300), workers=st.integers(1, 40))
def test_the_parts_of_all_workers_sum_to_the_limit(slots, workers):
    parts = [part(slots, workers, at) for at in range(workers)]
    assert sum(parts) == slots
    assert max(parts) - min(parts) <= 1


STEPS = ["look"] * 6 + ["send"] * 3 + ["end", "heartbeat", "hour", "lost", "again"]


class Member:
    """A worker with a gate for the provider `p`. `documents` are those of the store: what each worker has published."""

    def __init__(self, id, ceiling, documents):
        self.id, self.documents = id, documents
        gates = Gates()
        self.limits = FleetLimits(gates)
        self.news = self.out = 0
        self.certain_until = math.inf
        gates.share(self._count)
        self.gate = AdaptiveLimiter(ceiling)
        gates.add("p", self.gate)

    def _count(self):
        self.news += 1

    async def send(self):
        """A request, if it may be sent at once."""
        call = asyncio.ensure_future(self.gate.enter(0))
        await asyncio.sleep(0)
        if call.done():
            self.out += 1
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    def end(self, many):
        for _ in range(min(many, self.out)):
            self.gate.leave()
            self.out -= 1

    def publish(self):
        if self.member:
            self.documents[self.id] = self.limits.report()

    @property
    def member(self):
        return self.certain_until == math.inf

    def lose(self):
        """It stood still for a lease. What it sent has ended, and the others do not count it any more; it does not know."""
        self.certain_until = -math.inf
        self.gate.renew(self.certain_until)
        self.end(self.out)
        self.documents.pop(self.id, None)

    def do(self, step):
        """True if what it had begun has no effect any more, because it has another id."""
        if step == "again" and not self.member:
            self.begin_again()
            return True
        {"end": lambda: self.end(1), "heartbeat": self.publish, "lost": self.lose}.get(step, int)()
        return False

    def begin_again(self):
        """It has seen that it was taken for dead."""
        self.limits.drop()
        self.id, self.certain_until = f"{self.id}'", math.inf
        self.documents[self.id] = {}

    def exchange(self, seconds=0.0):
        """A look at the reports. It yields wherever another worker may read or write."""
        reports = dict(self.documents)
        yield
        if self.limits.claim(self.id, reports, seconds):
            yield
            self.publish()
            yield
            reports = dict(self.documents)
            yield
        self.limits.grant(self.id, reports, seconds, self.certain_until)


def fleet(count, ceiling):
    """Workers `w0` to `wN` that have agreed."""
    documents = {}
    workers = {f"w{at}": Member(f"w{at}", ceiling, documents) for at in range(count)}
    exchange(workers)
    return workers


def exchange(workers, seconds=0.0):
    for _ in range(4):
        for worker in workers.values():
            for _ in worker.exchange(seconds):
                pass


@pytest.mark.anyio
async def test_a_limit_is_divided_and_returned():
    workers = fleet(3, RequestRate(8, 30.0))
    assert sorted(one.gate.ceiling.slots for one in workers.values()) == [2, 3, 3]
    assert sum(one.gate.ceiling.rate for one in workers.values()) == pytest.approx(30)
    for gone in ("w1", "w2"):
        del workers[gone], workers["w0"].documents[gone]
    exchange(workers)
    assert workers["w0"].gate.pace[:2] == (8, 30.0)


@given(
    slots=st.integers(1, 7),
    steps=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(STEPS)), min_size=20, max_size=120),
)
@settings(max_examples=30)
def test_the_sum_of_all_workers_never_exceeds_the_limit(slots, steps):
    """
    Law: in whatever order workers read, publish, send, end and join, stand still, are taken for dead and begin again, no
    more requests are in flight than the limit, and no more rate is in use. When they are left alone, they share all of
    it.
    """

    asyncio.run(_any_order(slots, steps))


async def _any_order(slots, steps):
    documents, members, looks, hour = {}, {}, {}, 0.0
    for at, step in steps:
        if at not in members:
            members[at] = Member(f"w{at}", RequestRate(slots, 30.0), documents)
        member = members[at]
        if step == "look":
            look = looks.get(at) or member.exchange(hour)
            looks[at] = look if next(look, 1) is None else None
        elif step == "send":
            await member.send()
        elif step == "hour":
            hour += ROTATION
        elif member.do(step):
            looks.pop(at, None)
        assert sum(one.out for one in members.values()) <= slots
        counted = [one.gate for one in members.values() if one.member]
        assert sum(gate.slots_in_use for gate in counted) <= slots
        assert sum(gate.rate_in_use for gate in counted) <= 30 + 1e-6
    for one in members.values():
        if not one.member:
            one.begin_again()
    for one in members.values():
        one.end(one.out)
    exchange({one.id: one for one in members.values()}, hour)
    assert sum(one.gate.ceiling.slots for one in members.values()) == slots


@pytest.mark.anyio
async def test_one_slot_goes_from_worker_to_worker():
    """Of three workers one may send. A call at another one waits until the slot comes to it."""
    workers = fleet(3, RequestRate(1))
    holders = set()
    for turn in range(3):
        exchange(workers, turn * ROTATION)
        calls = {id: asyncio.ensure_future(one.gate.enter(0)) for id, one in workers.items()}
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        entered = {id for id, call in calls.items() if call.done()}
        assert len(entered) == 1
        holders |= entered
        for id, call in calls.items():
            call.cancel()
            if id in entered:
                workers[id].gate.leave()
    assert len(holders) == 3


@pytest.mark.anyio
async def test_a_worker_without_calls_gives_its_part_back(monkeypatch):
    workers = fleet(2, RequestRate(6))
    await workers["w0"].send()
    monkeypatch.setattr(fleet_limits, "IDLE", 0.0)
    exchange(workers)
    assert [one.gate.ceiling.slots for one in workers.values()] == [6, 0]
    news = workers["w1"].news
    call = asyncio.ensure_future(workers["w1"].gate.enter(0))
    await asyncio.sleep(0)
    assert workers["w1"].news == news + 1  # it wants a part at once
    exchange(workers)
    assert (await asyncio.wait_for(call, 5), [one.gate.ceiling.slots for one in workers.values()]) == (
        None,
        [3, 3],
    )


@pytest.mark.anyio
async def test_a_worker_that_lost_its_membership_sends_nothing():
    workers = fleet(2, RequestRate(6))
    del workers["w0"].documents["w0"]
    for _ in workers["w0"].exchange():
        workers["w0"].documents.pop("w0", None)
    assert workers["w0"].gate.ceiling.slots == 0


@pytest.mark.anyio
async def test_a_worker_that_was_taken_for_dead_sends_nothing_until_it_is_a_member_again():
    """It stood still, and does not know that the other one has its part by now."""
    workers = fleet(2, RequestRate(6))
    alive, late = workers.values()
    late.lose()
    exchange({alive.id: alive})
    for worker in (alive, late):
        for _ in range(7):
            await worker.send()
    assert (alive.out, late.out, late.gate.ceiling.slots) == (6, 0, 3)
    late.begin_again()
    assert late.limits.report()["p"].slots == 0  # it has no part until it claims one
    waiting = asyncio.ensure_future(late.gate.enter(0))
    exchange(workers)
    assert (alive.out, waiting.done()) == (6, False)
    alive.end(6)
    exchange(workers)
    await asyncio.wait_for(waiting, 5)
    assert [one.gate.ceiling.slots for one in workers.values()] == [3, 3]


@pytest.mark.parametrize("count", [1, 3, 10])
def test_workers_with_a_low_rate_do_not_send_at_once(count):
    """Of three requests in a minute, ten workers send three and not ten, whenever their calls come."""
    clock = _Clock()
    try:
        times = clock.run(_sent_times(clock, count))
    finally:
        clock.close()
    assert len(times) >= 20
    for at, begin in enumerate(times):
        for many, end in enumerate(times[at:], 1):
            assert many <= (end - begin) * 3 / 60 + 2.1, (at, many, end - begin)


async def _sent_times(clock, count):
    workers = fleet(count, RequestRate(16, 3 / 60))
    exchange(workers, clock.time())
    times = []

    async def call(gate, number):
        await asyncio.sleep(number * 7.3 % 40)
        await gate.enter(number)
        times.append(clock.time())
        gate.leave()

    calls = [
        call(one.gate, at * 31 + n) for at, one in enumerate(workers.values()) for n in range(-(-24 // count))
    ]
    await asyncio.gather(*calls)
    return times


class _Clock(asyncio.SelectorEventLoop):
    """An event loop whose time passes when it has nothing to do."""

    def __init__(self):
        super().__init__()
        self._skipped = 1000.0

    def time(self):
        return self._skipped

    def _run_once(self):
        self._skipped += 1e-5
        if not self._ready and self._scheduled:
            self._skipped = max(self._skipped, self._scheduled[0]._when)
        super()._run_once()

    def run(self, main):
        return self.run_until_complete(main)


@pytest.mark.anyio
async def test_a_429_of_one_worker_slows_all_of_them_once():
    workers = fleet(3, RequestRate(48))
    loop = asyncio.get_running_loop()
    throttled, news = workers["w0"].gate, workers["w0"].news
    throttled.on_throttle(sent_at=loop.time(), until=loop.time() + 30)
    assert workers["w0"].news == news + 1  # it learns it at once
    exchange(workers)
    for one in workers.values():
        assert one.gate.pace.slots == 4  # a quarter, and only once
        assert one.gate.closed_seconds > 25
    assert [one.gate.throttles for one in workers.values()] == [1, 0, 0]


@pytest.mark.anyio
async def test_a_worker_that_begins_learns_of_a_provider_that_is_closed():
    workers = fleet(1, RequestRate(4))
    gate = workers["w0"].gate
    others = {"old": {"p": ProviderReport(7, 12.0)}, "calm": {"q": ProviderReport(9, 0.0)}}
    workers["w0"].limits.grant("w0", others, 0)
    assert 11 < gate.closed_seconds <= 12
    assert gate.pace.rate == math.inf
