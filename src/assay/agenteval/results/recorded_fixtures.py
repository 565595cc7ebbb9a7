"""Fixtures by argument from the tool calls of a run: what `assay run --record` writes (ADR-0173)."""

from collections.abc import AsyncIterator, Iterable
from typing import Any, get_args, get_type_hints

import msgspec

from assay.agents.trajectory import chosen_events
from assay.inputs.yaml_writer import as_yaml
from assay.ports import Run, Store
from assay.protocol.event_record import decode_event
from assay.protocol.json_types import JSON
from assay.protocol.suite_extension import MEMBER, FixtureError

CALLED, RETURNED = "agent.toolCalled", "agent.toolReturned"
CODES = frozenset(get_args(get_type_hints(FixtureError)["code"]))
HEAD = "# Recorded answers of tools, without secrets. Use them with `assay run SUITE --fixtures FILE`.\n"


class RecordedFixtures(msgspec.Struct, frozen=True):
    """The rules of each task, and the failures that no fixture can repeat: tool and code."""

    tasks: dict[str, list[JSON]]
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def calls(self) -> int:
        return sum(map(len, self.tasks.values()))

    def as_yaml(self) -> str:
        tasks = {id: {"fixtures": rules} for id, rules in self.tasks.items()}
        return HEAD + as_yaml({MEMBER: {"tasks": tasks}})


async def recorded_fixtures(store: Store, run: Run, tasks: Iterable[str]) -> RecordedFixtures:
    """
    The calls of these tasks, in their order. They have one trial each. Their arguments and answers have no secrets in
    the log.
    """
    answers: dict[str, dict[str, list[JSON]]] = {one: {} for one in tasks}  # of each call, in order
    left_out: dict[tuple[str, str], None] = {}
    open_calls: dict[tuple[str, str], JSON] = {}
    async for event in _calls(store, run.id):
        task, payload = event["nodeId"].partition(":")[2], event["payload"]
        key = task, payload["callId"]
        if event["type"] == CALLED:
            open_calls[key] = {"tool": payload["toolName"], "arguments": payload.get("inputs") or {}}
            continue
        call = open_calls.pop(key, None)
        if call is None or task not in answers:
            continue
        error: Any = payload.get("error")
        if error is not None and error["code"] not in CODES:
            left_out[call["tool"], error["code"]] = None
            continue
        answer = {"error": error} if error is not None else {"response": payload.get("outcome")}
        same = msgspec.json.encode(call, order="sorted").decode()
        answers[task].setdefault(same, []).append(answer)
    rules = {
        task: [rule for call, given in calls.items() for rule in _rules(call, given)]
        for task, calls in answers.items()
        if calls
    }
    return RecordedFixtures(rules, tuple(left_out))


def _calls(store: Store, run: str) -> AsyncIterator[JSON]:
    return chosen_events(
        store,
        run,
        lambda event: event.type in (CALLED, RETURNED) and isinstance(decode_event(event.data).nodeId, str),
    )


def _rules(call: str, answers: list[JSON]) -> list[JSON]:
    """The rules of one call. Answers that differ are counted; the last one repeats."""
    made: JSON = msgspec.json.decode(call)
    match = {"arguments": made["arguments"], "argument_match": "equal"}
    while len(answers) > 1 and answers[-1] == answers[-2]:
        answers = answers[:-1]
    return [
        {"tool": made["tool"], "match": match} | ({"call": at} if at < len(answers) else {}) | answer
        for at, answer in enumerate(answers, 1)
    ]
