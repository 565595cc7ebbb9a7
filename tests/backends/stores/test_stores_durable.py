"""What the stores on a database promise beyond the contract: through crashes, other processes, outages, full disks, old shapes."""

import asyncio
import contextlib
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa
import zstandard
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, OperationalError

from assay.backends.stores.records import record_rows
from assay.backends.stores.sql import migrate, tables
from assay.backends.stores.sql.connect import open_engine
from assay.backends.stores.sql.liveness import Checkpoints
from assay.backends.stores.sql.store import SqlStore
from assay.errors import Conflict, EnvironmentFailure, UsageError
from assay.ports import CreateRun, Event, EvidenceChunk, PutDocument, RunQuery, RunUpdate, Transaction
from assay.ports.audit import audit_entry
from support.stores.opened import sql_store
from support.stores.postgres import server
from support.waiting import PATIENCE

TESTS = Path(__file__).parents[2]
NOW = record_rows.moment(1_800_000_000_000_000)
OPENED = Transaction(entries=[RunUpdate(run="r", opens=CreateRun(tenant="t", kind="k"))])
STEP = Transaction(entries=[RunUpdate(run="r", events=[Event("step", b"{}", NOW)])])

pytestmark = pytest.mark.anyio


@pytest.fixture
def address(disk):
    return disk


