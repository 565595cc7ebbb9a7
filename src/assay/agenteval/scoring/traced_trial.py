"""The trajectory of a trial from the agent's own spans (`assay run --traces`)."""

import re
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from assay.checks.missing_parts import MISSING
from assay.protocol.agents import Step, ToolAttempt, ToolCalled, ToolReturned, UsageStep
from assay.protocol.json_types import JSON
from assay.protocol.redaction import redact, redact_text
from assay.traces.trace_case import COST, TOKENS, TRAJECTORY, Price, SpanGroup, context_of_traces

CALLS = "output.metadata.tool_calls"
NO_SPANS = "no spans came"
_NOT_IN_A_NAME = re.compile(r"[^\x21-\x7e]+")
_read_step = msgspec.convert


class TracedTrial(Struct, kw_only=True):
    """What the spans say: steps in the order of time, calls with their arguments, and what is not known."""

    steps: list[Step] = []
    attempts: list[ToolAttempt] = []
    metadata: JSON = {}  # of the output: `trace` and `missing`

    @property
    def unknown(self) -> str:
        """Why the trajectory is not known; empty if it is."""
        return self.metadata.get(MISSING, {}).get(TRAJECTORY, "")


def read_trace(
    group: SpanGroup,
    recorded: Sequence[Step],
    attempts: Sequence[ToolAttempt],
    own_id: Callable[[str], str],
    price: Price | None,
    *,
    by_arguments: bool = True,
) -> TracedTrial:
    """
    The spans of an invocation beside what was recorded of it. A tool call that is in both counts once, and usage of
    spans takes the place of usage that was reported. `own_id` gives the id of a tool by the name that its agent uses.
    `by_arguments`: the calls are judged by their arguments, so that calls without any are not known.
    """
    if not group.spans:
        missing = dict.fromkeys((TRAJECTORY, CALLS), NO_SPANS)
        return TracedTrial(steps=list(recorded), attempts=list(attempts), metadata={MISSING: missing})
    about: JSON = context_of_traces("", [group], price)["output"]["metadata"]
    missing = {
        name: why for name, why in about.get(MISSING, {}).items() if name in (TRAJECTORY, TOKENS, COST)
    }
    called = _Calls(recorded, attempts, own_id)
    usages: list[Step] = []
    for document in about["trajectory"]:
        if document["type"] == "used":
            usages.append(_read_step(document, UsageStep))
        else:
            called.add(document)
    kept = [one for one in recorded if not (usages and isinstance(one, UsageStep))]
    if any(isinstance(one, UsageStep) for one in kept):
        missing = {name: why for name, why in missing.items() if name == TRAJECTORY}  # it was reported
    unknown = missing.get(TRAJECTORY) or (called.without_arguments if by_arguments else "")
    if unknown:
        missing[CALLS] = unknown
    steps = sorted([*kept, *called.steps, *usages], key=lambda step: step.at_ms or 0)
    return TracedTrial(
        steps=steps,
        attempts=called.attempts,
        metadata={"trace": about["trace"], **({MISSING: missing} if missing else {})},
    )


class _Calls:
    """The tool calls of spans that were not recorded already."""

    def __init__(
        self, recorded: Sequence[Step], attempts: Sequence[ToolAttempt], own_id: Callable[[str], str]
    ) -> None:
        self.steps: list[Step] = []
        self.attempts = list(attempts)
        self._own_id, self._ids = own_id, dict[str, str]()
        self._recorded = [(one.tool, one.inputs) for one in recorded if isinstance(one, ToolCalled)]
        self._at: dict[str, int] = {}  # the attempt of each call
        self._unknown = 0

    @property
    def without_arguments(self) -> str:
        return f"{self._unknown} tool calls have no arguments" if self._unknown else ""

    def add(self, document: JSON) -> None:
        """A step `tool-called` or `tool-returned` of a trace."""
        tool = self._own_id(tool_name(document["tool"]))
        if document["type"] == "tool-called":
            arguments = document.get("inputs")
            inputs: JSON = redact(arguments) if arguments is not None else {}
            same = next(
                (at for at in self._recorded if at[0] == tool and (arguments is None or at[1] == inputs)),
                None,
            )
            if same is not None:
                self._recorded.remove(same)
                return
            self._unknown += arguments is None
            id = self._ids[document["call_id"]] = f"span-{len(self._ids) + 1}"
            self._at[id] = len(self.attempts)
            self.steps.append(ToolCalled(call_id=id, tool=tool, inputs=inputs, at_ms=document["at_ms"]))
            self.attempts.append(ToolAttempt(tool=tool, arguments=arguments or {}, outcome="ok"))
        elif (id := self._ids.get(document["call_id"])) is not None:
            returned = _read_step(document, ToolReturned)
            error = returned.error and {**returned.error, "message": redact_text(returned.error["message"])}
            if returned.status != "ok":
                at = self._at[id]
                self.attempts[at] = msgspec.structs.replace(self.attempts[at], outcome="error")
            outcome = redact(returned.outcome) if returned.status == "ok" else returned.outcome
            self.steps.append(
                msgspec.structs.replace(returned, call_id=id, tool=tool, outcome=outcome, error=error)
            )


def tool_name(text: str) -> str:
    """The name of a tool as a step may have it: without spaces and secrets."""
    return redact_text(_NOT_IN_A_NAME.sub("_", text))[:256] or "unknown"
