"""Attacks by checks, schemas, redaction and caches that cost more than they look."""

import socket
from contextlib import suppress
from typing import Any

import msgspec

from bench.attacking.bodies import send
from bench.attacking.target import Attack, Target, at_once

ANSWERED = {200, 400, 413, 429}


def evaluation(output: Any, kind: str, **arguments: Any) -> dict[str, Any]:
    """One case and one check."""
    return {
        "test_cases": [{"id": "a", "input": 1}],
        "outputs": [{"value": output}],
        "checks": [{"type": kind, "arguments": arguments}],
    }


def several(target: Target, many: int, body: dict[str, Any]) -> None:
    """The same request many times at once; each is answered, and none with a fault of the server."""
    data = msgspec.json.encode(body)
    statuses = at_once(many, lambda _: send(target, "/v1/evaluate", data))
    assert set(statuses) <= ANSWERED, statuses


def schema(value: Any, schema: Any) -> dict[str, Any]:
    return evaluation(value, "json_schema", value="$.output.value", schema=schema)


def enum(target: Target) -> None:
    """Each message repeats the enum: once 7.8 GB."""
    some = [f"value {at}" for at in range(15_000)]
    several(target, 2, schema(["none of them"] * 15_000, {"items": {"enum": some}}))


def all_of(target: Target) -> None:
    """Many things asked of each of many values: once 13 s."""
    asked = [{"minimum": -at} for at in range(20_000)]
    several(target, 2, schema([1] * 20_000, {"items": {"allOf": asked}}))


def objects_to_choose_from(target: Target) -> None:
    some = [{"at": at} for at in range(2_000)]
    several(target, 4, schema([{"at": -1}] * 2_000, {"items": {"enum": some}}))


def pattern_that_looks_ahead(target: Target) -> None:
    several(target, 4, schema("ab" * 50_000, {"pattern": "(?=a)(a|b|ab)*c$"}))


def has_items(target: Target) -> None:
    """Eight requests of 1.5 MB, which compared each item with each."""
    items = [[at] for at in range(75_000)]
    several(
        target,
        8,
        evaluation(
            items, "has_items", items="$.output.value", required_items=[[-at] for at in range(75_000)]
        ),
    )


def has_items_and_leave(target: Target) -> None:
    """The same by clients that do not wait for the answer."""
    items = [[at] for at in range(75_000)]
    body = msgspec.json.encode(
        evaluation(items, "has_items", items="$.output.value", required_items=items[::-1])
    )
    head = (
        f"POST /v1/evaluate HTTP/1.1\r\nHost: a\r\nX-API-Key: {target.key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    for _ in range(8):
        with socket.create_connection(target.address, timeout=30) as connection, suppress(OSError):
            connection.sendall(head.encode() + body)


def phrases(target: Target) -> None:
    """Many phrases in a long text."""
    some = [f"phrase {at}" for at in range(20_000)]
    several(
        target, 4, evaluation("x" * 500_000, "contains", text="$.output.value", phrases=some, negate=True)
    )


def many_checks(target: Target) -> None:
    """A plan of a thousand checks was compiled in four seconds."""
    checks = [
        {"type": "contains", "arguments": {"text": "$.output.value", "phrases": [str(at)]}}
        for at in range(1_000)
    ]
    several(
        target,
        2,
        {"test_cases": [{"id": "a", "input": 1}], "outputs": [{"value": "x"}], "checks": checks},
    )


def bad_cases(target: Target) -> None:
    """Each bad case was looked up in a list of all of them."""
    cases: list[Any] = [{"id": "a", "input": 1}, 1] * 10_000
    several(target, 2, {"test_cases": cases, "outputs": [{"value": 1}] * len(cases), "checks": []})


def redaction(target: Target) -> None:
    """Beginnings of tokens, each of which reads to the end."""
    for unit in ("eyJ-", "a.", "xeyJ", "a://:"):
        run = {"workflowId": "none", "inputs": {}, "metadata": {"said": unit * (100_000 // len(unit))}}
        assert target.request("POST", "/v1/runs", run).status < 500


def paths(target: Target) -> None:
    """Paths that search, one after the other."""
    value: Any = 1
    for _ in range(12):
        value = [value, value]
    checks = [{"type": "exists", "arguments": {"path": f"$..[?@..[?@=={at}]]"}} for at in range(4)]
    several(
        target,
        4,
        {"test_cases": [{"id": "a", "input": 1}], "outputs": [{"value": value}], "checks": checks},
    )


def paths_of_checks_that_wait(target: Target) -> None:
    """Their arguments were found on the event loop: once a second of it for each."""
    path = "$.output.value[?search(@, '(a|a)*(a|aa)*b')]"
    value = ["a" * 30 + str(at) for at in range(300)]
    several(target, 4, evaluation(value, "semantic_similarity", text=path, reference="b"))


def large_plans(target: Target) -> None:
    """Sixty different requests, whose plans and schemas were all remembered: once 3 GB."""
    for at in range(60):
        some = [f"{at} {one}" for one in range(50_000)]
        several(target, 1, schema("none of them", {"enum": some}))
        several(target, 1, evaluation("x", "contains", text="$.output.value", phrases=some))


def long_texts(target: Target) -> None:
    """Texts whose similarity took 41 s, in threads that cannot be killed."""
    text = "The quick brown fox jumps over the lazy dog. " * 300_000
    several(
        target, 2, evaluation(text, "semantic_similarity", text="$.output.value", reference="$.output.value")
    )


LONG: dict[str, Attack] = {
    "sixty large plans": large_plans,
    "similarity of long texts": long_texts,
    "paths that search": paths,
    "paths of checks that wait": paths_of_checks_that_wait,
    "a schema with a pattern that looks ahead": pattern_that_looks_ahead,
    "many items": has_items,
    "many phrases": phrases,
}
ATTACKS: dict[str, Attack] = {
    "a schema with a long enum": enum,
    "a schema with a long allOf": all_of,
    "a schema with objects to choose from": objects_to_choose_from,
    "many items, and the client leaves": has_items_and_leave,
    "many checks": many_checks,
    "many bad cases": bad_cases,
    "a text that looks like many secrets": redaction,
    **LONG,
}
