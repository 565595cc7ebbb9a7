"""`assay serve --processes 3`: real processes on one port and one SQLite file, spoken to over many connections."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import time
from pathlib import Path
from typing import NamedTuple

import grpc
import httpx
import pytest

from assay.conform.grpc.messages import message_of
from support.servers.grpc_client import Client
from support.servers.server_group import (
    REQUEST,
    answers_of_all,
    awaited,
    serve_group,
    slow,
    submit_until,
)
from support.waiting import PATIENCE, until

pytestmark = pytest.mark.together("serve-workers")
SLOW = slow(30)
WORKERS = 3
RUNS = 4


@pytest.fixture(scope="module")
def server(zygote, tmp_path_factory):
    limits = {"ASSAY_MAX_TENANT_RUNS": str(RUNS), "ASSAY_SERVER_PROCESSES": str(WORKERS)}
    with serve_group(zygote, tmp_path_factory.mktemp("workers"), **limits) as group:
        yield group


async def statuses_of(client, key):
    answers = await answers_of_all(lambda: client.get("/v1/evaluations", headers={"X-API-Key": key}), WORKERS)
    return {one.status_code for one in answers}


class Revoked(NamedTuple):
    key: str
    until: float


@pytest.fixture(scope="module")
def revoked(server, zygote):
    """A key that all workers have accepted, and that is revoked by now. The tests in between are the wait."""

    def run(*arguments):
        return zygote.start("admin", "key", *arguments, folder=server.folder).communicate()[0]

    async def used():
        async with server.connect() as client:
            assert await statuses_of(client, key) == {200}

    key = next(word for word in run("create", "--tenant", "other").split() if word.startswith("assay_"))
    asyncio.run(used())
    run("revoke", key.split("_")[1])
    return Revoked(key, time.monotonic() + 5)


@awaited
async def test_a_run_of_one_worker_is_shown_followed_and_cancelled_by_every_other(server):
    assert len(server.pids) == WORKERS
    async with server.connect() as client:
        started = await client.post("/v1/evaluations", json=SLOW)
        assert started.status_code == 202, started.text
        run = started.json()["operation_id"]
        path = f"/v1/evaluations/{run}"
        shown = await answers_of_all(lambda: client.get(f"/v1/operations/{run}"), WORKERS)
        assert {one.status_code for one in shown} == {200}

        followers = []

        async def follow():
            async with client.stream("GET", f"{path}/events") as stream:
                followers.append(stream.status_code)
                return [line async for line in stream.aiter_lines() if line.startswith("data:")]

        following = [asyncio.create_task(follow()) for _ in range(6)]
        await until(lambda: followers == [200] * 6, lambda: followers)
        for _ in range(6):  # one of them reaches a worker that does not conduct the run
            cancelled = await client.post(f"{path}:cancel")
            assert cancelled.status_code in (200, 202, 409), cancelled.text
        logs = await asyncio.wait_for(asyncio.gather(*following), PATIENCE)
        assert len({tuple(log) for log in logs}) == 1
        assert '"cancelled"' in logs[0][-1]


@awaited
async def test_one_idempotency_key_on_all_workers_runs_once(server):
    async with server.connect() as client:
        headers = {"Idempotency-Key": "one"}
        answers = await answers_of_all(
            lambda: client.post("/v1/evaluate", json=REQUEST, headers=headers), WORKERS, wave=18
        )
        assert {one.status_code for one in answers} == {200}, [one.text for one in answers]
        assert len({one.json()["evaluation_id"] for one in answers}) == 1
        assert sum("openwop-idempotent-replay" not in one.headers for one in answers) == 1


@awaited
async def test_the_limit_of_runs_holds_for_all_workers_together(server, revoked):
    async with server.connect() as client:
        answers = await asyncio.gather(*(client.post("/v1/evaluations", json=SLOW) for _ in range(24)))
        accepted = [one.json()["operation_id"] for one in answers if one.status_code == 202]
        refused = [one for one in answers if one.status_code == 429]
        assert len(accepted) <= RUNS
        assert accepted
        assert len(accepted) + len(refused) == 24
        assert "ASSAY_MAX_TENANT_RUNS" in refused[0].text
        for _ in range(
            40
        ):  # simultaneous requests may refuse each other; one after the other they fill the limit
            if len(accepted) == RUNS:
                break
            if (one := await client.post("/v1/evaluations", json=SLOW)).status_code == 202:
                accepted.append(one.json()["operation_id"])
        assert len(accepted) == RUNS
        assert {(await client.post("/v1/evaluations", json=SLOW)).status_code for _ in range(6)} == {429}
        await asyncio.gather(*(client.post(f"/v1/evaluations/{run}:cancel") for run in accepted))
        assert (await client.post("/v1/evaluate", json=REQUEST)).status_code == 200


@awaited
async def test_a_code_of_the_page_works_once_and_its_session_everywhere(server):
    async with server.connect() as client:
        code = (await client.post("/v1/host/assay/session:code")).json()["code"]
        tries = await asyncio.gather(
            *(client.post("/v1/host/assay/session:exchange", json={"code": code}) for _ in range(6))
        )
        (opened,) = [one for one in tries if one.status_code == 201]
        session = {"X-API-Key": opened.json()["key"]}
        shown = await asyncio.gather(
            *(client.get("/v1/host/assay/session", headers=session) for _ in range(6))
        )
        assert {one.status_code for one in shown} == {200}


HEALTH = 'assay_requests_total{route="GET /v1/health",status="200",transport="rest"}'


async def metrics(client):
    text = (await client.get("/metrics")).text
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


@awaited
async def test_metrics_are_sums_over_all_workers_and_grpc_has_one_port(server, revoked):
    for _ in range(4):
        with grpc.insecure_channel(server.calls, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            assert Client(channel, server.key).RunEvaluation(message_of(REQUEST)).evaluation_id
    async with server.connect() as client:
        for _ in range(6):
            await client.get("/v1/health")
        counts = []
        async with asyncio.timeout(PATIENCE):
            while counts[-9:] != [6] * 9:  # each worker tells the others its numbers once a second
                counts.append(float((await metrics(client)).get(HEALTH, 0)))
        for _ in range(3):
            lines = await metrics(client)
            assert float(lines["assay_server_processes"]) == WORKERS
            assert float(lines[HEALTH]) == 6, lines
            assert sum(name.startswith("process_resident_memory_bytes{process=") for name in lines) == WORKERS


@awaited
async def test_a_killed_worker_is_replaced_and_nothing_acknowledged_is_lost(server):
    before, acknowledged = server.pids, []
    async with server.connect() as client:
        stop = asyncio.Event()
        work = [asyncio.create_task(submit_until(stop, client, acknowledged)) for _ in range(4)]
        await until(lambda: len(acknowledged) >= 4)
        os.kill(min(before), signal.SIGKILL)
        server.killed += 1
        await until(lambda: len(server.pids) == WORKERS and server.pids != before)
        served = len(acknowledged)
        await until(lambda: len(acknowledged) >= served + 8)
        stop.set()
        await asyncio.gather(*work)
        found = [await client.get(f"/v1/evaluations/{run}") for run in acknowledged[-60:]]
        assert acknowledged
        assert {one.status_code for one in found} == {200}
        assert len(server.pids & before) == WORKERS - 1


@awaited
async def test_a_revoked_key_is_refused_by_every_worker_in_time(server, revoked):
    async with server.connect() as client:
        asked = time.monotonic()
        while await statuses_of(client, revoked.key) != {401}:
            assert asked < revoked.until
            await asyncio.sleep(0.1)
            asked = time.monotonic()


def test_server_processes_stop_as_one_and_loses_nothing_acknowledged(server):
    """On SIGTERM each worker ends the requests that it has, and a request that waits for a run gets the answer that the server stops."""
    workers, acknowledged = server.pids, []

    async def stop_under_load():
        stop = asyncio.Event()
        async with server.connect() as client:
            waits = [asyncio.create_task(client.post("/v1/evaluate", json=SLOW)) for _ in range(3)]
            work = [asyncio.create_task(submit_until(stop, client, acknowledged)) for _ in range(4)]
            await until(lambda: len(acknowledged) >= 8)
            server.process.send_signal(signal.SIGTERM)
            _, err = await asyncio.to_thread(server.process.communicate)
            stop.set()
            await asyncio.gather(*work)
            return err, await asyncio.gather(*waits)

    err, waited = asyncio.run(stop_under_load())
    assert [one.status_code for one in waited] == [503] * 3
    assert all("the server is stopping" in one.text for one in waited)
    assert server.process.returncode == 0, err
    assert err.count("assay has stopped") == 1
    assert err.count("ended with signal 9; another one starts") == server.killed
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.address}/v1/live", timeout=60)
    with contextlib.closing(sqlite3.connect(server.folder / ".assay" / "assay.db")) as store:
        statuses = dict(store.execute("SELECT id, status FROM runs").fetchall())
    assert {statuses[run] for run in acknowledged} == {"completed"}
    unfinished = [status for status in statuses.values() if status in ("pending", "running")]
    assert len(unfinished) == 3  # the next start continues them


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--processes", "0"], "--processes: expected a whole number from 1 to 256"),
        (["--processes", "2", "--check-module", "nothing_here:at_all"], "nothing_here:at_all"),
    ],
)
def test_a_server_that_cannot_start_says_why_once(command, tmp_path, options, message):
    ended = command("serve", "--port", "0", *options, folder=tmp_path)
    assert ended.code == 2
    assert ended.err.count(message) == 1, ended.err


def test_memory_is_not_shared(command, tmp_path):
    environ = {**os.environ, "ASSAY_DATABASE_URL": "memory:"}
    ended = command("serve", "--port", "0", "--processes", "2", folder=tmp_path, environ=environ)
    assert ended.code == 2
    assert "expected a database that several processes share" in ended.err