@pytest.fixture(params=["sqlite", "postgres"])
def empty_address(request, tmp_path):
    """Of a database that has no tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/runs.db"
    else:
        with server().database() as address:
            yield address


@pytest.fixture
def postgres_address():
    with server().store_database() as address:
        yield address


@contextlib.contextmanager
def engine_of(address):
    engine = open_engine(address)
    yield engine
    engine.dispose()


def passing(name):
    pass


def start_worker(zygote, address, *arguments, failpoint=""):
    """The failpoint kills it, or the caller."""
    return zygote.start(
        address, *arguments, folder=TESTS, target="support.workers.stores:work", pipe=True,
        environ=os.environ | {"ASSAY_FAILPOINT": failpoint},
    )  # fmt: skip


@pytest.fixture
def worker(zygote, address):
    return partial(start_worker, zygote, address)


async def check_after_crash(address, stdout):
    """No acknowledged commit is lost; none is partial."""
    async with sql_store(address) as store:
        run = await store.run("r")
        count = run.events if run else 0
        events = await store.events("r", limit=1_000_000)
        slots = await store.chunk_infos("r", "result", limit=1_000_000)
        document = await store.document("t", "k", "steps")
    assert max(stdout, default=-1) < count
    assert [(event.sequence, event.data) for event in events] == [(n, b"%d" % n) for n in range(count)]
    assert [slot.first for slot in slots] == list(range(count))
    assert (document.version if document else 0) == count
    return count


# Crashes


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "point", ["commit.before:4", "commit.written:4", "commit.after:4", "commit.acknowledged:4"]
)
async def test_a_kill_around_a_commit_loses_no_acknowledged_commit(address, worker, point):
    process = worker(failpoint=point)
    stdout, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    count = await check_after_crash(address, map(int, stdout.split()))
    stdout, _ = worker("20").communicate()
    assert sorted(map(int, stdout.split())) == list(range(count, count + 20))


async def test_a_kill_at_any_instant_loses_no_acknowledged_commit(address, worker):
    for _ in range(8):
        process = worker()
        first = process.stdout.readline()  # it is at work
        await asyncio.sleep(random.uniform(0, 0.1))
        process.kill()
        stdout, _ = process.communicate()
        assert await check_after_crash(address, map(int, (first + stdout).split())) > 0


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "point", ["commit.before:4", "commit.written:4", "commit.after:4", "commit.acknowledged:4", ""]
)
async def test_a_kill_during_writes_of_whole_runs_leaves_each_whole_or_absent(address, worker, point):
    process = worker("whole", failpoint=point)
    first = process.stdout.readline()  # it is at work
    if not point:
        await asyncio.sleep(random.uniform(0, 0.1))
        process.kill()
    stdout, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    async with sql_store(address) as store:
        there = [run.id for run in await store.runs(RunQuery(limit=100_000))]
        for id in there:
            ((event,), (piece,)) = await store.events(id), await store.chunks(id, "result")
            assert id == f"r{event.data.decode()}" == f"r{piece.data.decode()}"
        lines = await store.audit(limit=100_000)
    assert {f"r{n}" for n in (first + stdout).split()} <= set(there)
    assert sorted(msgspec.json.decode(one.data)["what"] for one in lines) == sorted(there)


@pytest.mark.parametrize("point", ["migrate.before", "migrate.written", "migrate.after"])
async def test_after_a_kill_during_the_creation_of_tables_the_next_start_creates_them(
    empty_address, zygote, point
):
    process = start_worker(zygote, empty_address, failpoint=point)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    async with sql_store(empty_address) as store:
        await store.commit(OPENED)


async def test_committed_data_is_there_after_a_reopen(address):
    async with sql_store(address) as store:
        await store.commit(OPENED)
        steps = [asyncio.ensure_future(store.commit(STEP)) for _ in range(10)]
        await asyncio.sleep(0)
    assert [await step for step in steps] == [(n,) for n in range(1, 11)]  # closing wrote what was given
    with pytest.raises(EnvironmentFailure, match="closed"):
        await store.commit(STEP)
    async with sql_store(address) as store:
        assert (await store.run("r")).events == 10


# Other processes


async def test_processes_that_write_one_database_notify_each_other(address):
    async with sql_store(address) as here, sql_store(address) as there:
        await here.commit(OPENED)
        waiting = asyncio.create_task(there.wait_for_events("r", after=-1, timeout=PATIENCE))
        await asyncio.sleep(0.05)
        await here.commit(STEP)
        assert await waiting
        await asyncio.gather(*(store.commit(STEP) for _ in range(50) for store in (here, there)))
        assert [event.sequence for event in await there.events("r")] == list(range(101))

        made = [
            Transaction(documents=[PutDocument(tenant="t", kind="k", key=f"{n}", data=b"")])
            for n in range(20)
        ]
        answers = await asyncio.gather(
            *(store.commit(batch) for batch in made for store in (here, there)), return_exceptions=True
        )
        assert sum(isinstance(answer, Conflict) for answer in answers) == 20


async def test_processes_that_start_together_create_the_tables_once(worker):
    workers = [worker("0") for _ in range(3)]
    assert [process.wait() for process in workers] == [0, 0, 0]
    for process in workers:
        process.communicate()


async def test_a_cancelled_commit_is_written_whole_or_not_at_all(address):
    async with sql_store(address) as store:
        await store.commit(OPENED)
        calls = [asyncio.create_task(store.commit(STEP)) for _ in range(20)]
        await asyncio.sleep(0.001)
        for call in calls[::2]:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await store.commit(STEP)
        run = await store.run("r")
        assert 11 <= run.events <= 21
        assert len(await store.events("r")) == run.events


# Written where it stands


def opening(run, **more):
    entry = RunUpdate(run=run, opens=CreateRun(tenant="t", kind="k"), status="completed", **more)
    return Transaction(entries=[entry], lines=[audit_entry("t", "run.start", run)])


async def test_the_event_loop_goes_on_while_another_process_has_the_lock(tmp_path):
    address = f"sqlite:///{tmp_path}/runs.db"
    async with sql_store(address) as store:
        await store.commit(opening("first"))
        with engine_of(address) as engine:
            with engine.connect().execution_options(writes=True) as other, other.begin():
                waiting = [asyncio.create_task(store.commit(opening(f"r{n}"))) for n in range(3)]
                for _ in range(20):  # it would stand still for as long as the lock is waited for
                    await asyncio.sleep(0.01)
                assert not any(task.done() for task in waiting)
            assert await asyncio.gather(*waiting) == [(0,)] * 3
        assert len(await store.runs(RunQuery())) == 4


async def test_concurrent_commits_are_written_in_their_order(address):
    async with sql_store(address) as store:
        await store.commit(opening("first"))
        for many in range(1, 4):
            entry = RunUpdate(run=f"n{many}", opens=CreateRun(tenant="t", kind="k"))
            given = [
                Transaction(entries=[entry]),
                *(_step(f"n{many}") for _ in range(many)),
                opening(f"m{many}"),
            ]
            expected = [(0,), *((n,) for n in range(1, many + 1)), (0,)]
            assert await asyncio.gather(*map(store.commit, given)) == expected
        with pytest.raises(Conflict, match="a run of that id exists already"):
            await store.commit(opening("m1"))
        again = await asyncio.gather(
            *map(store.commit, [opening("m1"), opening("x")]), return_exceptions=True
        )
        assert [type(one) for one in again] == [Conflict, tuple]


def _step(run):
    return Transaction(entries=[RunUpdate(run=run, events=STEP.entries[0].events)])


# Shapes


@pytest.mark.filterwarnings("ignore:.*expression-based index")
async def test_the_migrations_make_the_tables_the_code_knows(empty_address):
    async with sql_store(empty_address):
        pass
    assert ScriptDirectory(str(migrate.SCRIPTS)).get_current_head() == migrate.HEAD
    with engine_of(empty_address) as engine, engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables.metadata) == []


DIGESTS_OF_THE_BASELINE = {
    "r0001_postgresql.sql": "9cb6b1a8b393a7e3",
    "r0001_sqlite.sql": "8d75c483141ae547",
}


def test_the_baseline_is_the_schema_of_the_release():
    """A database of 0.1.0 exists somewhere: another schema is a migration after the baseline."""
    versions = migrate.SCRIPTS / "versions"
    digests = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in versions.glob("*.sql")
    }
    assert digests == DIGESTS_OF_THE_BASELINE


def schema_of(engine):
    """All that a database knows of its tables."""
    with engine.connect() as connection:
        found = sa.inspect(connection)
        if engine.dialect.name == "sqlite":
            query = "SELECT name, CASE type WHEN 'index' THEN coalesce(sql, '') ELSE sql LIKE '%WITHOUT ROWID%' END FROM sqlite_master"
        else:
            query = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
        own = sorted(map(tuple, connection.execute(sa.text(query))))
        return own, {
            name: (
                [{**column, "type": repr(column["type"])} for column in found.get_columns(name)],
                found.get_pk_constraint(name),
                found.get_foreign_keys(name),
            )
            for name in found.get_table_names()
        }


def test_a_new_database_has_the_schema_that_the_migrations_make(empty_address):
    with engine_of(empty_address) as engine:
        migrate.bring_up(engine, passing)
        created = schema_of(engine)
        tables.metadata.drop_all(engine)
        with engine.begin() as connection:
            connection.execute(sa.text("DROP TABLE alembic_version"))
            migrate._upgrade(connection, migrate.SCRIPTS, migrate.HEAD)
        assert schema_of(engine) == created


async def test_an_older_database_is_brought_up_with_what_is_in_it(empty_address, tmp_path):
    """The schema after ours is made up here: 0002 adds a column and fills it."""
    async with sql_store(empty_address) as store:
        await store.commit(OPENED)
        await store.commit(STEP)
    scripts = tmp_path / "newer"
    shutil.copytree(migrate.SCRIPTS, scripts, dirs_exist_ok=True)
    (scripts / "versions" / "r0002_next.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\nrevision, down_revision = '0002', '0001'\n"
        "def upgrade():\n    op.add_column('runs', sa.Column('next', sa.Text))\n    op.execute('UPDATE runs SET next = id')\n"
    )
    with engine_of(empty_address) as engine:
        migrate.bring_up(engine, passing, scripts=scripts, head="0002")
        migrate.bring_up(engine, passing, scripts=scripts, head="0002")
        with engine.connect() as connection:
            assert connection.execute(sa.text("SELECT next, events FROM runs")).all() == [("r", 1)]

    with pytest.raises(UsageError, match="expected a schema version up to 0001, got 0002"):
        await SqlStore.open(empty_address)


async def test_a_migration_that_fails_leaves_the_database_as_it_was(empty_address, tmp_path):
    (tmp_path / "versions").mkdir()
    (tmp_path / "env.py").write_text((migrate.SCRIPTS / "env.py").read_text())
    (tmp_path / "versions" / "r0001.py").write_text(
        "from alembic import op\nrevision, down_revision = '0001', None\n"
        "def upgrade():\n    op.execute('CREATE TABLE half (id int)')\n    op.execute('nonsense')\n"
    )
    with engine_of(empty_address) as engine:
        with pytest.raises(DBAPIError):
            migrate.bring_up(engine, passing, scripts=tmp_path, head="0001")
        assert sa.inspect(engine).get_table_names() == []


def test_heavy_modules_are_loaded_when_used(tmp_path):
    program = (
        "import asyncio, sys\nfrom assay.backends.stores.open import open_store\n"
        "assert 'sqlalchemy' not in sys.modules\n"
        f"asyncio.run(open_store('sqlite:///{tmp_path}/x.db'))\n"
        "print({'alembic', 'sqlalchemy.dialects.postgresql', 'psycopg'} & set(sys.modules))"
    )
    stdout = subprocess.check_output(
        [sys.executable, "-c", program], text=True, env=os.environ | {"PYTHONPATH": "src"}
    )
    assert stdout == "set()\n"


# A world that refuses


async def test_an_outage_of_the_database_loses_no_commit(postgres_address):
    async with sql_store(postgres_address, patience=PATIENCE) as store:
        await store.commit(OPENED)
        with server().away(postgres_address):
            steps = [asyncio.create_task(store.commit(STEP)) for _ in range(20)]
            read = asyncio.create_task(store.run("r"))
            await asyncio.sleep(0.5)
            assert not any(task.done() for task in (*steps, read))
        assert await asyncio.gather(*steps) == [(n,) for n in range(1, 21)]
        assert (await read).id == "r"


async def test_a_database_that_stays_away_is_a_clear_error(postgres_address):
    async with sql_store(postgres_address, patience=3) as store:
        await store.commit(OPENED)
        with server().away(postgres_address):
            verbs = (store.commit(STEP), store.run("r"), store.wait_for_events("r", after=0, timeout=9))
            for outcome in await asyncio.gather(*verbs, return_exceptions=True):
                assert isinstance(outcome, EnvironmentFailure)
                assert "the database does not answer" in str(outcome)
        await store.commit(STEP)
        assert (await store.run("r")).events == 1


async def test_a_commit_whose_answer_was_lost_is_not_written_twice(postgres_address):
    """The connection breaks after PostgreSQL committed and before we hear of it."""
    lost = [OperationalError("COMMIT", {}, ConnectionError("gone"))]

    def reach(name):
        if name == "commit.after" and lost and armed:
            raise lost.pop()

    armed = False
    async with sql_store(postgres_address, reach=reach) as store:
        await store.commit(OPENED)
        armed = True
        entry = RunUpdate(run="r", expected=0, events=[Event("step", b"{}", NOW)])
        assert await store.commit(Transaction(entries=[entry])) == (1,)
        assert not lost
        assert len(await store.events("r")) == 1


async def test_a_full_disk_is_a_clear_error_and_leaves_no_partial_commit(address):
    async with sql_store(address) as store:
        await store.commit(OPENED)
        await (fill if address.startswith("sqlite") else refuse_as_full)(store)
        evidence = [EvidenceChunk(kind="big", data=os.urandom(3_000_000))]
        with pytest.raises(EnvironmentFailure, match="the database's disk is full; nothing was written"):
            await store.commit(
                Transaction(entries=[RunUpdate(run="r", events=STEP.entries[0].events, evidence=evidence)])
            )
        run = await store.run("r")
        assert (run.events, await store.events("r"), await store.chunk_infos("r", "big")) == (0, [], [])
        assert await store.commit(STEP) == (1,)


async def fill(store):
    """Let SQLite's file not grow by more than a little, on every connection there is and will be."""

    @event.listens_for(store._writing, "begin")
    def limit(connection):  # pyright: ignore[reportUnusedFunction]
        connection.exec_driver_sql("PRAGMA max_page_count=300")


