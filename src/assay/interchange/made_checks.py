"""Checks that an import writes."""

from typing import Any, NamedTuple

from assay.protocol.json_types import JSON

LONGEST_NAME = 128


class At(NamedTuple):
    """A path, where an argument could also be a text."""

    path: str


OUTPUT = At("$.output.value")
EXPECTED = At("$.test_case.expected")


def check(type: str, **arguments: Any) -> JSON:
    """A check in the form of FEP. A text is a literal, also one that looks like a path."""
    return {"type": type, "arguments": {name: _argument(one) for name, one in arguments.items()}}


def _argument(value: Any) -> Any:
    if isinstance(value, At):
        return value.path
    return f"\\{value}" if isinstance(value, str) and value.startswith(("$.", "\\$.")) else value


def named(checks: list[tuple[str, JSON]]) -> list[JSON]:
    """Checks with names of their own: a name that occurs again gets a number."""
    taken: set[str] = set()
    done: list[JSON] = []
    for wanted, one in checks:
        name, number = wanted[:LONGEST_NAME] or one["type"], 1
        while name in taken:
            number += 1
            name = f"{wanted[: LONGEST_NAME - 8]} #{number}"
        taken.add(name)
        done.append({"name": name, **one})
    return done
