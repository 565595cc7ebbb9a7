"""Attacks by what a server keeps: requests of every kind, each of them new."""

import asyncio
import random
import time
from typing import Any

import msgspec

from bench.attacking import patterns, work
from bench.attacking.mix import send_mix
from bench.attacking.target import Attack, Target, at_once

MANY = 2_000
MIX = 150.0  # seconds
LONG_PATTERN = 19_900  # characters


def pattern_of(number: int, length: int = LONG_PATTERN) -> str:
    dice = random.Random(number)
    letters = "".join(f"a{digit}?" for digit in dice.choices("0123456789", k=length // 3))
    return f"{letters}{number:06}"


def long_patterns(target: Target, many: int = 360) -> None:
    """New regular expressions of 20 kB; compiled, each is 4 MB."""

    def evaluate(at: int) -> list[int]:
        bodies = (patterns.request_of(pattern_of(number), "text") for number in range(at, many, 4))
        return [target.request("POST", "/v1/evaluate", body).status for body in bodies]

    statuses = at_once(4, evaluate)
    assert {status for some in statuses for status in some} <= {200, 429}, statuses


def everything_new(target: Target, many: int = MANY) -> None:
    """Patterns, schemas, paths, checks, suites, runs, lists and comparisons that no request had before."""
    pair = ",".join(work.run_of(target, passing) for passing in (0.8, 0.6))
    kinds = (_pattern, _schema, _path, _own_checks, _run, _suite, _listing)

    def send(at: int) -> set[int]:
        statuses: set[int] = set()
        for number in range(at, many, 4):
            statuses.add(kinds[number % len(kinds)](target, number))
            if number % 50 == 0:
                query = f"runs={pair}&margin={(number + 1) / 10_000}&by=tags"
                statuses.add(target.request("GET", f"/v1/host/assay/comparison?{query}").status)
        return statuses

    statuses = set[int]().union(*at_once(4, send))
    assert statuses <= {200, 201, 202, 400, 429}, statuses


def everything(target: Target, seconds: float = MIX) -> None:
    """Requests of every kind, as of an ordinary tenant; `make soak` has an hour of them."""
    pair = ",".join(work.run_of(target, passing) for passing in (0.8, 0.6))
    done = asyncio.run(send_mix(target, time.monotonic() + seconds, 4, pair, []))
    assert len(done) > 8, done


def _pattern(target: Target, number: int) -> int:
    return target.request(
        "POST", "/v1/evaluate", patterns.request_of(pattern_of(number, 6_000), "text")
    ).status


def _check(type: str, **arguments: Any) -> dict[str, Any]:
    return {"type": type, "arguments": arguments}


def _evaluate(target: Target, *checks: dict[str, Any], path: str = "/v1/evaluate") -> int:
    body = {"test_cases": [{"id": "a", "input": 1}], "outputs": [{"value": "text"}], "checks": list(checks)}
    return target.request("POST", path, body).status


def _schema(target: Target, number: int) -> int:
    properties = {f"p{number}_{at}": {"type": "string", "pattern": f"^a{at}$"} for at in range(20)}
    return _evaluate(target, _check("json_schema", value="$.output.value", schema={"properties": properties}))


def _path(target: Target, number: int) -> int:
    steps = "".join(f"['{number}-{at}']" for at in range(200))
    return _evaluate(target, _check("exists", path=f"$.output{steps}"))


def _own_checks(target: Target, number: int) -> int:
    checks = [_check("contains", text="$.output.value", phrases=[f"{number}-{at}" * 20]) for at in range(50)]
    return _evaluate(target, *checks, path="/v1/evaluations")


def _run(target: Target, number: int) -> int:
    body = {"workflowId": "conformance-identity", "inputs": {"payload": f"{number}" * 2_000}}
    return target.request("POST", "/v1/runs", body).status


def _suite(target: Target, number: int) -> int:
    match = {"strategy": "contains", "value": "a" * 1_000}
    tasks = [
        {"taskId": f"t{at}", "input": "?", "expected": {"kind": "golden", "match": match}} for at in range(20)
    ]
    name = f"local.attack.evals.s{number}"
    suite = {"suiteId": name, "version": "1.0.0", "modes": ["golden"], "tasks": tasks}
    return target.request("POST", "/v1/host/assay/suites", suite).status


def _listing(target: Target, number: int) -> int:
    body = msgspec.json.encode({"query": f"name{number}", "limit": 50})
    return target.request("POST", "/v1/host/assay/runs:query", body).status


ATTACKS: dict[str, Attack] = {
    "360 new patterns of 20 kB": long_patterns,
    "2,000 requests that are all new": everything_new,
    "minutes of every kind of request": everything,
}
LONG = frozenset(ATTACKS)
