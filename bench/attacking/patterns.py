"""Attacks by regular expressions."""

from typing import Any

from bench.attacking.target import Attack, Reply, Target, at_once

OPTIONAL = "(a?){40}a{40}"  # 2^40 ways on forty `a`, if one of them is no match
UNINTERRUPTED = r"\d+x"  # quadratic, in a loop of `re` that looks at no signal


def request_of(pattern: str, *texts: str) -> dict[str, Any]:
    return {
        "test_cases": [{"id": f"t{at}", "input": "?"} for at in range(len(texts))],
        "outputs": [{"value": text} for text in texts],
        "checks": [{"type": "regex", "arguments": {"text": "$.output.value", "pattern": pattern}}],
    }


def evaluated(target: Target, pattern: str, *texts: str) -> list[str]:
    """What each text's check came to: its type of error, or whether it passed."""
    reply: Reply = target.request("POST", "/v1/evaluate", request_of(pattern, *texts))
    assert reply.status == 200, reply
    checks = [one["check_results"][0] for one in reply.json["results"]]
    return [one["error"]["type"] if "error" in one else str(one["results"]["passed"]) for one in checks]


def optional_letters(target: Target) -> None:
    """150 bytes that stopped a host for good."""
    told = evaluated(target, OPTIONAL + "$", "a" * 39, "b" + "a" * 40)
    assert set(told) <= {"timeout_error", "False", "True"}, told


def eight_at_once(target: Target) -> None:
    """Each a second of processor time; together they held Python's lock for 27."""
    told = at_once(8, lambda _: evaluated(target, "(a+)+$", "a" * 60 + "!"))
    assert told == [["timeout_error"]] * 8, told


def uninterrupted(target: Target) -> None:
    told = at_once(4, lambda _: evaluated(target, UNINTERRUPTED, "1" * 400_000, "1x"))
    assert all(one[1] == "True" for one in told), told


def many_at_the_bound(target: Target) -> None:
    """Texts that are searched in the server's own process: each a few milliseconds, one after the other."""
    text = "1" * 350
    told = at_once(4, lambda _: evaluated(target, r"\d+\s*m", *[text] * 400))
    assert told == [["False"] * 400] * 4


def in_a_path(target: Target) -> None:
    body = request_of("x", "a" * 60 + "!")
    body["checks"][0]["arguments"]["text"] = "$.output[?match(@, '(a|aa)*(a|aa)*b')]"
    replies = at_once(4, lambda _: target.request("POST", "/v1/evaluate", body))
    assert {reply.status for reply in replies} == {200}


def many_to_compile(target: Target) -> None:
    """Each is short, and takes `re` 40 ms to compile."""
    checks = [
        request_of("".join(f"[{chr(200 + at + number)}-{chr(0x4000 + number)}]" for at in range(12)))[
            "checks"
        ][0]
        for number in range(100)
    ]
    body = {**request_of("x", "text"), "checks": checks}
    assert target.request("POST", "/v1/evaluate", body).status == 200


ATTACKS: dict[str, Attack] = {
    "pattern: forty optional letters": optional_letters,
    "pattern: eight that backtrack": eight_at_once,
    "pattern: no signal is looked at": uninterrupted,
    "pattern: many texts at the bound": many_at_the_bound,
    "pattern: in a path": in_a_path,
    "pattern: many to compile": many_to_compile,
}
LONG = frozenset(ATTACKS) - {"pattern: forty optional letters"}
