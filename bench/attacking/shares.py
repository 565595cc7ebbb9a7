"""Attacks in which one tenant takes what all share."""

import os
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

from bench.attacking.target import Attack, Target

CASES = 20_000


def many_followers(target: Target, many: int = 900, meanwhile: Callable[[], object] = lambda: None) -> None:
    """As many streams of a run's events as there are followers at all; none is read, so that none ends."""
    run = _started(target)
    with ExitStack() as held:
        streams = list[socket.socket]()
        for _ in range(many):
            streams.append(_send(target, held, "GET", f"/v1/evaluations/{run}/events"))
            time.sleep(0.003)  # a burst of requests would be another attack
        time.sleep(0.5)
        meanwhile()
        for connection in streams:
            connection.close()
            time.sleep(0.003)


def trickled_bodies(
    target: Target,
    many: int = 8,
    size: int = 60_000_000,
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """Bodies that come but for their ends, which come a byte at a time."""
    with ExitStack() as held:
        bodies = [
            _send(target, held, "POST", "/v1/evaluate", f"Content-Length: {size + 1_000}\r\n")
            for _ in range(many)
        ]
        text = b'{"test_cases": "' + b"x" * size
        for connection in bodies:
            with suppress(OSError):  # it was refused meanwhile
                connection.sendall(text)
        for _ in range(10):
            for connection in bodies:
                with suppress(OSError):
                    connection.sendall(b"x")
            time.sleep(0.05)
        meanwhile()


def flood_of_spans(target: Target, many: int = 1_000, size: int = 1_000_000, after: int = 50) -> None:
    """Traces without roots and with large attributes: as many as the receiver takes, and some that it refuses."""
    refused = 0
    for at in range(many):
        span = {"traceId": f"{at + 1:032x}", "spanId": "0" * 15 + "1", "parentSpanId": "0" * 15 + "2"}
        span |= {"attributes": [{"key": "text", "value": {"stringValue": os.urandom(size // 2).hex()}}]}
        request = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
        got = target.request("POST", "/v1/traces", request)
        assert got.status == 200 or (got.status == 429 and got.headers["retry-after"]), got
        refused += got.status == 429
        if refused == after:
            return
    raise AssertionError("the receiver takes spans without end")


def _started(target: Target) -> str:
    """A run that takes a while."""
    lines = [b'{"checks": [{"type": "exists", "arguments": {"path": "$.output.value"}}]}']
    lines += [b'{"test_case": {"id": "c%d", "input": 1}, "output": {"value": 1}}' % at for at in range(CASES)]
    body = b"\n".join(lines)
    got = target.request("POST", "/v1/evaluations", body, Content_Type="application/x-ndjson")
    assert got.status == 202, got
    return got.json["operation_id"]


def _send(target: Target, held: ExitStack, method: str, path: str, more: str = "") -> socket.socket:
    connection = held.enter_context(socket.create_connection(target.address, timeout=60))
    head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nX-API-Key: {target.key}\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}{more}\r\n".encode())
    return connection


ATTACKS: dict[str, Attack] = {
    "900 followers": many_followers,
    "a flood of spans": flood_of_spans,
    "eight bodies of 60 MB that do not end": trickled_bodies,
}
