"""Faults that take a while, for `make soak`: real servers on one PostgreSQL, one of which stands still."""

import contextlib
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import httpx

from support.servers.rest_client import request_of
from support.stores.postgres import server
from test_locks import PATIENCE, until_stopped

BOUND = 3.5  # seconds until every answer is there: 3, and what a client itself takes
SLOW = """
import asyncio
from assay.checks.checker import Checker

class Slow(Checker):
    type = "slow"

    async def run(self, services):
        await asyncio.sleep(0.05)
        return {"passed": True}
"""


def test_a_run_of_a_server_that_stands_still_is_cancelled_at_another(zygote, tmp_path):
    """Two real servers; the one that conducts the run is paused in the middle of a commit of it."""
    (tmp_path / "dawdling.py").write_text(SLOW)
    (tmp_path / "assay.toml").write_text("check_modules = ['dawdling:Slow']\nconcurrency = 1\n")
    waiting = request_of(200, [{"type": "slow", "arguments": {}}])
    with server().database() as address, contextlib.ExitStack() as stack:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
        environ |= {"ASSAY_DATABASE_URL": address}
        made = zygote.start("admin", "key", "create", "--tenant", "acme", folder=tmp_path, environ=environ)
        key = made.communicate()[0].strip()

        def serving(**more):
            process = zygote.start("serve", "--port", "0", folder=tmp_path, pipe=True, environ=environ | more)
            stack.callback(process.close)
            url = process.stdout.readline().split()[2]
            headers = {"X-API-Key": key}
            return process, stack.enter_context(httpx.Client(base_url=url, headers=headers, timeout=60))

        _, other = serving()
        paused, client = serving(ASSAY_FAILPOINT="commit.written:12:STOP")
        run = client.post("/v1/evaluations", json=waiting).json()["operation_id"]
        until_stopped(paused.pid)
        began = time.monotonic()
        with ThreadPoolExecutor(2) as pool:
            cancelling = pool.submit(other.post, f"/v1/evaluations/{run}:cancel", json={})
            for _ in range(3):
                assert other.post("/v1/evaluate", json=request_of(2)).status_code == 200
            took = [time.monotonic() - began]
            response = cancelling.result()
            took.append(time.monotonic() - began)
        assert response.status_code in (200, 503), response.text
        assert took[0] < BOUND
        assert took[1] < BOUND
        os.kill(paused.pid, signal.SIGCONT)
        while response.status_code == 503:
            response = other.post(f"/v1/evaluations/{run}:cancel", json={})
        until = time.monotonic() + PATIENCE
        while other.get(f"/v1/operations/{run}").json()["status"] != "cancelled":
            assert time.monotonic() < until
            time.sleep(0.05)
