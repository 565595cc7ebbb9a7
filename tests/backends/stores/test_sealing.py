"""The record at rest: with a key set nothing of a run is in clear, and keys can be changed."""

import asyncio
import base64
import json
import os
import stat
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.backends.keyring import KeyRing, read_keys
from assay.backends.stores.open import open_store
from assay.backends.stores.records.codec import RecordCodec
from assay.backends.stores.sql import reencrypt as markers
from assay.backends.stores.sql.tables import runs
from assay.checks.checker import Checker, Text
from assay.errors import EnvironmentFailure, UsageError
from assay.ports import CreateRun, Event, EvidenceChunk, PutDocument, RunQuery, RunUpdate, Secret, Transaction
from support.servers.rest_client import CONTAINS, Server, lines_of, request_of, slow, sqlite
from support.stores.database_dump import dump_of
from support.stores.opened import sql_store
from support.stores.postgres import server as postgres

A, B = bytes(range(32)), bytes(range(1, 33))
OLD, BOTH, NEW = KeyRing({"a": A}), KeyRing({"b": B, "a": A}), KeyRing({"b": B})
CANARY = "canary"


def text_of(key):
    return base64.b64encode(key).decode()


# The cipher


@given(data=st.binary(max_size=300), place=st.binary(max_size=40))
def test_an_encrypted_value_is_decrypted_in_its_place(data, place):
    sealed = OLD.seal(data, place)
    assert BOTH.open("a", sealed, place) == data
    assert data not in sealed or len(data) < 4


@settings(max_examples=60)
@given(data=st.binary(min_size=1, max_size=40), place=st.binary(max_size=20), draw=st.data())
def test_a_changed_or_moved_ciphertext_or_one_of_another_key_is_refused(data, place, draw):
    sealed = OLD.seal(data, place)
    bit = draw.draw(st.integers(0, len(sealed) * 8 - 1))
    flipped = bytearray(sealed)
    flipped[bit // 8] ^= 1 << bit % 8
    short = sealed[: draw.draw(st.integers(0, len(sealed) - 1))]
    elsewhere = draw.draw(st.binary(max_size=20).filter(lambda other: other != place))
    for id, ring, changed, where in (
        ("a", OLD, bytes(flipped), place),
        ("a", OLD, short, place),
        ("a", OLD, sealed, elsewhere),
        ("a", KeyRing({"a": B}), sealed, place),
        ("b", BOTH, sealed, place),
    ):
        with pytest.raises(EnvironmentFailure, match=f"cannot be decrypted with key '{id}'"):
            ring.open(id, changed, where)
    with pytest.raises(
        EnvironmentFailure, match="encrypted with key 'a', and ASSAY_EVIDENCE_KEY has only 'b'"
    ):
        NEW.open("a", sealed, place)


def test_no_nonce_comes_twice_in_threads_or_after_a_fork():
    ring = KeyRing({"a": A})
    seen: list[bytes] = []

    def seal():
        seen.extend(ring.seal(b"", b"")[:28] for _ in range(500))

    threads = [threading.Thread(target=seal) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writing, ring.seal(b"", b"")[:28])
        os._exit(0)
    os.waitpid(child, 0)
    seen += [os.read(reading, 28), ring.seal(b"", b"")[:28]]
    os.close(reading)
    os.close(writing)
    assert len(set(seen)) == len(seen) == 2002


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hunter2", "key 1: expected ID:KEY"),
        (text_of(A), "key 1: expected ID:KEY"),
        ("a b:hunter2", "key 1: expected ID:KEY"),
        ("a:hunter2!and!more", "key 'a' is not base64"),
        (f"a:{text_of(A)[:-4]}", "key 'a': expected 32 bytes, got 30"),
        (f"a:{text_of(A)},a:{text_of(B)}", "key 2: expected an id of its own, got 'a'"),
        (",", "there is no key in it"),
        ("file:/nowhere/at/all", "/nowhere/at/all: expected a file that can be read, got No such file"),
    ],
)
def test_an_invalid_key_is_refused_and_not_repeated(text, message):
    with pytest.raises(UsageError) as refusal:
        read_keys(Secret(text))
    assert message in str(refusal.value)
    assert "hunter2" not in str(refusal.value)
    assert text_of(A)[:8] not in str(refusal.value)


