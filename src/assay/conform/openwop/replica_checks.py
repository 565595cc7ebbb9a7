"""A host with several addresses: each of them does what discovery says, and all of them show the same."""

import secrets

from assay.conform.check import Host, at_once, document_of, expect, expect_status
from assay.conform.fep_checks import expect_same, remember, simple_request
from assay.conform.json_values import Document, same
from assay.conform.openwop.discovery_checks import fixtures_start, modes_run
from assay.conform.openwop.runs import (
    any_run,
    created,
    log,
    payloads,
    request,
    snapshot,
    start,
    suite_ref,
    wait_for_end,
    wait_for_rest,
    workflow,
)
from assay.conform.openwop.scorecard_checks import summary_of
from assay.conform.openwop.surface import discovery, fixture, row, run_path

ACCEPT: Document = {"resumeValue": {"action": "accept"}}


def _discovery(host: Host) -> None:
    first, *others = host.replicas
    wanted = discovery(first)
    for other in others:
        expect(
            same(discovery(other), wanted), f"discovery of {other.address} is another than of {first.address}"
        )


def _modes_run(host: Host) -> None:
    for replica in host.replicas:
        modes_run(replica)


def _fixtures_start(host: Host) -> None:
    for replica in host.replicas:
        fixtures_start(replica)


def _same_run(host: Host) -> None:
    """A run that was made at one address is there at the others."""
    for made_at in host.replicas:
        run = any_run(made_at)
        for read_at in host.replicas:
            what = f"a run of {made_at.address} at {read_at.address}"
            expect(same(snapshot(read_at, run.id), run.snapshot), f"{what}: the snapshot is another")
            expect(same(log(read_at, run.id), run.events), f"{what}: the log is another")
            expect(same(summary_of(read_at, run), run.summary), f"{what}: the scorecard is another")


def _cancel(host: Host) -> None:
    first, *others = host.replicas
    for other in others:
        run = start(first, request(first, suite_ref(first, "slow"), evalModes=["golden"]))
        expect_status(other.send("POST", run_path(run, "/cancel"), {}), 200, f"a cancel at {other.address}")
        for one in (first, other):
            status = wait_for_end(one, run)["status"]
            expect(
                status == "cancelled", f"a cancel at {other.address}: the run is {status} at {one.address}"
            )


def _one_answer(host: Host) -> None:
    replicas = host.replicas
    run = workflow(replicas[0], fixture(host, "approval"))
    wait_for_rest(replicas[0], run)
    path = run_path(run, "/interrupts/gate")
    answers = at_once(lambda one: one.send("POST", path, ACCEPT), replicas * 3)
    statuses = [one.status for one in answers]
    expect(statuses.count(200) == 1, f"{len(answers)} answers at once: expected one 200, got {statuses}")
    shot = wait_for_end(replicas[0], run)
    granted = payloads(log(host, run, status=shot["status"]), "approval.granted")
    expect(len(granted) <= 1, "two approvals were granted for one question")


def _idempotency(host: Host) -> None:
    replicas = host.replicas
    body = request(host, suite_ref(host, "plain"), evalModes=["golden"])
    headers = {"Idempotency-Key": f"conform-{secrets.token_hex(8)}"}
    answers = at_once(lambda one: one.send("POST", "/v1/runs", body, headers=headers), replicas * 3)
    done = [document_of(one, "POST /v1/runs") for one in answers if one.status in (200, 201)]
    runs = {created(host, one) for one in done}
    expect(len(runs) == 1, f"POST /v1/runs at every address with one Idempotency-Key: {len(runs)} runs")
    rest = {one.status for one in answers} - {200, 201, 409}
    expect(not rest, f"POST /v1/runs at every address with one Idempotency-Key: the statuses {sorted(rest)}")


def _evaluations(host: Host) -> None:
    """An evaluation that was made at one address is read at the others."""
    for made_at in host.replicas:
        answer = made_at.send("POST", "/v1/evaluate", simple_request())
        expect_status(answer, 200, f"POST {made_at.address}/v1/evaluate")
        result = remember(host, document_of(answer, "POST /v1/evaluate"))
        for read_at in host.replicas:
            path = f"/v1/evaluations/{result['evaluation_id']}"
            found = read_at.send("GET", path)
            expect_status(found, 200, f"GET {read_at.address}{path}")
            expect_same(f"GET {read_at.address}{path}", document_of(found, f"GET {path}"), result)


REPLICA_CHECKS = [
    row("replicas.discovery", "1.1", "Discovery is the same at every address of a host.", "GET /.well-known/openwop at each address.", "One document.", _discovery),
    row("replicas.modes-run", "0.4", "Each advertised mode completes a real run at every address.", "An eval run in each mode, at each address.", "Runs that complete, with that mode in eval.started.", _modes_run),
    row("replicas.fixtures-start", "1.1", "Each advertised fixture can be started at every address.", "POST /v1/runs with each id, at each address.", "201 for each.", _fixtures_start),
    row("replicas.same-run", "4.1", "A run is the same at every address.", "A run that was made at each address, read at each.", "The same snapshot, log and scorecard.", _same_run),
    row("replicas.cancel", "3.5", "A run is cancelled at any address.", "A cancel of a slow run, at another address than the create.", "200, and cancelled at both.", _cancel),
    row("replicas.one-answer", "3.6", "Of answers at several addresses at the same time one counts.", "accept three times at each address at once.", "One 200.", _one_answer),
    row("replicas.idempotency", "3.6", "An Idempotency-Key counts at all addresses together.", "One create three times at each address at once.", "One run.", _idempotency),
    row("replicas.evaluations", "2.2", "An evaluation is the same at every address.", "An evaluation that was made at each address, read at each.", "The same result.", _evaluations),
]  # fmt: skip
