"""Attacks by what a body becomes in memory, and by how long it takes to become that."""

import socket
from contextlib import suppress

from bench.attacking.target import Attack, Target, at_once

CHECKS = b'[{"type": "exists", "arguments": {"path": "$.output.value"}}]'


def of_lists(size: int) -> bytes:
    """An evaluation whose one output is a list of empty lists, in so many bytes."""
    lists = b"[" + b"[]," * (size // 3) + b"0]"
    return b'{"test_cases": [{"id": "a", "input": 1}], "outputs": [{"value": %b}], "checks": %b}' % (
        lists,
        CHECKS,
    )


def send(target: Target, path: str, body: bytes, media: str = "application/json", more: str = "") -> int:
    """The status of the answer to a body, which may come before all of the body has gone out; 0: there was none."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: a\r\nX-API-Key: {target.key}\r\nContent-Type: {media}\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    )
    answer = b""
    with socket.create_connection(target.address, timeout=120) as connection, suppress(OSError):
        with suppress(OSError):
            connection.sendall(head.encode())
            connection.sendall(body)
        while part := connection.recv(65536):
            answer += part
    return int(answer[9:12] or 0)


def lists(target: Target) -> None:
    """Four bodies of 60 MB, which were 7 GB in memory."""
    body = of_lists(60_000_000)
    statuses = at_once(4, lambda _: send(target, "/v1/evaluate", body))
    assert set(statuses) <= {0, 413, 429}, statuses


def lists_that_fit(target: Target) -> None:
    """As many as a tenant may send at once, each as large as it may be; also as lines, and once for a key."""
    body = of_lists(1_440_000)
    line = b'{"checks": %b}\n{"test_case": {"id": "a", "input": 1}, "output": {"value": [%b0]}}\n' % (
        CHECKS,
        b"[]," * 480_000,
    )

    def one(at: int) -> int:
        if at % 3 == 0:
            return send(target, "/v1/evaluate", line, "application/x-ndjson")
        return send(target, "/v1/evaluate", body, more=f"Idempotency-Key: {at}\r\n" if at % 3 == 1 else "")

    statuses = at_once(6, one)
    assert set(statuses) <= {200, 413, 429}, statuses


ATTACKS: dict[str, Attack] = {
    "four bodies of 60 MB of []": lists,
    "six bodies of 1.4 MB of []": lists_that_fit,
}
