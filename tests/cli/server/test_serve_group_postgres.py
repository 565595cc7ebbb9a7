"""`assay serve --processes 2` on PostgreSQL with TLS. The last test ends it: a worker that cannot start any more."""

import asyncio
import os
import signal
import ssl
from collections import Counter

import pytest
import trustme

from assay.errors.exit_codes import ERROR
from support.servers.server_group import (
    REQUEST,
    awaited,
    request_process,
    serve_group,
    slow,
    submit_until,
)
from support.stores.postgres import server as postgres
from support.waiting import PATIENCE, until

pytestmark = pytest.mark.together("serve-group")
WORKERS = 2
REQUESTS = 8  # of one tenant at once, on both workers


@pytest.fixture(scope="module")
def group(zygote, tmp_path_factory):
    folder = tmp_path_factory.mktemp("group")
    authority = trustme.CA()
    cert = authority.issue_cert("127.0.0.1")
    cert.private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    trusting = ssl.create_default_context(cafile=folder / "ca.pem")
    tls = "--tls-cert", str(folder / "server.pem"), "--tls-key", str(folder / "server.pem")
    with postgres().store_database() as address:
        environ = {"ASSAY_DATABASE_URL": address, "ASSAY_MAX_TENANT_REQUESTS": str(REQUESTS)}
        with serve_group(
            zygote, folder, "--processes", str(WORKERS), *tls, verify=trusting, **environ
        ) as group:
            yield group


@pytest.fixture(scope="module")
def unfinished(group):
    """Runs in progress on both workers, of which one was killed. The tests in between are the wait for their lease."""

    async def start():
        started = []
        async with group.connect() as client:
            while len({request_process(one) for one in started}) < WORKERS:
                some = [client.post("/v1/evaluations", json=slow(1.5)) for _ in range(4)]
                started += await asyncio.gather(*some)
        assert {one.status_code for one in started} == {202}
        return [one.json()["operation_id"] for one in started]

    runs = asyncio.run(start())
    os.kill(min(group.pids), signal.SIGKILL)
    return runs


@awaited
async def test_one_key_at_both_workers_at_once_runs_once(group, unfinished):
    async with group.connect() as client:
        for at in range(100):  # until the worker that was killed is replaced
            headers = {"Idempotency-Key": f"key {at}"}
            answers = await asyncio.gather(
                *(client.post("/v1/evaluate", json=REQUEST, headers=headers) for _ in range(REQUESTS - 1))
            )
            assert {one.status_code for one in answers} == {200}, [one.text for one in answers]
            assert len({one.json()["evaluation_id"] for one in answers}) == 1
            assert sum("openwop-idempotent-replay" not in one.headers for one in answers) == 1
            if len({request_process(one) for one in answers}) == WORKERS:
                return
    pytest.fail("all requests went to one worker")


@awaited
async def test_a_run_is_followed_and_cancelled_at_another_worker(group):
    async with group.connect() as client:
        started = await client.post("/v1/evaluations", json=slow(30))
        path = f"/v1/evaluations/{started.json()['operation_id']}"
        followers = []

        async def follow():
            async with client.stream("GET", f"{path}/events") as stream:
                followers.append(stream)
                return [line async for line in stream.aiter_lines() if line.startswith("data:")]

        following = []
        while len({request_process(one) for one in followers}) < WORKERS:
            following.append(asyncio.create_task(follow()))
            await until(lambda: len(followers) == len(following))
        while (cancelled := await client.post(f"{path}:cancel")).status_code in (200, 202):
            if request_process(cancelled) != request_process(started):
                break
        logs = await asyncio.wait_for(asyncio.gather(*following), PATIENCE)
        assert len({tuple(log) for log in logs}) == 1
        assert '"cancelled"' in logs[0][-1]


def without_database(answers):
    """The requests that were refused because the database did not answer in time. A client sends them again."""
    refused = [one for one in answers if one.status_code == 503]
    texts = [one.text for one in refused]
    assert all("storage is unavailable" in text for text in texts), texts
    assert all(one.headers["retry-after"] for one in refused)
    return refused


@awaited
async def test_the_share_of_a_tenant_is_that_of_one_server(group):
    """The limit of requests in progress is not multiplied by the number of workers."""
    async with group.connect() as client:
        answers = []
        # A round may reach one worker only, and a busy machine may have a database without a sign of life for seconds.
        while len({request_process(one) for one in answers}) < WORKERS or without_database(answers):
            answers = await asyncio.gather(
                *(client.post("/v1/evaluate", json=slow(1)) for _ in range(3 * REQUESTS))
            )
        statuses = Counter(one.status_code for one in answers)
        assert statuses.keys() == {200, 429}
        assert 1 <= statuses[200] <= REQUESTS
        refused = next(one for one in answers if one.status_code == 429)
        assert "ASSAY_MAX_TENANT_REQUESTS" in refused.text
        assert refused.headers["retry-after"]


@awaited
async def test_a_worker_that_is_killed_under_load_is_replaced(group):
    before, acknowledged, stop = group.pids, [], asyncio.Event()
    async with group.connect() as client:
        work = [asyncio.create_task(submit_until(stop, client, acknowledged)) for _ in range(3)]
        await until(lambda: len(acknowledged) >= 5)
        os.kill(max(before), signal.SIGKILL)
        served = len(acknowledged)
        await until(lambda: len(acknowledged) >= served + 5 and len(group.pids) == WORKERS)
        stop.set()
        await asyncio.gather(*work)
        assert len(group.pids & before) == WORKERS - 1
        found = [await client.get(f"/v1/evaluations/{run}") for run in acknowledged[-40:]]
        assert {one.status_code for one in found} == {200}


@awaited
async def test_runs_of_a_killed_worker_are_taken_over(group, unfinished):
    async with group.connect() as client, asyncio.timeout(PATIENCE):
        for run in unfinished:
            while (await client.get(f"/v1/operations/{run}")).json()["status"] != "completed":  # noqa: ASYNC110
                await asyncio.sleep(0.2)


def test_five_failed_starts_in_a_row_stop_the_server(group):
    """An operator sees the reason of each, and one sentence at the end; the other worker drains."""
    (group.folder / "sleeper.py").write_text("raise ValueError('a mistake in this file')\n")
    os.kill(min(group.pids), signal.SIGKILL)
    _, err = group.process.communicate()
    assert group.process.returncode == ERROR, err
    assert err.count("ended 5 times before it served; the server stops") == 1
    assert err.count("a mistake in this file") == 5, err
    assert "Traceback" not in err
    assert not [line for line in err.splitlines() if "assay has stopped" in line]
