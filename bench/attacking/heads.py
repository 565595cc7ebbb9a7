"""Attacks by the head of a request, without a key."""

from itertools import islice, product
from string import ascii_lowercase, digits

from bench.attacking.target import Attack, Target, at_once


def many_headers(target: Target) -> None:
    """Eight heads of 11,000 header names, one of them twice: 65 kB each."""
    names = islice(product(ascii_lowercase + digits, repeat=3), 10_900)
    lines = b"".join(b"%b:\r\n" % "".join(name).encode() for name in names) + b"aaa:\r\n"
    head = b"GET /v1/evaluations HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + lines + b"\r\n"

    def send(_: int) -> None:
        answer = target.raw(head)
        assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 503")), answer[:200]

    at_once(8, send)


def many_parameters(target: Target) -> None:
    """Sixteen queries of 30,000 parameters, and lists of as many choices."""

    def send(at: int) -> None:
        if at % 2:
            got = target.request("GET", "/v1/evaluations?" + "&a" * 30_000)
            assert got.status == 400, got
        else:
            got = target.request("GET", "/v1/openapi.json", Accept_Encoding="a;" * 15_000 + "a," * 15_000)
            assert got.status == 200, got

    at_once(16, send)


ATTACKS: dict[str, Attack] = {
    "heads of 11,000 names, one twice": many_headers,
    "queries of 30,000 parameters": many_parameters,
}
