"""The audit log: who did what to which run; a line that was changed, removed or moved is found."""

import asyncio
import contextlib
import json
import sqlite3
from datetime import UTC, datetime

import msgspec
import pytest
from sqlalchemy import event, insert, text

from assay.auth.audit import lines, verify
from assay.backends.stores.records.record_rows import line_row
from assay.backends.stores.sql.tables import audit
from assay.conform.grpc.messages import message_of
from assay.errors import Conflict
from assay.ports import DeleteDocument, PutDocument, Transaction
from assay.ports.audit import AuditActor, AuditPayload, acting, audit_entry
from assay.ports.audit_chain import START, link, next_record
from assay.serve.grpc import fep_pb2 as fep
from support.servers.grpc_client import RestAndGrpcServer, connect, refusal_of
from support.servers.rest_client import request_of, slow, sqlite
from support.stores.database_dump import dump_of
from support.stores.opened import sql_store
from support.stores.postgres import server as postgres

pytestmark = pytest.mark.anyio


async def write(store, *, tenant="t", many=5, who="k1"):
    acting.set(AuditActor(who, "req_1"))
    for at in range(many):
        await store.commit(Transaction(lines=[audit_entry(tenant, "run.start", f"run{at}")]))


async def audit_log(store, tenant=None):
    return [msgspec.json.decode(one.data, type=AuditPayload) async for one in lines(store, tenant)]


async def test_an_audit_line_and_its_change_are_atomic(store):
    acting.set(AuditActor("k1", "req_1"))
    put = PutDocument(tenant="t", kind="k", key="a", data=b"")
    await store.commit(Transaction(documents=[put], lines=[audit_entry("t", "key.create", "a")]))
    with pytest.raises(Conflict):
        await store.commit(Transaction(documents=[put], lines=[audit_entry("t", "key.create", "again")]))
    await asyncio.gather(
        *(store.commit(Transaction(lines=[audit_entry("u", "run.read", str(at))])) for at in range(50))
    )
    (one,) = await audit_log(store, "t")
    assert (one.tenant, one.who, one.action, one.what, one.outcome, one.request) == (
        "t", "k1", "key.create", "a", "ok", "req_1",
    )  # fmt: skip
    assert sorted(int(one.what) for one in await audit_log(store, "u")) == list(range(50))
    verdict = await verify(store)
    assert (verdict.lines, verdict.problems) == (51, [])


def tamper(store, *statements):
    with store._engine.connect() as connection, connection.begin():
        for statement in statements:
            connection.execute(text(statement))


FORGED = "INSERT INTO audit SELECT tenant, at, lane, {number}, data, digest FROM audit WHERE tenant = 't' AND lane = 1 AND number = 2"
CASES = {
    "changed": (["UPDATE audit SET data = data || '!' WHERE {line}"], "it was changed"),
    "another digest": (["UPDATE audit SET digest = data WHERE {line}"], "it was changed"),
    "another time": (["UPDATE audit SET at = at + 1 WHERE {line}"], ""),
    "removed": (["DELETE FROM audit WHERE {line}"], "lines 2 to 2 before it are missing"),
    "the first removed": (
        ["DELETE FROM audit WHERE tenant = 't' AND lane = 1 AND number = 0"],
        "lines 0 to 0 before it are missing",
    ),
    "two in each other's place": (
        [
            "UPDATE audit SET number = 99 WHERE tenant = 't' AND lane = 1 AND number = 1",
            "UPDATE audit SET number = 1 WHERE {line}",
            "UPDATE audit SET number = 2 WHERE tenant = 't' AND lane = 1 AND number = 99",
        ],
        "",
    ),
    "given to another tenant": (["UPDATE audit SET tenant = 'u' WHERE {line}"], ""),
    "the end cut off": (
        ["DELETE FROM audit WHERE tenant = 't' AND lane = 1 AND number >= 3"],
        "the end is cut off: 5 lines were written",
    ),
    "all of a lane": (["DELETE FROM audit WHERE tenant = 't' AND lane = 1"], "the end is cut off"),
    "a lane and its head": (
        ["DELETE FROM audit WHERE tenant = 't' AND lane = 0", "DELETE FROM audit_heads WHERE tenant = 't' AND lane = 0"],
        "the lane is missing",
    ),
    "a head": (["DELETE FROM audit_heads WHERE tenant = 't' AND lane = 1"], "the lane has no head"),
    "another first line in a head": (
        ["UPDATE audit_heads SET root = digest WHERE tenant = 't' AND lane = 1"],
        "the head of its lane names another first line",
    ),
    "one put behind": ([FORGED.format(number=5)], ""),
    "one put between": ([FORGED.format(number=1)], ""),
}  # fmt: skip