async def refuse_as_full(store):
    """PostgreSQL says of big evidence what it says of a full disk."""
    with store._engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$"
        )
        connection.exec_driver_sql(
            "CREATE TRIGGER full_disk BEFORE INSERT ON evidence FOR EACH ROW EXECUTE FUNCTION full_disk()"
        )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: f"sqlite:///{path}/no/such/folder/runs.db", "unable to open"),
        (
            lambda path: (path / "x.db").write_text("not a database" * 100) and f"sqlite:///{path}/x.db",
            "not a database",
        ),
        (lambda path: "postgresql://nobody@127.0.0.1:1/none", "does not answer"),
    ],
)
async def test_a_database_that_cannot_be_opened_is_a_clear_error(tmp_path, make, message):
    with pytest.raises(EnvironmentFailure, match=message):
        await SqlStore.open(make(tmp_path), patience=0.2)


# At rest


@pytest.mark.parametrize("many", [3, 64, 200])
async def test_the_rows_of_a_large_transaction_are_in_order(address, many):
    events = [Event(f"e{at}", b"%d" % at, NOW) for at in range(many)]
    pieces = [EvidenceChunk(kind="p", first=at, last=at, data=b"%d" % at) for at in range(many)]
    async with sql_store(address) as store:
        await store.commit(OPENED)
        assert await store.commit(
            Transaction(entries=[RunUpdate(run="r", events=events, evidence=pieces)])
        ) == (many,)
        assert [(e.type, e.data) for e in await store.events("r")] == [(e.type, e.data) for e in events]
        assert await store.chunks("r", "p", limit=many + 1) == pieces


