"""`assay admin gc`: the evidence of old runs goes by policy, on every store; scorecards, logs and the audit log stay."""

import json
import sqlite3
from contextlib import closing
from datetime import timedelta
from functools import partial

import msgspec
import pytest

from assay.auth.audit import lines
from assay.checks import STANDARD
from assay.errors.storage import Erased
from assay.fep.records.erase import erase_by_retention
from assay.fep.records.service import EvaluationService
from assay.ports import (
    CreateRun,
    EvidenceChunk,
    PutDocument,
    RunUpdate,
    Services,
    SystemClock,
    Transaction,
)
from assay.ports.config import Retention
from assay.promotion.records import AgentRecords, VersionRecord, encode
from assay.promotion.states import evidence_runs
from assay.runs.erasure import request_data
from assay.runs.retention import EvidenceRemoval, RetentionPass
from support.servers.rest_client import Server, request_of

CHUNK = EvidenceChunk(kind="request", data=b"{}")


async def start(store, id, *, tenant="t", kind="agent-eval", name="s", status="completed", **metadata):
    opens = CreateRun(tenant=tenant, kind=kind, name=name)
    update = RunUpdate(run=id, opens=opens, status=status, metadata=metadata, evidence=[CHUNK])
    await store.commit(Transaction(entries=[update]))


def collect(store, days, *, dry_run=False, limit=100, tenant=None, **policy):
    retention = msgspec.convert(policy, Retention)
    now = SystemClock().now() + timedelta(days=days)
    runs = RetentionPass(store, retention, now, partial(evidence_runs, store))
    erase = partial(erase_by_retention, EvaluationService(store, STANDARD, Services()))
    return EvidenceRemoval(runs, erase, dry_run=dry_run, limit=limit).remove(tenant)


async def removed(store, days, **policy):
    report = await collect(store, days, dry_run=True, **policy)
    return sorted(id for one in report.tenants for id in one.removed)


@pytest.mark.anyio
async def test_evidence_removed_and_kept_by_a_policy(store):
    await start(store, "chain")
    await start(store, "base", baselineRunId="chain")
    await start(store, "source")
    await start(store, "proof", baselineRunId="base")  # the evidence of a deployment
    await start(store, "old")
    await start(store, "open", status="running", source="source")
    await start(store, "flow", kind="workflow", status="waiting-approval")
    await start(store, "child", kind="workflow", parent={"runId": "flow"})
    await start(store, "step", kind="deployment")
    await start(store, "other", tenant="u", name="x", status="failed")
    records = AgentRecords(agent_id="a", versions={"1.0.0": VersionRecord(state="paused", eval_run="proof")})
    document = PutDocument(tenant="t", kind="deployment", key="a", data=encode(records))
    await store.commit(Transaction(documents=[document]))

    assert await removed(store, 9, evidence_days=10) == []
    assert await removed(store, 11, evidence_days=10) == ["chain", "old", "other"]
    assert await removed(store, 11, evidence_days=10, keep_last=1) == ["chain", "other"]
    assert await removed(store, 11, evidence_days=10, tenant="u") == ["other"]
    assert await removed(store, 11, evidence_days=10, tenants={"t": {}}) == ["other"]
    assert await removed(store, 11, tenants={"t": {"kinds": {"agent-eval": 5}}}) == ["chain", "old"]
    assert await removed(store, 11, kinds={"workflow": 5}) == []

    first = await collect(store, 11, evidence_days=10, limit=2)
    assert (first.more, [one.removed for one in first.tenants]) == (True, [["old"], ["other"]])
    second = await collect(store, 11, evidence_days=10)
    mine = {"deployment": 1, "baseline": 1, "open": 2, "parent": 1, "copy": 1}
    assert (second.more, second.tenants[0].removed, second.tenants[0].kept) == (False, ["chain"], mine)
    assert await removed(store, 11, evidence_days=10) == []

    run = await store.run("old")
    assert (run.status, run.erasure) == ("completed", f"evidence removed by retention on {run.erased[:10]}")
    assert not await store.chunk_infos("old", "request")
    assert await store.chunk_infos("proof", "request")
    with pytest.raises(Erased, match="run old: evidence removed by retention on 20"):
        await request_data(store, "old", "request")
    log = [line.data async for line in lines(store, "t")]
    assert sum(b"run.erase" in line and b"retention" in line for line in log) == 2