MISFITS = {
    "a time that is a text": "UPDATE audit SET at = 'noon' WHERE {line}",
    "a lane that is a text": "UPDATE audit SET lane = 'fast' WHERE {line}",
    "a number that is a fraction": "UPDATE audit SET number = 2.5 WHERE {line}",
    "a text for bytes": "UPDATE audit SET data = CAST(data AS TEXT) WHERE {line}",
    "a number for bytes": "UPDATE audit SET digest = 7 WHERE {line}",
    "bytes for a tenant": "UPDATE audit SET tenant = x'ff' WHERE {line}",
    "a row more": "INSERT INTO audit SELECT tenant, at, lane, 'none', data, digest FROM audit WHERE {line}",
    "a head that is a text": "UPDATE audit_heads SET lines = 'many' WHERE tenant = 't' AND lane = 1",
    "a head without bytes": "UPDATE audit_heads SET root = 1.5 WHERE tenant = 't' AND lane = 1",
}
FAR = "UPDATE audit SET at = 9000000000000000000 WHERE {line}"
CASES["a year that is none"] = ([FAR], "1 rows hold values of a wrong type")


@pytest.mark.parametrize("name", MISFITS)
async def test_a_row_of_the_wrong_type_is_detected(tmp_path, name):
    """SQLite takes them; PostgreSQL does not."""
    async with sql_store(sqlite(tmp_path)) as store:
        await write(store)
    async with sql_store(sqlite(tmp_path)) as store:
        await write(store)
        tamper(store, MISFITS[name].format(line="tenant = 't' AND lane = 1 AND number = 2"))
        messages = [trouble.message for trouble in (await verify(store)).problems]
        assert any("1 rows hold values of a wrong type" in one for one in messages)
        assert len([one async for one in lines(store)]) in (9, 10)
        await write(store, many=1)  # the log goes on
    async with sql_store(sqlite(tmp_path)) as store:
        await write(store, tenant="another", many=1)


