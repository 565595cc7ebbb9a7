"""The trajectory of an agent: its steps with their times, from the log of a run or from the output of an agent."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import msgspec

from assay.fep.spending import format_usd
from assay.ports import Store
from assay.protocol.event_record import decode_event
from assay.protocol.json_types import JSON, is_list, is_object
from assay.runs.event_docs import with_content
from assay.runs.paging import read_events

PAGE = 200
STEP_TYPES = {  # events of a log, by the type of the step that they record
    "agent.reasoned": "reasoned",
    "agent.toolCalled": "tool-called",
    "agent.toolReturned": "tool-returned",
    "provider.usage": "used",
    "memory.written": "wrote",
    "agent.handoff": "handed-off",
}
NOT_STORED = "(not stored, or erased)"


async def node_events(store: Store, run: str, nodes: set[str]) -> AsyncIterator[JSON]:
    """The events of some nodes, in order, with their content. Other events are not decoded further."""
    page: list[Any] = []
    async for event in read_events(store, run):
        if decode_event(event.data).nodeId in nodes:
            page.append(event)
        if len(page) == PAGE:
            for document in await with_content(store, run, page):
                yield document
            page = []
    for document in await with_content(store, run, page):
        yield document


class Invocations:
    """The events of one task, by trial. The events of a trial follow each other in the log."""

    def __init__(self) -> None:
        self._trials: list[list[JSON]] = []
        self._seeds: list[JSON] = []

    def add(self, event: JSON) -> None:
        if event["type"] == "agent.invocation.started":
            self._trials.append([*self._seeds, event])
            self._seeds = []
        elif event["type"] == "memory.written" and event["payload"].get("memoryRef") == "seeds":
            self._seeds.append(event)
        elif self._trials:
            self._trials[-1].append(event)

    def trial(self, number: int) -> list[JSON]:
        """The events of a trial; the last ones, if it was repeated."""
        for events in reversed(self._trials):
            ended = [event["payload"] for event in events if event["type"] == "assay.trial.ended"]
            if (ended[0].get("trial", 0) if ended else 0) == number:
                return events
        return []


def steps_of_events(events: Iterable[JSON], times: list[int]) -> list[JSON]:
    """The steps of an invocation in the form of `output.metadata.trajectory`. Each gets its time, if every step has one."""
    steps = [step_of(event) for event in events if _is_step(event)]
    if len(times) == len(steps):
        for step, at in zip(steps, times, strict=True):
            step["at_ms"] = at
    return steps


def _is_step(event: JSON) -> bool:
    seed = event["type"] == "memory.written" and event["payload"].get("memoryRef") == "seeds"
    judge = str(event.get("nodeId", "")).startswith("judge:")
    return event["type"] in STEP_TYPES and not seed and not judge


def step_of(event: JSON) -> JSON:
    """A step from its event."""
    payload: JSON = event["payload"]
    names: dict[str, str] = {
        "toolName": "tool", "callId": "call_id", "durationMs": "duration_ms", "reasoning": "text", "memoryId": "memory_id",
        "toAgentId": "to_agent_id", "memoryRef": "memory_ref",
    }  # fmt: skip
    step: JSON = {"type": STEP_TYPES[event["type"]]}
    step |= {names.get(name, name): value for name, value in payload.items()}
    if step["type"] == "used":
        step = {"type": "used", "usage": usage_of(payload)}
    return step


def usage_of(payload: JSON) -> JSON:
    return {
        "provider": payload["provider"],
        "model": payload["model"],
        "input_tokens": payload["inputTokens"],
        "output_tokens": payload["outputTokens"],
        "cost_usd": payload.get("costEstimateUsd"),
        **({"cached": True} if payload.get("cacheHit") else {}),
    }


def step_lines(steps: list[JSON], *, live: bool) -> Iterator[tuple[str, str]]:
    """
    A time and a text for each step. A tool's result has the time of its call; any other step has the time since the step before.

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


def trajectory_in(output: JSON) -> list[JSON]:
    """The trajectory that the output of an agent has in its metadata."""
    metadata = output.get("metadata")
    steps = metadata.get("trajectory") if is_object(metadata) else None
    return [step for step in steps if is_object(step) and "type" in step] if is_list(steps) else []
