"""`assay admin delete --all --tenant NAME`, beside a server: what is deleted is in no file, and every reader says so."""

import json
import subprocess

import pytest

from assay.backends.keyring import KeyRing
from assay.ports import PutDocument, Transaction
from assay.protocol.agents import InvocationResult
from support.evals import FunctionAgent
from support.servers.openwop_client import log_of, run_request, store_suite, suite, wait_for_run
from support.servers.rest_client import Server

KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
CIPHER = KeyRing({"a": bytes(range(32))})
ACME, OTHER = "qxacmecanaryxq", "qxothercanaryxq"
AGENT = "local.speaker"


async def speak(task, scene):
    scene.reason(f"{task['input']} reasoned")
    return InvocationResult(outcome="completed", result=f"{task['input']} output")


def evaluation(word):
    checks = [{"type": "contains", "arguments": {"text": "$.output.value", "phrases": [f"{word} rubric"]}}]
    case = {"id": f"{word}-id", "input": f"{word} input", "expected": f"{word} expected"}
    return {
        "test_cases": [case],
        "outputs": [{"value": f"{word} output"}],
        "checks": checks,
        "experiment_metadata": {"name": f"{word} experiment"},
    }


def fill(host, client, tenant, word):
    """A run of each kind and a document of each kind, with the word of the tenant in all of them."""
    body, headers = evaluation(word), {"Idempotency-Key": f"{word} key"}
    scored = client.post("/v1/evaluate", json=body, headers=headers).json()["evaluation_id"]
    expected = {"kind": "golden", "match": {"strategy": "exact", "value": f"{word} expected"}}
    task = {"taskId": "t", "input": f"{word} input", "expected": expected}
    ref = store_suite(client, suite(task, name="plain"))
    run = client.post("/v1/runs", json=run_request(ref, AGENT)).json()["runId"]
    assert wait_for_run(client, run)["status"] == "completed"
    note = {"signal": {"kind": "label", "label": f"{word} label"}, "note": f"{word} note"}
    assert client.post(f"/v1/runs/{run}/annotations", json=note).status_code == 201
    flow = client.post("/v1/runs", json={"workflowId": "conformance-noop", "inputs": {"x": f"{word} flow"}})
    flow = flow.json()["runId"]
    assert log_of(client, flow)[-1]["type"] == "run.completed"
    puts = [
        PutDocument(tenant=tenant, kind=kind, key=f"{kind}/1", data=f"{word} {kind}".encode())
        for kind in ("memory", "pack", "llm-answer")
    ]
    host.do(host.store.commit(Transaction(documents=puts)))
    return scored, run, flow


def raw_files(folder):
    """Read by another process: to close a file of SQLite here would release the locks of the server's connections."""
    return subprocess.check_output(["cat", *(path for path in sorted(folder.rglob("*")) if path.is_file())])


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "clear"])
def test_the_content_of_a_tenant_goes_and_every_reader_says_so(command, tmp_path, sealed):
    home = tmp_path / ".assay"
    (home / "cache").mkdir(parents=True)
    (tmp_path / "assay.toml").write_text(f'evidence_key = "a:{KEY}"\n' if sealed else "")
    cipher = CIPHER if sealed else None
    delete = ("admin", "delete", "--all", "--tenant", "acme")
    with (
        Server(
            f"sqlite:///{home}/assay.db",
            cipher=cipher,
            agents=[FunctionAgent(speak, agent_id=AGENT)],
            seeded=True,
        ) as host,
        host.client(tenant="acme") as acme,
        host.client(tenant="other") as other,
    ):
        mine, theirs = fill(host, acme, "acme", ACME), fill(host, other, "other", OTHER)
        assert (ACME.encode() in raw_files(home)) is not sealed
        tried = command(*delete, "--dry-run", folder=tmp_path)
        assert tried.code == 0, tried.err
        assert "acme: would delete the content of 3 runs, 1 annotation" in tried.out
        assert acme.get(f"/v1/evaluations/{mine[0]}").status_code == 200

        done = command(*delete, "--yes", "--json", folder=tmp_path)
        assert done.code == 0, done.err
        report = json.loads(done.out)
        assert (report["runs"], report["dataKeys"], report["more"]) == (3, int(sealed), False)
        assert {"annotation", "idempotency", "memory", "pack", "suite", "llm-answer"} <= {
            *report["documents"]
        }
        assert (report["logEmptied"], report.get("compacted")) == (True, None if sealed else True)
        assert ACME.encode() not in raw_files(home)

        host_runs = "/v1/host/assay/runs/"
        runs = f"{host_runs}{mine[1]}"
        for path in (
            f"/v1/evaluations/{mine[0]}",
            f"{runs}/eval-report",
            f"{runs}/cases/0",
            f"{host_runs}{mine[2]}/turns",
        ):
            response = acme.get(path)
            assert (response.status_code, "its content was deleted on 20" in response.text) == (404, True), (
                path + response.text
            )
        assert {acme.get(f"/v1/runs/{run}").status_code for run in mine[1:]} == {200}
        assert acme.get(f"/v1/runs/{mine[1]}/eval-summary").status_code == 200  # the scorecard stays
        assert acme.get("/v1/evaluations").json()["operations"][0]["status"] == "completed"
        row = acme.get(f"{runs}/overview").json()["run"]
        assert (row["erasedBy"], row["status"]) == ("deletion", "completed")
        for run in mine[:2]:
            shown = command("show", run, folder=tmp_path)
            assert (shown.code, "its content was deleted on 20" in shown.out) == (0, True), (
                shown.out + shown.err
            )
            exported = command("export", run, "-o", "-", folder=tmp_path)
            assert exported.code == 2, exported.out
            assert "its content was deleted on 20" in exported.err
            compared = command("compare", run, run, folder=tmp_path)
            assert (compared.code, "its content was deleted on 20" in compared.err) == (2, True), compared.err

        assert f"{OTHER} output" in other.get(f"/v1/evaluations/{theirs[0]}").text
        assert f"{OTHER} note" in other.get(f"/v1/runs/{theirs[1]}/annotations").text
        again = acme.post("/v1/evaluate", json=evaluation(ACME), headers={"Idempotency-Key": f"{ACME} key"})
        assert f"{ACME} output" in again.text  # a new key, and a new run for the same Idempotency-Key
        assert again.json()["evaluation_id"] != mine[0]
    verified = command("admin", "audit", "verify", folder=tmp_path)
    assert verified.code == 0, verified.err


REFUSED = [
    ((), "expected RUN..., or --all with --tenant"),
    (("latest", "--dry-run"), "--dry-run: expected --all with it"),
    (("latest", "--all", "--tenant", "acme"), "expected RUN... or --all, got both: latest"),
    (("--all",), "--all: expected --tenant NAME with it"),
    (("--all", "--tenant", "acme"), "expected --yes, because there is no terminal to ask"),
    (
        ("--all", "--tenant", "nowhere", "--yes"),
        "--tenant 'nowhere': the store has no run, document or data key",
    ),
]


def test_wrong_arguments_of_delete_are_refused(command, tmp_path):
    results = command.each([["admin", "delete", *words] for words, _ in REFUSED], folder=tmp_path)
    for (_, message), ended in zip(REFUSED, results, strict=True):
        assert (ended.code, message in ended.err) == (2, True), ended.err