def test_keys_come_from_the_text_or_a_file(tmp_path):
    text = f"b:{text_of(B)},a:{base64.urlsafe_b64encode(A).decode().rstrip('=')}"
    (tmp_path / "keys").write_text(text.replace(",", "\n") + "\n")
    for text_or_file in (text, f"file:{tmp_path}/keys"):
        assert list(read_keys(Secret(text_or_file)).items()) == [("b", B), ("a", A)]


# A store


async def fill(store, run="r", many=40):
    """Something in every drawer, a canary in each."""
    pieces = [
        EvidenceChunk(kind="results", first=at, last=at, data=f"{CANARY} {at} ".encode() * 30)
        for at in range(many)
    ]
    opens = CreateRun(tenant="t", kind="evaluation", name=f"{CANARY} experiment")
    entry = RunUpdate(
        run=run,
        opens=opens,
        status="failed",
        metadata={"error": f"{CANARY} error"},
        events=[Event("evaluation.failed", b"{}", (await now(store)))],
        evidence=pieces,
    )
    await store.commit(
        Transaction(
            entries=[entry],
            documents=[PutDocument(tenant="t", kind="suite", key=run, data=f"{CANARY} suite".encode())],
        )
    )


async def now(store):
    return store._sql_writer._clock.now()


async def read(store, run="r", many=40):
    """All of it is there."""
    found = await store.run(run)
    assert (found.name, found.metadata) == (f"{CANARY} experiment", {"error": f"{CANARY} error"})
    assert run in [one.id for one in await store.runs(RunQuery(tenant="t", name=f"{CANARY} experiment"))]
    assert await store.runs(RunQuery(tenant="t", name="another")) == []
    assert len(await store.chunks(run, "results", limit=1000)) == many
    assert (await store.document("t", "suite", run)).data == f"{CANARY} suite".encode()


async def reseal(store):
    """The numbers of records, and of data keys."""
    many, keys, following = 0, 0, ""
    while True:
        step = await store.reencrypt(following)
        many, keys, following = many + step.records, keys + step.keys, step.cursor
        if not following:
            return many, keys


@pytest.mark.anyio
async def test_keys_are_turned_on_changed_and_turned_off(disk):
    async with sql_store(disk) as store:
        await fill(store)
        assert CANARY.encode() in dump_of(disk)
    async with sql_store(disk, OLD) as store:
        await read(store)  # what lay in clear before is read
        await fill(store, "sealed")
        assert await reseal(store) == (40 + 1 + 1, 0)  # pieces, documents, runs: those that lay in clear
        assert CANARY.encode() not in dump_of(disk)
    async with sql_store(disk, BOTH) as store:
        await read(store)
        await fill(store, "newer")
        assert await reseal(store) == (0, 2)  # the data keys of the tenant and of the host
        assert await reseal(store) == (0, 0)
        assert CANARY.encode() not in dump_of(disk)
    async with sql_store(disk, NEW) as store:  # the old key is not needed any more
        await read(store)
        await read(store, "sealed")
        await read(store, "newer")
    async with sql_store(disk, NEW, sealing=False) as store:
        assert await reseal(store) == (3 * 42, 2)
    async with sql_store(disk) as store:
        await read(store)


@pytest.mark.anyio
async def test_reencryption_can_be_interrupted_after_any_step(disk):
    async with sql_store(disk, OLD) as store:
        await fill(store)
    steps = 0
    while True:
        async with sql_store(disk, BOTH) as store:
            following = ""
            for _ in range(steps):
                following = (await store.reencrypt(following)).cursor
            await read(store)
            if steps and not following:
                break
        for lacking in (
            NEW,
            KeyRing({"b": B, "a": B}),
        ):  # the older key is still needed
            with pytest.raises(UsageError, match="'a'"):
                await open_store(disk, cipher=lacking)
        steps += 1
    assert steps > 3
    async with sql_store(disk, NEW) as store:
        await read(store)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("cipher", "message"),
    [
        (None, "expected key 'a', which encrypted records of this store: add this key to ASSAY_EVIDENCE_KEY"),
        (
            NEW,
            "expected key 'a', which encrypted records of this store: add this key to ASSAY_EVIDENCE_KEY, as ID:KEY; it has only b",
        ),
        (KeyRing({"a": B}), "expected the key 'a' that encrypted this store, got another"),
    ],
    ids=["none", "another", "wrong"],
)
async def test_a_store_is_not_opened_without_its_key(disk, cipher, message):
    async with sql_store(disk, OLD) as store:
        await fill(store)
    with pytest.raises(UsageError, match=message):
        await open_store(disk, cipher=cipher)


