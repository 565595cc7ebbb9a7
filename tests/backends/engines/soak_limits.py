"""
Limits over several workers, for `make soak`: those of a provider, and those of a tenant.

Three real workers on a real PostgreSQL call a provider on this machine. The provider counts requests, and says which worker sent them.
"""

import signal
import time
from contextlib import contextmanager

import pytest

from support.models.judges import judge
from support.models.provider_server import ProviderServer
from support.servers.fleet import Fleet
from support.stores.postgres import server

GRACE = 2.0  # seconds until all workers have read of a 429


@contextmanager
def workers(zygote, folder, *, count=3, environ=None, **provider):
    """A server, workers, and the provider that they share. The key of a request names its worker."""
    lines = [f"{name} = {value}" for name, value in provider.items()]
    with ProviderServer() as provider_server, server().database() as address:
        settings = "\n".join(
            [
                "[providers.fake]",
                f'base_url = "{provider_server.base_url}"',
                'api_key = "${FLEET_WORKER}"',
                *lines,
            ]
        )
        fleet = Fleet(
            zygote, folder, address, lease=2.0, settings=settings, FLEET_WORKER="server", **environ or {}
        )
        try:
            fleet.start_server()
            for number in range(count):
                fleet.start_worker(FLEET_WORKER=f"worker-{number}")
            yield fleet, provider_server
        finally:
            fleet.close()


def submit(fleet, name, cases, script):
    """Every case asks the judge once."""
    check = judge(
        f"{name}: is {{{{$.test_case.input}}}} right?",
        model=script,
        provider_config={"provider_name": "fake"},
    )
    fleet.submit_evaluation(name, cases, check)


def sender(request):
    return request.headers["authorization"].removeprefix("Bearer ")


def test_a_429_of_one_worker_silences_all_of_them(zygote, tmp_path):
    """The provider names a time. Until then no worker sends a request, although each of them has calls to make."""
    pause, before = 8, 40
    with workers(zygote, tmp_path, max_concurrency=12) as (fleet, provider):
        submit(fleet, "calls", 300, ",".join(["slow:0.2"] * before + [f"429:{pause}", "slow:0.2"]))
        assert set(fleet.wait().values()) == {"completed"}
        counts = fleet.counts()
    refused = provider.seen[before].at
    assert {sender(one) for one in provider.seen[:before]} == {f"worker-{at}" for at in range(3)}
    since = [one.at - refused for one in provider.seen if one.at > refused]
    late = [seconds for seconds in since if GRACE < seconds < pause]
    early = [seconds for seconds in since if seconds <= GRACE]
    resumed = min(seconds for seconds in since if seconds > GRACE)
    summary = f"{len(early)} requests within {max(early, default=0):.2f} s of the 429, then none until {resumed:.2f} s"
    print(f"\n{summary}; {len(provider.seen)} requests, the workers say {counts}")  # noqa: T201
    assert not late, late
    again = counts["repeated"] + counts["refused"]  # of workers that stood still for a lease
    assert 301 <= len(provider.seen) <= 301 + again


@pytest.mark.parametrize("limit", [5, 2])
def test_a_provider_has_at_most_its_requests_at_once(zygote, tmp_path, limit):
    """Also when a worker joins, when one is killed, and when there are fewer slots than workers."""
    with workers(zygote, tmp_path, max_concurrency=limit, count=2) as (fleet, provider):
        submit(fleet, "calls", 60 * limit, "slow:0.2")
        while len(provider.seen) < 15 * limit:
            time.sleep(0.05)
        fleet.start_worker(FLEET_WORKER="worker-2")
        while len(provider.seen) < 30 * limit:
            time.sleep(0.05)
        fleet.workers[0].kill()
        assert set(fleet.wait().values()) == {"completed"}
    print(f"\nlimit {limit}: at most {provider.most_at_once} requests at once")  # noqa: T201
    assert provider.most_at_once <= limit
    assert {sender(one) for one in provider.seen} == {f"worker-{at}" for at in range(3)}


def test_a_worker_that_stood_still_does_not_use_the_slots_that_others_have_by_now(zygote, tmp_path):
    """It goes on when the others have taken it for dead. Its requests have ended long ago, and it has more to send."""
    limit = 6
    with workers(zygote, tmp_path, max_concurrency=limit, count=2) as (fleet, provider):
        submit(fleet, "calls", 90 * limit, "slow:0.2")
        for _ in range(3):
            await_requests(provider, 10 * limit)
            late = fleet.workers[1]
            late.send_signal(signal.SIGSTOP)
            while len(fleet.read(lambda store: store.documents("", "worker", limit=10))) > 1:
                time.sleep(0.05)
            await_requests(provider, 4 * limit)  # the other one uses all slots
            late.send_signal(signal.SIGCONT)
            while len(fleet.read(lambda store: store.documents("", "worker", limit=10))) < 2:
                time.sleep(0.05)
        assert set(fleet.wait().values()) == {"completed"}
    print(f"\nlimit {limit}: at most {provider.most_at_once} requests at once")  # noqa: T201
    assert provider.most_at_once <= limit


def await_requests(provider, many):
    """Wait until the provider has got so many more."""
    enough = len(provider.seen) + many
    while len(provider.seen) < enough:
        time.sleep(0.05)


@pytest.mark.parametrize("per_minute", [12, 240])
def test_a_provider_gets_at_most_its_requests_in_a_minute(zygote, tmp_path, per_minute):
    """A burst is that of one process: the requests of a second, one at least."""
    with workers(zygote, tmp_path, requests_per_minute=per_minute, max_concurrency=8) as (fleet, provider):
        submit(fleet, "calls", 20 if per_minute == 12 else 160, "slow:0.05")
        fleet.wait()
    times = [one.at for one in provider.seen]
    print(f"\nlimit {per_minute} a minute: {len(times)} requests in {times[-1] - times[0]:.0f} s")  # noqa: T201
    for at, begin in enumerate(times):
        for count, end in enumerate(times[at:], 1):
            allowed = (end - begin) * per_minute / 60 + max(1, per_minute / 60) + 2
            assert count <= allowed, (at, count, end - begin)


def test_a_tenant_starts_at_most_its_units_in_a_minute(zygote, tmp_path):
    """The limit holds over three workers. Another tenant is not held up."""
    environ = {"ASSAY_WORKERS_TENANT_UNITS_PER_MINUTE": "40", "FLEET_SECONDS": "0.01"}
    with workers(zygote, tmp_path, environ=environ) as (fleet, _):
        began = time.monotonic()
        fleet.submit_eval("limited", 60, 1)
        counts = []
        while len(counts) < 50:
            time.sleep(1.0)
            counts.append(len(fleet.executions()))
        assert counts[-1] <= 40, counts
        assert counts[20] == 40, counts  # they start at once
        made = zygote.start(
            "admin", "key", "create", "--tenant", "other", folder=fleet.folder, environ=fleet.environ
        )
        fleet.key, before = made.communicate()[0].strip(), fleet.key
        fleet.submit_eval("other", 10, 1)
        asked = time.monotonic()
        fleet.wait_for("other")
        assert time.monotonic() - asked < 60  # the minute of the first tenant
        fleet.key = before
        fleet.wait_for("limited")
        print(f"\n40 units in the first 50 s, 60 after {time.monotonic() - began:.0f} s")  # noqa: T201
