"""Attacks by values that are too deep, too large or too odd."""

import time

from bench.attacking.target import Attack, Target, at_once


def _deep(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def deep(target: Target) -> None:
    """Inputs, metadata, configurable, a suite and a case, each nested beyond what may be, and beyond what Python reads."""
    bodies = [
        (path, body % _deep(levels))
        for levels in (600, 400_000)
        for path, body in (
            ("/v1/runs", b'{"workflowId": "a", "inputs": {"x": %b}}'),
            ("/v1/runs", b'{"workflowId": "a", "metadata": {"x": %b}}'),
            ("/v1/runs", b'{"workflowId": "a", "configurable": {"x": %b}}'),
            ("/v1/host/assay/suites", b'{"tasks": [{"input": %b}]}'),
            ("/v1/evaluate", b'{"test_cases": [{"id": "a", "input": %b}], "outputs": [{"value": 1}], "checks": []}'),
        )
    ]  # fmt: skip
    statuses = at_once(len(bodies), lambda at: target.request("POST", *bodies[at]).status)
    assert set(statuses) <= {400, 429}, statuses


def wide(target: Target) -> None:
    """Values with as many parts as a body may have, where each part is looked at for secrets."""
    parts = b"[" + b'"a",' * 100_000 + b"0]"
    bodies = [
        b'{"workflowId": "a", "metadata": {"x": %b}}' % parts,
        b'{"workflowId": "a", "configurable": {"x": %b}}' % parts,
        b'{"workflowId": "a", "inputs": {"x": %b}}' % parts,
    ]
    statuses = at_once(6, lambda at: target.request("POST", "/v1/runs", bodies[at % 3]).status)
    assert set(statuses) <= {400, 404, 413, 429}, statuses


def large(target: Target) -> None:
    """Workflow runs whose inputs have the largest size allowed; every event of such a run repeats them, without secrets."""
    texts = (b"sk-abc eyJ ", "é lorem \u2028 api_key".encode(), b"lorem ipsum ")
    bodies = [
        b'{"workflowId": "conformance-identity", "inputs": {"payload": "%b"}}'
        % (text * (4_100_000 // len(text)))
        for text in texts
    ]

    def run(at: int) -> str:
        reply = target.request("POST", "/v1/runs", bodies[at % len(bodies)])
        assert reply.status == 201, reply.body[:300]
        status = "pending"
        while status in ("pending", "running"):
            time.sleep(0.1)
            status = target.request("GET", f"/v1/runs/{reply.json['runId']}").json["status"]
        return status

    assert set(at_once(4, run)) == {"completed"}


ATTACKS: dict[str, Attack] = {
    "values that are too deep": deep,
    "values of many parts": wide,
    "large inputs": large,
}
LONG = frozenset({"large inputs"})