@pytest.mark.anyio
async def test_of_two_first_keys_at_once_the_second_is_refused(disk):
    async with sql_store(disk, OLD) as store:
        markers._mark(store._engine, RecordCodec(OLD))  # the same key: both were right
        with pytest.raises(UsageError, match="expected the key 'a' that encrypted this store"):
            markers._mark(store._engine, RecordCodec(KeyRing({"a": B})))


@pytest.mark.anyio
async def test_reencryption_does_not_overwrite_a_later_write():
    """A run goes on while its row is in the hands of `assay admin rekey`: the commit comes back for a row that is locked."""
    with postgres().store_database() as address:
        async with sql_store(address, OLD) as store:
            begin = RunUpdate(
                run="r", opens=CreateRun(tenant="t", kind="k", name=""), status="running", metadata={"n": 1}
            )
            await store.commit(Transaction(entries=[begin]))
        async with sql_store(address, BOTH) as store, sql_store(address, BOTH) as other:
            resealing = other._reencryption
            with other._engine.connect() as connection, connection.begin():
                (row,) = resealing._rows(connection, runs, [])
                going_on = asyncio.create_task(
                    store.commit(Transaction(entries=[RunUpdate(run="r", metadata={"n": 2})]))
                )
                await asyncio.sleep(0.2)
                assert not going_on.done()
                resealing._reencrypt_row(connection, runs, row)
            await going_on
            found = await store.run("r")
            assert found
            assert found.metadata == {"n": 2}


@pytest.mark.anyio
async def test_a_new_database_file_is_readable_by_its_owner_only(tmp_path):
    async with sql_store(sqlite(tmp_path)) as store:
        await fill(store)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        assert {"runs.db", "runs.db-wal"} <= modes.keys()
        assert set(modes.values()) == {0o600}
    (tmp_path / "runs.db").chmod(0o640)
    async with sql_store(sqlite(tmp_path)):
        assert (
            stat.S_IMODE((tmp_path / "runs.db").stat().st_mode) == 0o640
        )  # it was there: its owner's business


@pytest.mark.anyio
async def test_a_row_in_the_place_of_another_is_refused(tmp_path):
    async with sql_store(sqlite(tmp_path), OLD) as store:
        await fill(store, "one")
        await fill(store, "two")
        with store._engine.connect() as connection, connection.begin():
            connection.exec_driver_sql(
                "UPDATE evidence SET data = (SELECT data FROM evidence WHERE run = 'one' AND first = 0) WHERE run = 'two'"
            )
            connection.exec_driver_sql(
                "UPDATE documents SET data = (SELECT data FROM documents WHERE key = 'one') WHERE key = 'two'"
            )
            connection.exec_driver_sql(
                "UPDATE runs SET head = (SELECT head FROM runs WHERE id = 'one') WHERE id = 'two'"
            )
        for reading in (
            store.chunks("two", "results"),
            store.document("t", "suite", "two"),
            store.run("two"),
        ):
            with pytest.raises(EnvironmentFailure, match="was changed, moved from another place"):
                await reading
        assert len(await store.chunks("one", "results", limit=1000)) == 40


# The service and the command


class Boom(Checker):
    """Fails, and quotes what it was given."""

    type = "boom"
    text: Text

    def run(self, services):
        raise RuntimeError(f"{CANARY} raised {self.text}")


def planted(many, checks):
    return {
        "test_cases": [
            {
                "id": f"{CANARY}-id-{at}",
                "input": f"{CANARY} input",
                "expected": f"{CANARY} expected",
                "metadata": {"note": f"{CANARY} note", "tags": [f"{CANARY} tag"]},
            }
            for at in range(many)
        ],
        "outputs": [
            {"value": f"{CANARY} output {at}", "metadata": {"model": f"{CANARY} model"}} for at in range(many)
        ],
        "checks": [
            {"type": "contains", "arguments": {"text": "$.output.value", "phrases": [f"{CANARY} rubric"]}},
            {"type": "boom", "arguments": {"text": "$.output.value"}},
            *checks,
        ],
        "experiment_metadata": {"name": f"{CANARY} experiment", "metadata": {"why": f"{CANARY} why"}},
    }


