"""The trajectory of an agent for a person: each step as a line, with its time."""

from collections.abc import Iterator

import msgspec

from assay.protocol.json_types import JSON, is_object
from assay.stats.number_text import format_usd

NOT_STORED = "(not stored, or erased)"


def step_lines(steps: list[JSON], *, live: bool) -> Iterator[tuple[str, str]]:
    """
    A time and a text for each step.

    A tool's result has the time of its call; any other step has the time since the step before.

    `live`: tools were called; otherwise fixtures answered.
    """
    before = turn = 0
    for step in steps:
        turn += step["type"] == "used"
        at = step.get("at_ms")
        own = None
        if step["type"] == "tool-returned":
            own = step.get("duration_ms")
        elif isinstance(at, int):
            own = max(0, at - before)
        before = at if isinstance(at, int) else before
        prefix = f"turn {turn}: " if step["type"] == "used" else ""
        yield "" if own is None else f"{own:,} ms", prefix + step_text(step, live=live)


def step_text(step: JSON, *, live: bool) -> str:
    match step["type"]:
        case "tool-called":
            return f"calls {step['tool']} {_content(step, 'inputs')}"
        case "tool-returned":
            source = "live" if live else "fixture"
            if is_object(error := step.get("error")):
                message = f"{error.get('code')}: {error.get('message')}"
                return f"{step['tool']} failed ({source}, {step.get('status')}): {message}"
            return f"{step['tool']} answers ({source}): {_content(step, 'outcome')}"
        case "used":
            return f"model {usage_text(step['usage'])}"
        case "reasoned":
            return f"reasons: {step.get('text', NOT_STORED)}"
        case "wrote":
            return f"writes memory {step.get('memory_id')}"
        case "handed-off":
            reason = step.get("reason")
            return f"hands off to {step.get('to_agent_id')}{f': {reason}' if reason else ''}"
        case other:
            return f"{other} {msgspec.json.encode(step).decode()}"


def usage_text(usage: JSON) -> str:
    """`openai:gpt-5: 50 tokens in, 2 out, $0.0000087`."""
    cost = usage.get("cost_usd")
    price = "cost unknown" if cost is None else format_usd(cost)
    cached = ", cached" if usage.get("cached") else ""
    model = (
        usage["model"]
        if str(usage["model"]).startswith(f"{usage['provider']}:")
        else f"{usage['provider']}:{usage['model']}"
    )
    return f"{model}: {usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out, {price}{cached}"


def _content(step: JSON, name: str) -> str:
    if name not in step:
        return NOT_STORED
    value = step[name]
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
