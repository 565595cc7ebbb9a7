"""Every attack of `make soak`, on a real server: another tenant is answered meanwhile, and SIGTERM ends the server."""

import http.client
import socket
import threading
import time
from contextlib import ExitStack, suppress

import pytest

from support.servers.rest_client import events_of, lines_of, request_of
from support.servers.two_tenants import SECONDS, TwoTenants, under_attack
from support.waiting import wait_until

from bench.attacking import shares  # isort: skip  # pyright: ignore[reportMissingImports]
from bench.attacks import ATTACKS, LONG  # isort: skip  # pyright: ignore[reportMissingImports]


SLOW = ("a schema with a long allOf", "many bad cases", "six bodies of 1.4 MB of []")
QUICK = [name for name in ATTACKS if name not in LONG | {*SLOW}]
AT_ONCE = QUICK[::5]


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", QUICK)
def test_another_tenant_is_answered(two_tenants, name):
    under_attack(two_tenants, ATTACKS[name])


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", SLOW)
def test_another_tenant_is_answered_during_a_slow_attack(two_tenants, name):
    under_attack(two_tenants, ATTACKS[name])


def test_sigterm_ends_the_server_while_it_is_attacked(zygote, tmp_path):
    """By some of them at once; `make soak` sends SIGTERM during each."""
    with TwoTenants(zygote, tmp_path) as server:
        started = threading.Barrier(len(AT_ONCE) + 1)

        def attacking(name):
            started.wait()
            with suppress(
                OSError, http.client.HTTPException, AssertionError, ValueError
            ):  # it stops meanwhile
                ATTACKS[name](server.target)

        for name in AT_ONCE:
            threading.Thread(target=attacking, args=[name], daemon=True).start()
        started.wait()
        time.sleep(0.5)
        server.stop()


LINES = {"content-type": "application/x-ndjson"}
SMALL = {
    "ASSAY_MAX_FOLLOWERS": "8",
    "ASSAY_MAX_TENANT_FOLLOWERS": "4",
    "ASSAY_MAX_HELD_BYTES": "2000000",
    "ASSAY_MAX_TENANT_HELD_BYTES": "1000000",
}


def test_one_tenant_takes_its_share_and_no_more(zygote, tmp_path):
    """As the attacks of `make soak` that are too long for a test, on a server that has less to take."""

    with TwoTenants(zygote, tmp_path, environ=SMALL) as server, server.client() as other:
        run = other.post("/v1/evaluate", json=request_of(1)).json()["evaluation_id"]

        def meanwhile():
            assert len(events_of(other, run)) > 1
            assert other.post("/v1/evaluate", json=request_of(400)).status_code == 200

        under_attack(server, lambda target: shares.many_followers(target, 20, meanwhile))
        under_attack(server, lambda target: shares.trickled_bodies(target, 60, 45_000, meanwhile))


def test_without_file_descriptors_the_server_answers_503_and_recovers(zygote, tmp_path):
    with TwoTenants(zygote, tmp_path, limits={"RLIMIT_NOFILE": 64}) as server, server.client() as other:
        assert other.get("/v1/evaluations").status_code == 200
        with ExitStack() as held:
            idle = [held.enter_context(socket.create_connection(server.target.address)) for _ in range(80)]
            answer = server.target.raw(b"GET /v1/health HTTP/1.1\r\nHost: a\r\n\r\n", SECONDS)
            assert answer.startswith(b"HTTP/1.1 503 "), answer
            assert b"no free file descriptors" in answer
            assert other.get("/v1/evaluations").status_code == 200  # needs no other
            lines = other.post("/v1/evaluate", content=lines_of(request_of(1)), headers=LINES)
            assert (lines.status_code, lines.json()["error"]) == (503, "unavailable")
            assert len(idle) == 80
        wait_until(lambda: server.target.request("GET", "/v1/health").status != 503)
        under_attack(server, lambda target: target.request("GET", "/v1/evaluations"))
