"""
The first workload: execution contexts of about 700 bytes, and four checks that all cases share.

The same seed gives the same bytes everywhere. A large file begins with the lines of a small one.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

SEED = 20250625
SENTENCE = (
    "the agent looked up flight prices and then compared hotel options before it wrote a short summary for the user"
    " with dates costs and a booking reference while keeping every tool call in the trace so that reviewers can audit"
    " each step without running the system again"
)
VOCABULARY = SENTENCE.split()
PHRASES = ["Paris", "France"]
PATTERN = r"REF-\d{5}\b"
LEAST = 0.5
CHECKS: list[dict[str, Any]] = [
    {
        "type": "exact_match",
        "arguments": {"actual": "$.output.value.answer", "expected": "$.test_case.expected"},
    },
    {"type": "contains", "arguments": {"text": "$.output.value.text", "phrases": PHRASES}},
    {"type": "regex", "arguments": {"text": "$.output.value.text", "pattern": PATTERN}},
    {
        "type": "threshold",
        "arguments": {"value": "$.output.value.trace.quality.scores.confidence", "min_value": LEAST},
    },
]


def context(at: int, dice: Random) -> dict[str, Any]:
    """One case with its output. The order of the random calls is part of the workload."""
    words = [dice.choice(VOCABULARY) for _ in range(30)]
    contained, matched, equal = dice.random() < 0.7, dice.random() < 0.6, dice.random() < 0.5
    words[5] = "Paris" if contained else "Rome"
    words[17] = "France" if dice.random() < 0.9 else "Spain"
    words[24] = f"REF-{dice.randrange(10000, 99999)}" if matched else f"REF-{dice.randrange(10, 99)}x"
    answer = f"answer {dice.randrange(1000)}"
    case = {
        "id": f"tc_{at:07d}",
        "input": f"Question {at}: what is the capital of France and how do I book a trip?",
        "expected": answer if equal else f"{answer}!",
        "metadata": {"version": "1.0.0", "tags": ["geo", "travel"], "difficulty": dice.randrange(5)},
    }
    scores = {"confidence": round(dice.random(), 4), "fluency": round(dice.random(), 4)}
    steps = [
        {"tool": "search", "args": {"q": "paris"}, "ms": dice.randrange(900)},
        {"tool": "book", "args": {"id": at}, "ms": dice.randrange(900)},
    ]
    trace = {"quality": {"scores": scores, "flags": ["a", "b"]}, "steps": steps}
    output = {
        "id": f"out_{at:07d}",
        "value": {"text": " ".join(words)[:200], "answer": answer, "trace": trace},
        "metadata": {"execution_time_ms": dice.randrange(3000), "model_version": "m-1"},
    }
    return {"test_case": case, "output": output}


def lines(many: int) -> Iterator[str]:
    dice = Random(SEED)
    for at in range(many):
        yield json.dumps(context(at, dice), separators=(",", ":")) + "\n"


def write(many: int, contexts: Path, checks: Path) -> None:
    with contexts.open("w", encoding="ascii") as file:
        file.writelines(lines(many))
    checks.write_text(json.dumps(CHECKS), "utf-8")
