"""`assay respond`, `show`, `export` and `audit verify` on a transition of a deployment, in the local store."""

import asyncio
import json
import sqlite3
from contextlib import closing

import msgspec

from assay.auth.keys import DEPLOY
from assay.auth.local_key import default_database_url
from assay.backends.stores.open import open_store
from assay.comparison.policy import ApprovalRules, PromotionPolicy, PromotionRules
from assay.ports import LOCAL_TENANT, Principal, PutDocument, SystemClock, Transaction
from assay.promotion.records import KIND, decode, encode
from assay.promotion.service import PromotionService
from assay.protocol.deployments import TransitionRequest

AGENT = "local.shop.bot"
RELEASER = Principal(tenant=LOCAL_TENANT, id="author", scopes=frozenset(DEPLOY))
POLICY = PromotionPolicy(agents={AGENT: PromotionRules(eval_states=(), approval=ApprovalRules())})
SETTINGS = f"""
promotion_policy = "policy.yaml"
[agents."{AGENT}"]
kind = "callable"
target = "bots:answer"
version = "1.0.0"
"""


class Installed:
    async def versions(self, tenant, agent_id):
        return ["1.0.0"]

    async def get(self, tenant, agent_id, version):
        return None


async def with_store(folder, work):
    store = await open_store(default_database_url(folder / ".assay"))
    try:
        return await work(store)
    finally:
        await store.close()


async def request(store):
    service = PromotionService(store, POLICY, SystemClock(), Installed())
    step = TransitionRequest(version="1.0.0", transition="promote")
    return [(await service.transition(RELEASER, AGENT, step)).run.id for _ in range(3)][-1]


async def tamper(store):
    document = await store.document(LOCAL_TENANT, KIND, AGENT)
    records = decode(document)
    paused = records.replace("1.0.0", msgspec.structs.replace(records.of("1.0.0"), state="paused"))
    put = PutDocument(
        tenant=LOCAL_TENANT, kind=KIND, key=AGENT, data=encode(paused), version=document.version
    )
    await store.commit(Transaction(documents=[put]))


CHANGES = [
    ("data = replace(cast(data AS text), 'staged', 'active')", "were changed without a transition", 0),
    ("data = '{'", "were changed without a transition", 1),
    ("data = x'00', coding = 1", "cannot be read", 1),
    ("version = 1", "were set back to revision 1", 0),
]


def test_a_record_that_a_statement_of_sql_changed(tmp_path, command):
    """`assay admin audit verify` names it, and no command has a bug."""
    (tmp_path / "assay.toml").write_text(SETTINGS)
    (tmp_path / "policy.yaml").write_text("agents: {local.shop.bot: {states: []}}")
    (tmp_path / "bots.py").write_text("def answer(task):\n    return task\n")
    (tmp_path / ".assay").mkdir()
    asyncio.run(with_store(tmp_path, request))
    with closing(sqlite3.connect(tmp_path / ".assay" / "assay.db", isolation_level=None)) as database:
        rows = "SELECT data, coding, version FROM documents WHERE kind = 'deployment'"
        before = database.execute(rows).fetchone()
        for change, words, code in CHANGES:
            database.execute(f"UPDATE documents SET {change} WHERE kind = 'deployment'")
            found = command("admin", "audit", "verify", folder=tmp_path)
            assert (found.code, f"the deployments of {AGENT} {words}" in found.err) == (3, True), found.err
            listed = command("deploy", "list", AGENT, folder=tmp_path)
            assert (listed.code, "a bug in assay" in listed.err) == (code, False), listed.err
            restore = "UPDATE documents SET data = ?, coding = ?, version = ? WHERE kind = 'deployment'"
            database.execute(restore, before)


def test_an_operator_answers_shows_and_verifies_a_transition(tmp_path, command):
    (tmp_path / "assay.toml").write_text(SETTINGS)
    (tmp_path / "bots.py").write_text("def answer(task):\n    return task\n")
    (tmp_path / "policy.yaml").write_text(json.dumps({"agents": {AGENT: {"states": [], "approval": {}}}}))
    run = asyncio.run(with_store(tmp_path, request))
    listed = command("list", folder=tmp_path)
    assert f"assay respond {run} --accept" in listed.out + listed.err
    first = command("respond", run, "--accept", "--json", folder=tmp_path)
    assert first.code == 0, first.err
    assert json.loads(first.out)["status"] == "completed"
    again = command("respond", run, "--accept", folder=tmp_path)
    assert again.code == 2
    assert "does not wait for an answer" in again.err
    shown = command("show", run, folder=tmp_path)
    assert shown.code == 0
    assert f"promote {AGENT}@1.0.0 to active, by author" in shown.out
    assert "deployment.promoted" in shown.out
    assert command("show", run, "--failing", folder=tmp_path).code == 2
    assert command("export", run, "-o", "x.jsonl", folder=tmp_path).code == 2
    assert command("admin", "audit", "verify", folder=tmp_path).code == 0
    asyncio.run(with_store(tmp_path, tamper))
    found = command("admin", "audit", "verify", folder=tmp_path)
    assert found.code == 3
    assert f"the deployments of {AGENT} were changed without a transition" in found.out + found.err