def test_the_write_ahead_log_restarts_during_constant_commits_and_reads(tmp_path):
    """A reader keeps what it sees in the log; what it kept there is written back once it has gone."""
    engine, writing = (
        open_engine(f"sqlite:///{tmp_path}/log.db", 2),
        open_engine(f"sqlite:///{tmp_path}/log.db"),
    )
    checkpoints = Checkpoints(engine, growth=50_000, limit=20)

    def commit():
        checkpoints.catch_up()
        with writing.connect().execution_options(writes=True) as connection, connection.begin():
            connection.exec_driver_sql("INSERT INTO t VALUES (randomblob(40000))")
        checkpoints.grew(40_000)
        if checkpoints._background:
            checkpoints._background.result()

    with writing.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (data)")
    with engine.connect() as reader, reader.begin():
        reader.exec_driver_sql("SELECT count(*) FROM t").one()
        for _ in range(20):
            commit()
        assert checkpoints.write_back().pages > 200  # ten a commit, and none could be let go
    for _ in range(20):
        commit()
    assert checkpoints.write_back().pages < 60
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*), sum(length(data)) FROM t").one() == (
            40,
            1_600_000,
        )
    checkpoints.close()
    writing.dispose()
    engine.dispose()


async def test_erased_content_is_gone_from_the_file(tmp_path):
    address, piece = f"sqlite:///{tmp_path}/runs.db", EvidenceChunk(kind="e", data=b"canary" * 5000)
    async with sql_store(address) as store:
        await store.commit(
            Transaction(entries=[RunUpdate(run="r", opens=OPENED.entries[0].opens, evidence=[piece])])
        )
    assert b"canary" in (tmp_path / "runs.db").read_bytes()
    async with sql_store(address) as store:
        assert await store.erase("r") == 1
    assert not any(b"canary" in path.read_bytes() for path in tmp_path.iterdir())


