"""The steps of an agent in a run: read from its log, or from the output of an agent over a dataset."""

from collections.abc import AsyncIterator, Callable, Iterable

from assay.ports import Event, Store
from assay.protocol.event_record import decode_event
from assay.protocol.json_types import JSON, is_list, is_object
from assay.runs.log_reader import read_events, with_content

PAGE = 200
STEP_TYPES = {  # events of a log, by the type of the step that they record
    "agent.reasoned": "reasoned",
    "agent.toolCalled": "tool-called",
    "agent.toolReturned": "tool-returned",
    "provider.usage": "used",
    "memory.written": "wrote",
    "agent.handoff": "handed-off",
    "assay.turn.message": "said",
}


async def node_events(store: Store, run: str, nodes: set[str]) -> AsyncIterator[JSON]:
    """The events of some nodes, in order, with their content. Other events are not decoded further."""
    async for document in chosen_events(store, run, lambda event: decode_event(event.data).nodeId in nodes):
        yield document


async def chosen_events(store: Store, run: str, chosen: Callable[[Event], bool]) -> AsyncIterator[JSON]:
    """Some events of a run, in order, with their content."""
    page: list[Event] = []
    async for event in read_events(store, run):
        if chosen(event):
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
    """The steps of an invocation as `output.metadata.trajectory`. Each gets its time, if every step has one."""
    steps = [step_of(event) for event in events if _is_step(event)]
    if len(times) == len(steps):
        for step, at in zip(steps, times, strict=True):
            step["at_ms"] = at
    return steps


def _is_step(event: JSON) -> bool:
    seed = event["type"] == "memory.written" and event["payload"].get("memoryRef") == "seeds"
    judge = str(event.get("nodeId", "")).startswith(("judge:", "user:"))
    return event["type"] in STEP_TYPES and not seed and not judge


def step_of(event: JSON) -> JSON:
    """A step from its event."""
    payload: JSON = event["payload"]
    names: dict[str, str] = {
        "toolName": "tool", "callId": "call_id", "durationMs": "duration_ms", "reasoning": "text",
        "memoryId": "memory_id", "toAgentId": "to_agent_id", "memoryRef": "memory_ref",
        "message": "content",
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


def trajectory_in(output: JSON) -> list[JSON]:
    """The trajectory that the output of an agent has in its metadata."""
    metadata = output.get("metadata")
    steps = metadata.get("trajectory") if is_object(metadata) else None
    return [step for step in steps if is_object(step) and "type" in step] if is_list(steps) else []
