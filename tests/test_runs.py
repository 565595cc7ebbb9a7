"""Runs that survive: killed at every commit and at random, on both databases, they end with every result once."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

import runs_worker
from assay.backends.engines.local import LocalEngine
from assay.backends.stores.open import open_store
from assay.checks import STANDARD
from assay.errors import Conflict, NotFound, Unavailable
from assay.fep.execute import Conduct
from assay.fep.kind import EvaluationKind
from assay.fep.office import Asked, Office
from assay.fep.request import contexts_of
from assay.ports import RunQuery, Services
from assay.protocol.evaluation import Check, ExperimentMetadata
from assay.runs.desk import Desk
from postgres import server
from runs_worker import LEASE, Logged, Prompt

FAILPOINTS = ["commit.before", "commit.written", "commit.after", "commit.told"]
CASES = {"logged": 60, "prompt": 1_200}  # 60 units of one case; 3 units of many


@pytest.fixture(params=["sqlite", "postgres"])
def address(request, tmp_path):
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/runs.db"
    else:
        with server().database() as url:
            yield url


class Host:
    """The worker as a process, and what it leaves behind."""

    def __init__(self, address, folder, type):
        self.address, self.log, self.type = address, folder / "log", type
        self.log.touch()

    def start(self, failpoint=""):
        environment = {**os.environ, "RUNS_LOG": str(self.log), "ASSAY_FAILPOINT": failpoint}
        command = [sys.executable, runs_worker.__file__, self.address, str(CASES[self.type]), self.type]
        return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)

    def finish(self):
        process = self.start()
        _, told = process.communicate(timeout=60)
        assert process.returncode == 0, told.decode()

    def executed(self):
        return [int(line) for line in self.log.read_text().split()]

    def recorded(self):
        """The cases that have a result, and how the run stands."""

        async def read():
            store = await open_store(self.address)
            try:
                runs = await store.runs(RunQuery())
                if not runs:
                    return "none", [], []
                (run,) = runs
                office = Office(store, STANDARD.extended([Logged, Prompt]), Services())
                lines = [json.loads(line) async for line in office.results(run)]
                events = await store.events(run.id)
                return run.status, lines, events
            finally:
                await store.close()

        return asyncio.run(read())


def ids(lines):
    return [int(line["execution_context"]["test_case"]["id"]) for line in lines]


def check_the_end(host):
    status, lines, events = host.recorded()
    many = CASES[host.type]
    assert status == "completed"
    assert ids(lines) == list(range(many))
    assert all(
        line["check_results"][0]["results"] == {"passed": at % 3 == 0} for at, line in enumerate(lines)
    )
    assert [event.sequence for event in events] == list(range(len(events)))
    assert events[0].type == "evaluation.started"
    assert events[-1].type == "evaluation.completed"
    assert json.loads(events[-1].data)["summary"]["total_test_cases"] == many
    units = Counter(json.loads(event.data)["unit"] for event in events[1:-1])
    assert set(units.values()) == {1}


@pytest.mark.parametrize("type", CASES)
@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_killed_at_a_commit_it_ends_as_if_left_alone(address, tmp_path, failpoint, type):
    host = Host(address, tmp_path, type)
    for count in (1, 2, 3, 5):
        before = set(ids(host.recorded()[1]))
        executed = len(host.executed())
        process = host.start(f"{failpoint}:{count}")
        process.communicate(timeout=60)
        assert not before & set(host.executed()[executed:]), "what is recorded was executed again"
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
        if host.recorded()[0] == "completed":
            break
        time.sleep(LEASE)
    if host.recorded()[0] not in ("completed", "failed"):
        host.finish()
    if host.recorded()[0] == "failed":  # killed while the request was being taken in: nobody was told of it
        assert type == "prompt"
        return
    check_the_end(host)


def test_killed_at_random_instants_it_ends_as_if_left_alone(address, tmp_path):
    dice = random.Random(7)
    kills = runs = 0
    while kills < 25:  # on each of two databases
        folder = tmp_path / str(runs)
        folder.mkdir()
        where = f"sqlite:///{folder}/runs.db" if address.startswith("sqlite") else address
        host = Host(where, folder, "logged")
        while True:
            before = set(ids(host.recorded()[1]))
            executed = len(host.executed())
            process = host.start()
            try:
                process.communicate(timeout=dice.uniform(0.3, 1.4))
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
            assert not before & set(host.executed()[executed:]), "what is recorded was executed again"
            if host.recorded()[0] == "completed":
                break
            time.sleep(LEASE)
        check_the_end(host)
        runs += 1
        if not address.startswith("sqlite"):
            asyncio.run(forget(address))


async def forget(address):
    """An empty record again."""
    from sqlalchemy import create_engine, text

    engine = create_engine(address.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        tables = connection.execute(
            text(
                "select tablename from pg_tables where schemaname = 'public' and tablename not like 'alembic%'"
            )
        )
        names = ", ".join(f'"{name}"' for (name,) in tables if "version" not in name)
        connection.execute(text(f"truncate {names} cascade"))
    engine.dispose()


class Room:
    """A desk in this process."""

    def __init__(self, store, lease=1.0):
        services, registry = Services(), STANDARD.extended([Logged, Prompt])
        kind = EvaluationKind(store, registry, services, Conduct())
        engine = LocalEngine(lambda _, unit: kind.perform(unit), 4)
        self.desk = Desk(store, engine, {kind.name: kind}, lease=lease)
        self.office = Office(store, registry, services, lease=lease)
        self.store = store

    async def start(self, cases, tenant="t"):
        checks = [Check(type="logged", arguments={"at": "$.test_case.input"})]
        contexts = contexts_of(
            [{"id": str(at), "input": at} for at in range(cases)],
            [{"value": at} for at in range(cases)],
            self.office.services.limits,
        )
        asked = Asked(self.office.plan(checks), checks, ExperimentMetadata(name="x"), cases)
        run = await self.office.take_in(asked, contexts, tenant, self.desk.holder)
        self.desk.begin(run)
        return run


def in_a_room(test):
    """Run a coroutine with a room on every kind of store."""

    @pytest.mark.parametrize("where", ["memory", "sqlite", "postgres"])
    def run(where, tmp_path, monkeypatch):
        monkeypatch.setenv("RUNS_LOG", str(tmp_path / "log"))

        async def main(address):
            store = await open_store(address)
            try:
                await test(Room(store))
            finally:
                await store.close()

        if where == "postgres":
            with server().database() as url:
                asyncio.run(main(url))
        else:
            asyncio.run(main("memory:" if where == "memory" else f"sqlite:///{tmp_path}/runs.db"))

    run.__name__ = test.__name__
    return run


@in_a_room
async def test_a_cancelled_run_keeps_what_is_done_and_shows_the_rest_as_skip(room):
    await room.desk.open()
    run = await room.start(2_000)
    await room.store.wait_for_events(run.id, after=4, timeout=10)
    ended = await room.desk.cancel(run.id, "t")
    assert ended.status == "cancelled"
    statuses = Counter([json.loads(line)["status"] async for line in room.office.results(ended)])
    assert statuses.total() == 2_000
    assert 0 < statuses["completed"] < 2_000
    assert ended.head["summary"]["skipped_test_cases"] == statuses["skip"]
    with pytest.raises(Conflict):
        await room.desk.cancel(run.id, "t")
    await room.desk.close()


@in_a_room
async def test_a_follower_sees_every_event_once_from_where_it_asked(room):
    await room.desk.open()
    run = await room.start(50)
    followers = [asyncio.create_task(collect(room.desk, run.id, after)) for after in (-1, -1, 10)]
    await room.desk.ended(run.id)
    seen = await asyncio.gather(*followers)
    whole = [event.sequence for event in await room.store.events(run.id)]
    assert seen == [whole, whole, whole[11:]]
    await room.desk.close()


async def collect(desk, run, after):
    return [event.sequence async for event in desk.follow(run, "t", after) if event is not None]


@in_a_room
async def test_a_desk_that_closes_parks_its_runs_and_another_takes_them_up(room):
    await room.desk.open()
    run = await room.start(300)
    await asyncio.sleep(0.1)
    await room.desk.close(seconds=5)
    with pytest.raises(Unavailable):
        room.desk.begin(run)
    parked = await room.store.run(run.id)
    assert (parked.status, parked.holder) == ("running", None)
    other = Room(room.store)
    await other.desk.open()
    assert (await other.desk.ended(run.id)).status == "completed"
    assert len([line async for line in other.office.results(await other.store.run(run.id))]) == 300
    await other.desk.close()


@in_a_room
async def test_a_run_of_another_tenant_is_as_unknown_as_none(room):
    run = await room.start(1)
    told = []
    for name, tenant in ((run.id, "other"), ("eval_none", "t")):
        try:
            await room.desk.get(name, tenant)
        except NotFound as unknown:
            told.append(str(unknown).replace(name, "…"))
    assert len(set(told)) == 1
    assert len(told) == 2
    await room.desk.ended(run.id)
    await room.desk.close()


@in_a_room
async def test_another_process_can_ask_for_the_end_of_a_run(room):
    await room.desk.open()
    run = await room.start(5_000)
    other = Room(room.store)
    ended = await other.desk.cancel(run.id, "t")
    assert ended.status == "cancelled"
    await room.desk.close()
