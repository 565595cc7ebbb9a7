"""Attacks by work that leaves the event loop: refusals, comparisons, packs and inventories."""

import gzip
import random
import time
from itertools import count
from typing import Any

import msgspec

from assay.packs.archive import write_tarball
from bench.attacking.target import Attack, Target, at_once

CASES = 3_000
CHECKS = [{"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": 1}}]
PACKS, AGENTS = 100, 1_250


def refusals(target: Target) -> None:
    """Eight requests of 18 kB, each with 3,000 invalid cases, ten times."""
    body = {"test_cases": [0] * CASES, "outputs": [0] * CASES, "checks": []}
    statuses = at_once(8, lambda _: [target.request("POST", "/v1/evaluate", body).status for _ in range(10)])
    assert {status for some in statuses for status in some} <= {400, 429}, statuses


def comparisons(target: Target) -> None:
    """Comparisons of two runs of 3,000 cases, each with a margin and a slice that no request had before."""
    runs = ",".join(run_of(target, passing) for passing in (0.8, 0.6))
    numbers = count(1)

    def compare(_: int) -> list[int]:
        statuses: list[int] = []
        for _ in range(10):
            number = next(numbers)
            query = f"runs={runs}&margin={number / 1000}&by=tags"
            statuses.append(target.request("GET", f"/v1/host/assay/comparison?{query}").status)
            query = f"runs={runs}&by=tags&slice_by=tag&slice=t{number % 50}"
            statuses.append(target.request("GET", f"/v1/host/assay/comparison/cases?{query}").status)
        return statuses

    statuses = at_once(6, compare)
    assert {status for some in statuses for status in some} <= {200, 429}, statuses


def run_of(target: Target, passing: float) -> str:
    """A finished run in which this part of the cases passes."""
    lines = [msgspec.json.encode({"checks": CHECKS})]
    for at in range(CASES):
        case = {"id": f"c{at}", "input": 1, "metadata": {"tags": [f"t{at % 50}"]}}
        output = {"value": int(at * 7919 % CASES < passing * CASES)}
        lines.append(msgspec.json.encode({"test_case": case, "output": output}))
    got = target.request("POST", "/v1/evaluations", b"\n".join(lines), Content_Type="application/x-ndjson")
    assert got.status == 202, got
    run = got.json["operation_id"]
    while target.request("GET", f"/v1/operations/{run}").json["status"] in ("pending", "running"):
        time.sleep(0.05)
    return run


def pack_of(number: int, agents: int, suite: bytes = b"") -> bytes:
    """A pack without prompts; its first agent has this suite."""
    name = f"local.attack.p{number}"
    manifests: list[dict[str, Any]] = [
        {"agentId": f"{name}.a{at}", "persona": "a", "modelClass": "general", "systemPrompt": "a"}
        for at in range(agents)
    ]
    document: dict[str, Any] = {
        "name": name,
        "version": "1.0.0",
        "engines": {"openwop": ">=1.1.0 <2.0.0"},
        "runtime": {"language": "remote", "entry": "pack.json"},
        "agents": manifests,
    }
    files: dict[str, bytes] = {}
    if suite:
        manifests[0]["evalSuiteRef"] = "suite.json"
        files["suite.json"] = suite
    return write_tarball({**files, "pack.json": msgspec.json.encode(document)})


def publish(target: Target, pack: bytes) -> int:
    return target.request("POST", "/v1/host/assay/packs", pack, Content_Type="application/gzip").status


def packs_of_lists(target: Target) -> None:
    """Packs whose suite is 8 MB of empty lists, six at once."""
    dice = random.Random(
        1
    )  # spaces at random: an archive that is a hundred times smaller than its files is refused
    lists = b",".join(dice.choices((b"[]", b"[ ]", b"[  ]"), k=2_000_000))
    pack = gzip.compress(gzip.decompress(pack_of(0, 1, b"[" + lists + b"]")))
    reply = target.request("POST", "/v1/host/assay/packs", pack, Content_Type="application/gzip")
    assert b"suite.json" in reply.body, reply
    statuses = at_once(6, lambda _: [publish(target, pack) for _ in range(2)])
    assert {status for some in statuses for status in some} <= {400, 413, 429}, statuses


def inventories(target: Target) -> None:
    """`GET /v1/agents` of a tenant with many agents in many packs, four at once."""
    for number in range(PACKS):
        status = publish(target, pack_of(number, AGENTS))
        assert status == 201, status
    got = at_once(4, lambda _: target.request("GET", "/v1/agents"))
    assert {reply.status for reply in got} <= {200, 429}, got
    assert max(len(reply.body) for reply in got) > PACKS * AGENTS * 50


ATTACKS: dict[str, Attack] = {
    "refusals of 3,000 cases": refusals,
    "comparisons with new margins and slices": comparisons,
    "packs of 8 MB of []": packs_of_lists,
    "an inventory of 125,000 agents": inventories,
}
LONG = frozenset(ATTACKS) - {"refusals of 3,000 cases"}