def test_with_a_key_nothing_of_a_run_is_in_clear(disk):
    with Server(disk, cipher=OLD, checks=[Boom]) as server, server.client() as client:
        quick, waiting = planted(3, []), planted(3, [slow(0.001)])
        ids = [
            client.post("/v1/evaluate", json=quick, headers={"Idempotency-Key": f"{CANARY} key"}).json(),
            client.post("/v1/evaluate", json=waiting).json(),
            client.post(
                "/v1/evaluate", content=lines_of(quick), headers={"content-type": "application/x-ndjson"}
            ).json(),
        ]
        batch = client.post("/v1/evaluate:batch", json={"evaluations": [quick, {"checks": CANARY}]})
        assert batch.json()["summary"]["failed_evaluations"] == 1
        under_way = client.post("/v1/evaluations", json=planted(3, [slow(30)])).json()["operation_id"]
        client.post(f"/v1/evaluations/{under_way}:cancel", json={"reason": f"{CANARY} reason"})
        held = dump_of(disk)  # while it runs
        listed = client.get("/v1/evaluations", params={"experiment": f"{CANARY} experiment"}).json()
        assert len(listed["operations"]) == 5
        result = client.get(f"/v1/evaluations/{ids[1]['evaluation_id']}").text
        for kind in ("id", "input", "expected", "note", "tag", "output", "model", "rubric", "raised", "why"):
            assert f"{CANARY} {kind}" in result.replace(f"{CANARY}-id", f"{CANARY} id"), kind
    for thief in (held, dump_of(disk)):
        assert CANARY.encode() not in thief
        assert b"Idempotency" not in thief


def test_without_a_key_the_content_is_in_clear(disk):
    """The test above can fail."""
    with Server(disk, checks=[Boom]) as server, server.client() as client:
        client.post("/v1/evaluate", json=planted(1, []))
    assert dump_of(disk).count(CANARY.encode()) > 5


def test_a_server_serves_during_reencryption(disk):
    with Server(disk, cipher=OLD) as server, server.client() as client:
        before = [client.post("/v1/evaluate", json=request_of(2)).json()["evaluation_id"] for _ in range(5)]
    with Server(disk, cipher=BOTH) as server, server.client() as client:

        async def elsewhere():
            async with sql_store(disk, BOTH) as store:
                return await reseal(store)

        worker = threading.Thread(target=lambda: asyncio.run(elsewhere()))
        worker.start()
        during = [
            client.post("/v1/evaluate", json=request_of(2, [CONTAINS, slow(0.001)])).json()["evaluation_id"]
            for _ in range(5)
        ]
        worker.join()
    with Server(disk, cipher=NEW) as server, server.client() as client:
        for id in (*before, *during):
            assert len(client.get(f"/v1/evaluations/{id}").json()["results"]) == 2


def test_the_command_encrypts_and_names_the_missing_key(command, tmp_path):
    def run_command(text, *arguments):
        (tmp_path / "assay.toml").write_text(f'evidence_key = "{text}"\n' if text else "")
        ended = command(*arguments, folder=tmp_path)
        return ended.code, ended.out, ended.err.strip()

    (tmp_path / "cases.jsonl").write_text(
        json.dumps({"test_case": {"id": CANARY, "input": CANARY}, "output": {"value": CANARY}})
    )
    (tmp_path / "checks.json").write_text(json.dumps([CONTAINS]))
    save = ("evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json", "--save")
    old, both, new = f"a:{text_of(A)}", f"b:{text_of(B)},a:{text_of(A)}", f"b:{text_of(B)}"
    address = f"sqlite:///{tmp_path}/.assay/assay.db"
    assert run_command(old, *save)[0] == 0
    assert CANARY.encode() not in dump_of(address)
    wanted = "assay: ASSAY_EVIDENCE_KEY: expected key 'a', which encrypted records of this store: add this key to ASSAY_EVIDENCE_KEY, as ID:KEY"
    assert run_command("", "list") == (2, "", wanted)
    assert run_command("", "serve", "--port", "0") == (2, "", wanted)
    code, out, _ = run_command(both, "admin", "rekey", "--json")
    assert (code, json.loads(out)["key"]) == (0, "b")
    assert (json.loads(out)["resealed"], json.loads(out)["rewrapped"]) == (0, 2)
    assert CANARY in run_command(new, "show", "latest")[1]
    assert run_command(new, "admin", "rekey", "--clear")[1].endswith(
        "; ASSAY_EVIDENCE_KEY is no longer needed\n"
    )
    assert run_command("", "admin", "rekey") == (
        2,
        "",
        "assay: ASSAY_EVIDENCE_KEY: expected ID:KEY,OLDER:KEY, got none",
    )