def test_the_command_ends_with_3_where_a_row_is_of_the_wrong_type(command, tmp_path):
    command("admin", "key", "create", "--tenant", "t", folder=tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / ".assay" / "assay.db")) as connection, connection:
        connection.execute("UPDATE audit SET at = 'noon', data = 'no line'")
    done = command("admin", "audit", "verify", folder=tmp_path)
    assert (done.code, "bug" in done.err + done.out) == (3, False)
    with contextlib.closing(sqlite3.connect(tmp_path / ".assay" / "assay.db")) as connection, connection:
        connection.execute("UPDATE audit SET at = 1, data = x'00'")
    assert (
        "cannot be read; run `assay admin audit verify`"
        in command("admin", "audit", "show", folder=tmp_path).err
    )


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def whole(request, tmp_path_factory):
    """A log of two lanes in `t`, one in `u`; what is done to it is done back."""
    with contextlib.ExitStack() as stack:
        if request.param == "sqlite":
            address = sqlite(tmp_path_factory.mktemp("audit"))
        else:
            address = stack.enter_context(postgres().store_database())

        async def fill():
            for tenant in ("t", "t", "u"):
                async with sql_store(address) as store:
                    await write(store, tenant=tenant)

        asyncio.run(fill())
        yield address


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", CASES)
async def test_every_change_of_the_audit_log_is_detected(whole, name):
    statements, messages = CASES[name]
    here = "tenant = 't' AND lane = 1 AND number = 2"
    async with sql_store(whole) as store:
        assert (await verify(store)).problems == []
        with store._engine.connect() as connection:
            kept = {
                table: [dict(row._mapping) for row in connection.execute(text(f"SELECT * FROM {table}"))]
                for table in ("audit", "audit_heads")
            }
        tamper(store, *(statement.format(line=here) for statement in _fitting(store, statements)))
        problems = (await verify(store)).problems
        assert problems
        assert any(messages in trouble.message for trouble in problems), problems
        only = (await verify(store, "u")).problems
        assert not only or name == "given to another tenant"
        with store._engine.connect() as connection, connection.begin():
            for table, rows in kept.items():
                connection.execute(text(f"DELETE FROM {table}"))
                columns = list(rows[0])
                marks = ", ".join(f":{column}" for column in columns)
                connection.execute(text(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"), rows)


def _fitting(store, statements):
    if store._engine.dialect.name == "postgresql":
        return [one.replace("data || '!'", "data || '\\x21'::bytea") for one in statements]
    return [one.replace("data || '!'", "CAST(data || '!' AS BLOB)") for one in statements]


async def test_a_rewritten_audit_log_is_detected_by_an_earlier_hash(tmp_path):
    async with sql_store(sqlite(tmp_path)) as store:
        await write(store)
        heads = (await verify(store)).heads
        rows = [one async for one in lines(store)]
        before = START
        for one in rows:
            data = one.data.replace(b"run.start", b"run.begin")
            before = link(before, data)
            with store._engine.connect() as connection, connection.begin():
                connection.execute(
                    text("UPDATE audit SET data = :data, digest = :digest WHERE number = :number"),
                    {"data": data, "digest": before, "number": one.number},
                )
                if one.number == 0:
                    connection.execute(text("UPDATE audit_heads SET root = :root"), {"root": before})
        tamper(store, "UPDATE audit_heads SET digest = (SELECT digest FROM audit WHERE number = 4)")
        assert (await verify(store)).problems == []  # the log alone does not show it
        assert "differs from the line that was verified before" in str(
            (await verify(store, anchors=heads)).problems
        )
        tamper(
            store,
            "DELETE FROM audit WHERE number = 4",
            "UPDATE audit_heads SET lines = 4, digest = (SELECT digest FROM audit WHERE number = 3)",
        )
        assert (await verify(store)).problems == []
        assert "was verified before and is missing now" in str((await verify(store, anchors=heads)).problems)


async def test_processes_write_one_audit_log_concurrently(disk):
    async with sql_store(disk) as one, sql_store(disk) as two, sql_store(disk) as three:
        await asyncio.gather(
            *(write(store, many=40, who=f"k{at}") for at, store in enumerate((one, two, three)))
        )
        verdict = await verify(one)
        assert (verdict.lines, len(verdict.heads), verdict.problems) == (120, 3, [])


BESIDE = PutDocument(tenant="t", kind="k", key="k", data=b"")


async def test_the_audit_log_is_whole_after_a_commit_without_an_answer(disk):
    def lost(connection):
        nonlocal stop
        if stop:
            stop = False
            connection.exec_driver_sql("COMMIT")
            raise RuntimeError("nobody heard of it")

    stop = False
    async with sql_store(disk) as store:
        await write(store, many=2)
        event.listen(store._sql_writer._engine, "commit", lost)
        stop = True
        with pytest.raises(RuntimeError):
            await store.commit(Transaction(documents=[BESIDE], lines=[audit_entry("t", "run.start", "r")]))
        assert not stop
        await write(store, many=3)
        verdict = await verify(store)
        assert (verdict.lines, len(verdict.heads), verdict.problems) == (6, 2, [])


async def test_a_line_appended_with_a_valid_hash_is_detected(tmp_path):
    async with sql_store(sqlite(tmp_path)) as store:
        await write(store)
        (head,) = await store.heads()
        forged = line_row(next_record(head, datetime.now(UTC), audit_entry("t", "run.read", "r")))
        with store._engine.connect() as connection, connection.begin():
            connection.execute(insert(audit).values(forged))
        assert [trouble.message for trouble in (await verify(store)).problems] == [
            "it continues beyond its head"
        ]


# The service and the command


@pytest.fixture(scope="module")
def host(database):
    with RestAndGrpcServer(database) as host:
        yield host


def test_the_service_writes_who_did_what_to_which_run(host):
    key = host.key(tenant="watched")
    mute = host.key(tenant="watched", scopes={"evaluations:read"})
    other = host.key(tenant="other")
    id, mute_id, other_id = (text.split("_")[1] for text in (key, mute, other))

    def headers(request):
        return (
            {"X-Request-Id": request, "Idempotency-Key": "once"}
            if request == "r1"
            else {"X-Request-Id": request}
        )

    with host.client(key=key) as ours, host.client(key=mute) as muted, host.client(key=other) as theirs:
        run = ours.post(
            "/v1/evaluate", json=request_of(1, experiment_metadata={"name": "canary"}), headers=headers("r1")
        ).json()["evaluation_id"]
        ours.post(
            "/v1/evaluate", json=request_of(1, experiment_metadata={"name": "canary"}), headers=headers("r1")
        )
        ours.get(f"/v1/evaluations/{run}", headers=headers("r2"))
        ours.get(f"/v1/operations/{run}", headers=headers("quiet"))  # no content: no line
        muted.post("/v1/evaluate", json=request_of(1), headers=headers("r3"))
        theirs.get(f"/v1/evaluations/{run}", headers=headers("r4"))
        long = ours.post("/v1/evaluations", json=request_of(1, [slow(30)]), headers=headers("r5")).json()[
            "operation_id"
        ]
        ours.post(f"/v1/evaluations/{long}:cancel", headers=headers("r6"))
        ours.get(f"/v1/evaluations/{long}/events", headers=headers("r7"))
    found = host.do(audit_log(host.store, "watched"))
    assert [(one.who, one.action, one.what, one.outcome, one.request) for one in found] == [
        ("host", "key.create", id, "ok", ""),
        ("host", "key.create", mute_id, "ok", ""),
        (id, "run.start", run, "ok", "r1"),
        (id, "run.read", run, "ok", "r1"),  # the same key again: the result of before
        (id, "run.read", run, "ok", "r2"),
        (mute_id, "refused", "/v1/evaluate", "forbidden", "r3"),
        (id, "run.start", long, "ok", "r5"),
        (id, "run.cancel", long, "ok", "r6"),
        (id, "run.read", long, "ok", "r7"),
    ]
    (refused,) = [one for one in host.do(audit_log(host.store, "other")) if one.action == "refused"]
    assert (refused.who, refused.what, refused.outcome) == (other_id, run, "not_found")
    assert host.do(verify(host.store)).problems == []
    assert not any(b"canary" in one.data for one in host.do(_all(host.store)))


def test_grpc_writes_the_same_lines(host):
    key = host.key(tenant="called")
    mute = host.key(tenant="called", scopes={"evaluations:read"})
    id, mute_id = (text.split("_")[1] for text in (key, mute))
    wanted = message_of(request_of(1, experiment_metadata={"name": "canary"}))

    def tagged(number, *more):
        return {"metadata": (("x-request-id", number), *more)}

    with (
        connect(host, key) as ours,
        connect(host, mute) as muted,
        connect(host, tenant="beside") as theirs,
    ):
        run = ours.RunEvaluation(wanted, **tagged("g1", ("idempotency-key", "once"))).evaluation_id
        ours.RunEvaluation(wanted, **tagged("g1", ("idempotency-key", "once")))
        ours.GetEvaluation(fep.GetEvaluationRequest(evaluation_id=run), **tagged("g2"))
        refusal_of(muted.RunEvaluation, wanted, **tagged("g3"))
        refusal_of(theirs.GetEvaluation, fep.GetEvaluationRequest(evaluation_id=run), **tagged("g4"))
        long = ours.StartEvaluation(message_of(request_of(1, [slow(30)])), **tagged("g5")).operation_id
        ours.CancelOperation(fep.CancelOperationRequest(operation_id=long), **tagged("g6"))
    found = host.do(audit_log(host.store, "called"))
    assert [(one.who, one.action, one.what, one.outcome, one.request) for one in found[2:]] == [
        (id, "run.start", run, "ok", "g1"),
        (id, "run.read", run, "ok", "g1"),
        (id, "run.read", run, "ok", "g2"),
        (mute_id, "refused", "/fep.v1.EvaluationService/RunEvaluation", "forbidden", "g3"),
        (id, "run.start", long, "ok", "g5"),
        (id, "run.cancel", long, "ok", "g6"),
    ]
    assert [one.what for one in host.do(audit_log(host.store, "beside")) if one.action == "refused"] == [run]
    assert host.do(verify(host.store)).problems == []
    assert not any(b"canary" in one.data for one in host.do(_all(host.store)))


async def _all(store):
    return [one async for one in lines(store)]


def test_the_command_shows_and_verifies(command, tmp_path):
    def run(*arguments):
        return command(*arguments, folder=tmp_path)

    address = f"sqlite:///{tmp_path}/.assay/assay.db"
    (tmp_path / "key.json").write_text(run("admin", "key", "create", "--tenant", "acme", "--json").out)
    id = json.loads((tmp_path / "key.json").read_text())["id"]
    run("admin", "key", "revoke", id)
    shown = run("admin", "audit", "show", "--tenant", "acme").out.splitlines()
    assert [row.split("  ")[1:] for row in shown] == [
        ["acme", "host", "key.create", id, "ok", "–"],
        ["acme", "host", "key.revoke", id, "ok", "–"],
    ]
    heads = run("admin", "audit", "verify", "--json")
    (tmp_path / "heads.json").write_text(heads.out)
    assert json.loads(heads.out)["whole"]
    assert id.encode() in dump_of(address)

    async def forge():
        async with sql_store(address) as store:
            tamper(store, "DELETE FROM audit WHERE lane = 1", "DELETE FROM audit_heads WHERE lane = 1")

    asyncio.run(forge())
    assert run("admin", "audit", "verify").out == "audit log: intact (1 entry in 1 lane)\n"
    ended = run("admin", "audit", "verify", "--heads", "heads.json")
    assert (ended.code, ended.out) == (3, "audit log: 1 problem (1 entry in 1 lane)\n")
    assert ended.err == "assay: tenant 'acme', lane 1, line 0: it was verified before and is missing now\n"


async def test_deleting_a_document_deletes_no_audit_line(store):
    await store.commit(
        Transaction(
            documents=[PutDocument(tenant="t", kind="k", key="a", data=b"")],
            lines=[audit_entry("t", "put", "a")],
        )
    )
    await store.commit(Transaction(documents=[DeleteDocument(tenant="t", kind="k", key="a", version=None)]))
    assert len(await audit_log(store)) == 1