class Mask:
    """A cipher to test with: it hides, and it notices a thing in another's place."""

    key_id, ids = "k1", frozenset({"k1"})

    def blind(self, name):
        return f"~{hash(name)}"

    def data_cipher(self, id, key):
        other = Mask()
        other.key_id = id
        return other

    def seal(self, data, place):
        return bytes(byte ^ 0x5A for byte in place + b"|" + data)

    def open(self, key_id, sealed, place):
        assert key_id == self.key_id
        found, _, data = bytes(byte ^ 0x5A for byte in sealed).partition(b"|")
        assert found == place
        return data


async def test_compressible_evidence_is_compressed_and_read_back(address):
    given = {"short": b"x" * 100, "words": b"again and again " * 1000, "noise": os.urandom(20_000)}
    pieces = [EvidenceChunk(kind=kind, data=data) for kind, data in given.items()]
    put = PutDocument(tenant="t", kind="k", key="d", data=given["words"])
    async with sql_store(address) as store:
        await store.commit(Transaction(entries=[RunUpdate(run="r", opens=OPENED.entries[0].opens, evidence=pieces)], documents=[put]))  # fmt: skip
        assert {kind: (await store.chunks("r", kind))[0].data for kind in given} == given
        assert (await store.document("t", "k", "d")).data == given["words"]
        query = sa.select(
            tables.evidence.c.kind, tables.evidence.c.size, sa.func.length(tables.evidence.c.data)
        )
        with store._engine.connect() as connection:
            lies = {kind: (size, there) for kind, size, there in connection.execute(query)}
            assert lies["short"] == (100, 100)
            assert lies["noise"] == (20_000, 20_000)
            assert lies["words"][0] == 16_000 > 20 * lies["words"][1]
        for damaged in (b"no frame", zstandard.FRAME_HEADER + b"\xe0" + (1 << 50).to_bytes(8, "little")):
            with store._engine.begin() as connection:
                connection.execute(sa.update(tables.evidence).values(data=damaged))
            with pytest.raises(EnvironmentFailure, match=r"evidence r is damaged: ."):
                await store.chunks("r", "words")


@pytest.mark.parametrize("canary", [b"canary" * 200, b"canary" * 2000], ids=["as it is", "squeezed"])
async def test_with_a_cipher_no_content_is_in_clear(tmp_path, canary):
    address = f"sqlite:///{tmp_path}/runs.db"
    piece = EvidenceChunk(kind="results", first=3, last=4, data=canary)
    put = PutDocument(tenant="t", kind="k", key="d", data=canary)
    opens = OPENED.entries[0].opens
    async with sql_store(address, cipher=Mask()) as store:
        await store.commit(
            Transaction(entries=[RunUpdate(run="r", opens=opens, evidence=[piece])], documents=[put])
        )
        assert not any(b"canary" in path.read_bytes() for path in tmp_path.iterdir())
        assert await store.chunks("r", "results") == [piece]
        assert (await store.document("t", "k", "d")).data == canary
        assert [slot.size for slot in await store.chunk_infos("r", "results")] == [len(canary)]
    with pytest.raises(UsageError, match="expected key 'k1', which encrypted"):
        async with sql_store(address):
            pass
