"""What holds for the log of every run, and of every agent eval (openwop-contract §4, §5)."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from assay.conform.json_values import Document, object_in, shown
from assay.conform.openwop.runs import payloads
from assay.conform.result_laws import moment

TERMINAL = {"run.completed": "completed", "run.failed": "failed", "run.cancelled": "cancelled"}
CONTENT_KEYS = {
    "eval.": ("taskOutput", "output", "rubric", "completion", "prompt", "body", "secret", "credentials", "token", "apiKey"),
    "agent.invocation.": ("prompt", "result", "body", "input", "output", "apiKey", "secret", "credentials", "token"),
    "agent.verified": ("result", "candidate", "task", "output", "notes", "prompt"),
    "deployment.": ("manifestBody", "manifest", "prompt", "systemPrompt", "body", "secret", "credentials", "token", "apiKey"),
    "provider.usage": ("prompt", "completion", "apiKey", "secret", "credentials"),
}  # fmt: skip
OUTCOMES = ("completed", "handed-off", "escalated", "refused", "failed")


class EventLaw(NamedTuple):
    """`find` yields what is wrong in a log whose run has this status."""

    name: str
    section: str
    rule: str
    find: Callable[[list[Document], str], Iterator[str]]


def _share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _envelope(events: list[Document], status: str) -> Iterator[str]:
    runs = {event.get("runId") for event in events}
    if len(runs) != 1:
        yield f"events of one log have the runs {shown(sorted(map(str, runs)))}"
    ids = [event.get("eventId") for event in events]
    if len({*map(str, ids)}) != len(ids):
        yield "two events have one eventId"
    for at, event in enumerate(events):
        for name in ("eventId", "runId", "type"):
            value = event.get(name)
            if not isinstance(value, str) or not 1 <= len(value) <= 128:
                yield f"event {at}: {name}: expected a text of at most 128 characters, got {shown(value)}"
        if "payload" not in event:
            yield f"event {at}: expected a payload"
        if moment(event.get("timestamp")) is None:
            yield f"event {at}: timestamp: expected a time in UTC, got {shown(event.get('timestamp'))}"


def _sequence(events: list[Document], status: str) -> Iterator[str]:
    found = [event.get("sequence") for event in events]
    if found != list(range(len(events))):
        yield f"sequences: expected 0 to {len(events) - 1} without a gap, got {shown(found)}"


def _causes(events: list[Document], status: str) -> Iterator[str]:
    before: set[Any] = set()
    for event in events:
        cause = event.get("causationId")
        if cause is not None and cause not in before:
            yield f"event {event.get('sequence')} ({event.get('type')}): causationId is no earlier event of the run"
        before.add(event.get("eventId"))


def _terminal(events: list[Document], status: str) -> Iterator[str]:
    ends = [str(event.get("type")) for event in events if event.get("type") in TERMINAL]
    if len(ends) != 1:
        yield f"expected one event that ends the run, got {ends}"
    elif events[-1].get("type") != ends[0]:
        yield f"{events[-1].get('type')} follows {ends[0]}"
    elif TERMINAL[ends[0]] != status:
        yield f"the run is {status}, and its last event is {ends[0]}"


def _eval_order(events: list[Document], status: str) -> Iterator[str]:
    types = [event.get("type") for event in events]
    if types[:1] != ["run.started"]:
        yield f"the first event: expected run.started, got {shown(types[:1])}"
    starts, ends = types.count("eval.started"), types.count("eval.completed")
    if starts != 1:
        yield f"expected one eval.started, got {starts}"
        return
    if "eval.scored" in types and types.index("eval.started") > types.index("eval.scored"):
        yield "eval.scored comes before eval.started"
    if ends != (status == "completed"):
        yield f"expected {int(status == 'completed')} eval.completed of a {status} run, got {ends}"
    elif ends:
        last = max((at for at, type in enumerate(types) if type == "eval.scored"), default=0)
        if types.index("eval.completed") < last:
            yield "eval.scored comes after eval.completed"
    scored = [one.get("taskId") for one in payloads(events, "eval.scored")]
    if len({*map(str, scored)}) != len(scored):
        yield "a task has two eval.scored"


def _scored(events: list[Document], status: str) -> Iterator[str]:
    for one in payloads(events, "eval.scored"):
        if not isinstance(one.get("taskId"), str) or not _share(one.get("score")):
            yield f"eval.scored: expected a taskId and a score from 0 to 1, got {shown(one)}"
        if not isinstance(one.get("passed"), bool):
            yield "eval.scored: passed: expected a boolean"
        for name in ("latencyMs", "safetyFindingCount"):
            value = one.get(name, 0)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                yield f"eval.scored: {name}: expected a whole number, got {shown(value)}"


def _brackets(events: list[Document], status: str) -> Iterator[str]:
    """Each invocation has one start and one end; other events of its agent stand between."""
    open_ones: dict[Any, Any] = {}
    seen: set[str] = set()
    for event in events:
        type, payload = str(event.get("type")), object_in(event, "payload")
        invocation = payload.get("invocationId")
        if type == "agent.invocation.started":
            if str(invocation) in seen:
                yield f"two invocations have the id {shown(invocation)}"
            seen.add(str(invocation))
            open_ones[str(invocation)] = payload.get("agentId")
        elif type == "agent.invocation.completed":
            if str(invocation) not in open_ones:
                yield f"the invocation {shown(invocation)} ends without a start"
            elif open_ones.pop(str(invocation)) != payload.get("agentId"):
                yield f"the invocation {shown(invocation)} ends with another agent"
            if payload.get("outcome") not in OUTCOMES:
                yield f"agent.invocation.completed: outcome: got {shown(payload.get('outcome'))}"
        elif type.startswith("agent.") and seen and not open_ones:
            yield f"event {event.get('sequence')} ({type}) stands outside of every invocation"
    if open_ones:
        yield f"{len(open_ones)} invocations have no end"


def _tools(events: list[Document], status: str) -> Iterator[str]:
    """Each call of a tool has one return, later, of the same tool."""
    calls: dict[str, Any] = {}
    for event in events:
        payload = object_in(event, "payload")
        call, tool = str(payload.get("callId")), payload.get("toolName")
        if event.get("type") == "agent.toolCalled":
            calls[call + str(payload.get("invocationId", event.get("nodeId")))] = tool
        elif event.get("type") == "agent.toolReturned":
            if (
                calls.pop(call + str(payload.get("invocationId", event.get("nodeId"))), None) != tool
                or not tool
            ):
                yield f"agent.toolReturned of {shown(tool)} has no agent.toolCalled"
            if ("outcome" in payload) == ("error" in payload):
                yield "agent.toolReturned: expected either outcome or error"
    if calls:
        yield f"{len(calls)} calls of tools have no return"


def _usage(events: list[Document], status: str) -> Iterator[str]:
    for one in payloads(events, "provider.usage"):
        for name in ("inputTokens", "outputTokens"):
            value = one.get(name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                yield f"provider.usage: {name}: expected a whole number, got {shown(value)}"
        for name in ("provider", "model"):
            if not isinstance(one.get(name), str):
                yield f"provider.usage: {name}: expected a text"
        cost = one.get("costEstimateUsd", 0)
        if not isinstance(cost, int | float) or cost < 0:
            yield f"provider.usage: costEstimateUsd: expected a number, got {shown(cost)}"


def _no_content(events: list[Document], status: str) -> Iterator[str]:
    for event in events:
        type, payload = str(event.get("type")), object_in(event, "payload")
        keys = [key for start, names in CONTENT_KEYS.items() if type.startswith(start) for key in names]
        if found := [key for key in keys if key in payload]:
            yield f"{type} has the members {', '.join(found)}"


def _scored_after(events: list[Document], status: str) -> Iterator[str]:
    """A score is caused by the decision, or the end, of an invocation before it."""
    types = {event.get("eventId"): event.get("type") for event in events}
    for event in events:
        if event.get("type") == "eval.scored":
            cause = types.get(event.get("causationId"))
            if cause not in ("agent.decided", "agent.invocation.completed"):
                task = object_in(event, "payload").get("taskId")
                yield f"eval.scored of {shown(task)}: causationId is {cause or 'none'}, not agent.decided"


def gated(events: list[Document], status: str) -> Iterator[str]:
    """Nothing is merged, and no run ends as a success, while a verdict other than `pass` or an open question stands."""
    verdict, asked = "", False
    for event in events:
        type, payload = str(event.get("type")), object_in(event, "payload")
        if type == "agent.verified":
            verdict = str(payload.get("verdict"))
        elif type == "agent.decided":
            verdict = ""
        elif type == "interrupt.requested":
            asked = True
        elif type.startswith(("approval.", "interrupt.")) or type == "node.completed":
            asked = False
        elif type == "core.workflowChain.event" and payload.get("phase") == "output.harvested" and asked:
            yield "outputs are harvested while an approval is open"
    if status == "completed" and verdict in ("fail", "revise"):
        yield f"the run is completed after the verdict {verdict}"
    if status == "completed" and asked:
        yield "the run is completed while an approval is open"


EVENT_LAWS = [
    EventLaw("envelope", "4.1", "An event has eventId, runId, type, payload and timestamp; eventIds are different.", _envelope),
    EventLaw("sequence", "4.1", "Sequences count from 0 without gaps.", _sequence),
    EventLaw("causes", "4.1", "A causationId is an earlier event of the run.", _causes),
    EventLaw("terminal", "4.2", "Exactly one event ends the run; it is the last one, and the status follows from it.", _terminal),
    EventLaw("order", "5.1", "run.started, eval.started, the scores of the tasks, eval.completed, the end.", _eval_order),
    EventLaw("scored", "5", "eval.scored has a task, a score from 0 to 1, and whether it passed.", _scored),
    EventLaw("scored-after", "5.1", "A score is caused by the decision of its invocation.", _scored_after),
    EventLaw("brackets", "5.1", "Each invocation has one start and one end around all that its agent does.", _brackets),
    EventLaw("tools-paired", "5.1", "Each call of a tool has one return of the same tool.", _tools),
    EventLaw("usage", "5", "Usage has a provider, a model and whole numbers of tokens.", _usage),
    EventLaw("no-content", "5", "Events about evals, invocations, verdicts and deployments have no member for content.", _no_content),
]  # fmt: skip
