"""
The second workload, without special support in assay.

Every case brings its own checks with its own literals. One is a custom check. Paths find several nodes. Objects have members
that the protocol does not define. One case in twenty has one of three errors.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from assay import Answer, Checker, Services

SEED = 7
TOOLS = ("search", "read", "compare", "book", "pay", "mail")
CITIES = ("Lisbon", "Oslo", "Quito", "Hanoi", "Accra", "Perth", "Turin", "Malmö")


class ToolBudget(Checker):
    """Checks the tools and the time of a run; without `waits = False`."""

    type = "tool_budget"

    tools: list[str]
    times: list[int]
    allowed: list[str]
    most_ms: int = 2000

    def run(self, services: Services) -> Answer:
        strange = sorted(set(self.tools) - set(self.allowed))
        spent = sum(self.times)
        return {"passed": not strange and spent <= self.most_ms, "slowest": max(self.times) / spent}


class QuickToolBudget(ToolBudget):
    """The same with `waits = False`."""

    type = "quick_tool_budget"
    waits = False


def context(at: int, dice: Random, budget: str) -> dict[str, Any]:
    city, other = dice.sample(CITIES, 2)
    steps = [
        {
            "tool": dice.choice(TOOLS),
            "ms": dice.randrange(1, 900),
            "args": {"n": n},
            "retries": dice.randrange(3),
        }
        for n in range(dice.randrange(2, 6))
    ]
    answer = f"{city} for {dice.randrange(90, 900)} euros"
    value: dict[str, Any] = {
        "answer": answer,
        "text": f"Booked {city}, not {other}: ticket {at * 7919 % 100_003}. "
        + "All went well. " * dice.randrange(8),
        "trace": {"steps": steps, "cost": {"usd": dice.random()}},
    }
    checks: list[dict[str, Any]] = [
        {
            "type": budget,
            "arguments": {
                "tools": "$.output.value.trace.steps[*].tool",
                "times": "$.output.value.trace.steps[*].ms",
                "allowed": list(TOOLS[: dice.randrange(4, 7)]),
                "most_ms": dice.choice((1000, 2000, 3000)),
            },
        },
        {
            "type": "contains",
            "arguments": {
                "text": "$.output.value.text",
                "phrases": [city, f"ticket {at * 7919 % 100_003 if dice.random() < 0.8 else at}"],
            },
        },
        {
            "type": "has_items",
            "arguments": {
                "items": "$.output.value.trace.steps[1:].tool",
                "required_items": dice.sample(TOOLS, 1),
            },
        },
    ]
    if at % 2:
        checks.append(
            {
                "type": "exact_match",
                "arguments": {"actual": "$.output.value.answer", "expected": "$.test_case.goal"},
            }
        )
    fault = at // 20 % 3 if at % 20 == 0 else None
    if fault == 0:
        steps[0]["ms"] = "long"  # not a number
    elif fault == 1:
        del value["text"]  # a missing member
    elif fault == 2:
        steps[:] = [{**step, "ms": 0} for step in steps]  # a bug of the check: division by zero
    case = {
        "id": f"case-{at}",
        "input": {"city": city, "people": dice.randrange(1, 5)},
        "goal": answer if dice.random() < 0.5 else other,
        "owner": {"team": "travel", "since": 2021},
        "checks": checks,
    }
    return {
        "test_case": case,
        "output": {"value": value, "host": f"node-{at % 5}", "labels": ["nightly", city]},
    }


def lines(many: int, budget: str) -> Iterator[str]:
    dice = Random(SEED)
    for at in range(many):
        yield json.dumps(context(at, dice, budget), ensure_ascii=False, separators=(",", ":")) + "\n"


def write(many: int, contexts: Path, budget: str = ToolBudget.type) -> None:
    with contexts.open("w", encoding="utf-8") as file:
        file.writelines(lines(many, budget))