@pytest.mark.anyio
async def test_a_promotion_before_the_commit_keeps_its_evidence(store, monkeypatch):
    """It is written after the last look at the deployments, in the moment before the runs are marked."""
    await start(store, "proof")
    await start(store, "old")
    commit, records = (
        store.commit,
        AgentRecords(agent_id="a", versions={"1.0.0": VersionRecord(eval_run="proof")}),
    )
    promotions = [PutDocument(tenant="t", kind="deployment", key="a", data=encode(records))]

    async def slow_commit(batch):
        if promotions and any(entry.erases for entry in batch.entries):
            await commit(Transaction(documents=[promotions.pop()]))
        return await commit(batch)

    monkeypatch.setattr(store, "commit", slow_commit)
    report = await collect(store, 11, evidence_days=10)
    assert (report.tenants[0].removed, report.tenants[0].kept) == (["old"], {"deployment": 1})
    assert not (await store.run("proof")).erased
    assert await store.chunk_infos("proof", "request")


@pytest.mark.anyio
async def test_an_interrupted_removal_is_completed(store):
    await start(store, "r")
    await store.commit(Transaction(entries=[RunUpdate(run="r", erases=True)]))
    assert await removed(store, 0, evidence_days=1) == ["r"]
    await collect(store, 0, evidence_days=1)
    assert not await store.chunk_infos("r", "request")


def test_gc_beside_a_server_and_the_later_responses(command, tmp_path):
    file = tmp_path / ".assay" / "assay.db"
    file.parent.mkdir()
    with Server(f"sqlite:///{file}", seeded=True) as host, host.client() as client:
        old, new = (client.post("/v1/evaluate", json=request_of(2)).json()["evaluation_id"] for _ in "ab")
        with closing(sqlite3.connect(file)) as database, database:
            sql = "UPDATE runs SET created = created - ?1, started = started - ?1, ended = ended - ?1 WHERE id = ?2"
            database.execute(sql, [40 * 86_400_000_000, old])
        none = command("admin", "gc", folder=tmp_path)
        assert (none.code, "there is no retention policy" in none.err) == (2, True)
        (tmp_path / "assay.toml").write_text("[retention]\nevidence_days = 0\n")
        wrong = command("admin", "gc", folder=tmp_path)
        assert (wrong.code, "settings: retention.evidence_days" in wrong.err) == (2, True)
        (tmp_path / "assay.toml").write_text("[retention]\nevidence_days = 30\n")
        tried = command("admin", "gc", "--dry-run", folder=tmp_path)
        assert (tried.code, "would remove the evidence of 1 run" in tried.out) == (0, True)
        assert client.get(f"/v1/evaluations/{old}").status_code == 200
        done = command("admin", "gc", "--json", folder=tmp_path)
        report = json.loads(done.out)
        assert ([one["removed"] for one in report["tenants"]], report["more"]) == ([[old]], False)
        gone = client.get(f"/v1/evaluations/{old}")
        words = "evidence removed by retention on 20"
        assert (gone.status_code, gone.json()["details"]["erasedBy"]) == (404, "retention")
        assert words in gone.json()["message"]
        case = client.get(f"/v1/host/assay/runs/{old}/cases/0")
        assert (case.status_code, words in case.text) == (404, True)
        row = client.get(f"/v1/host/assay/runs/{old}/overview").json()["run"]
        assert (row["erasedBy"], row["counts"]["passed"]) == ("retention", 2)  # the numbers stay
        assert client.get(f"/v1/evaluations/{new}").status_code == 200
        shown = command("show", old, folder=tmp_path)
        assert (shown.code, words in shown.out) == (0, True)
        assert json.loads(command("show", old, "--json", folder=tmp_path).out)["erasedBy"] == "retention"
        compared = command("compare", old, new, folder=tmp_path)
        assert (compared.code, words in compared.err) == (2, True)
        assert "no run is older" in command("admin", "gc", folder=tmp_path).out
