"""
One case from the spans of one trace, or of the traces of one conversation.

The input is the last text of the user, the output the last text of the assistant. `output.metadata` has what the
metadata of an agent's output has: outcome, latency, tokens, cost and trajectory. What the spans do not hold is not
guessed: `output.metadata.missing` names it, and a check that reads it is not measured.
"""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from assay.checks.missing_parts import MISSING
from assay.protocol.agents import ToolCalled, ToolReturned, Usage, UsageStep
from assay.protocol.json_types import JSON, is_object
from assay.protocol.redaction import safe_name
from assay.traces.dialects import Facts, metadata_of
from assay.traces.messages import Message, message
from assay.traces.span_tree import SKEW, SpanTree, tree_of
from assay.traces.spans import ERROR, Span

Price = Callable[[str, str, int, int, int], float | None]  # (provider, model, input, output, cached tokens)
INPUT, VALUE, TRAJECTORY = "test_case.input", "output.value", "output.metadata.trajectory"
TOKENS, COST, LATENCY = "output.metadata.tokens", "output.metadata.cost_usd", "output.metadata.latency_ms"
MESSAGES = "output.metadata.messages"
PARTS = INPUT, VALUE, MESSAGES, TRAJECTORY, TOKENS, COST, LATENCY
NO_CONTENT = "the spans have no messages: the sender does not record content"

_encode = msgspec.json.Encoder(order="deterministic").encode


@lru_cache(1024)
def _name(name: str | None) -> str:
    """The name of a provider or a model, as a step may have it."""
    return safe_name(name or "unknown")


class SpanGroup(NamedTuple):
    """The spans of one trace. `left_out`: how many were over the limit; without `spans`, all of them."""

    spans: Sequence[Span]
    left_out: int = 0


def context_of_traces(case_id: str, groups: Sequence[SpanGroup], price: Price | None = None) -> JSON:
    """The context of the traces of one conversation, in the order of their start."""
    read = [group for group in groups if group.spans]
    turns = sorted((_Turn(group, price) for group in read), key=lambda turn: turn.main.span.start)
    last = turns[-1]
    missing: dict[str, str] = {}
    for turn in turns:
        missing |= turn.missing
    if over := sum(group.left_out for group in groups if not group.spans):
        missing |= dict.fromkeys(PARTS, f"{over} spans of other traces are over the limit and left out")
    messages = _joined([turn.messages for turn in turns])
    question, answer = last.question, last.answer
    metadata = metadata_of(last.main.span)
    return {
        "test_case": {"id": case_id, "input": question, **({"metadata": metadata} if metadata else {})},
        "output": {
            "value": answer,
            "metadata": {
                "outcome": last.outcome,
                **({"error": last.error} if last.error else {}),
                **_sums(turns, missing),
                **({"messages": messages} if messages else {}),
                **({"turns": [one for turn in turns for one in _exchange(turn)]} if len(turns) > 1 else {}),
                "trajectory": [step for turn in turns for step in turn.steps],
                "trace": _provenance(turns),
                **({MISSING: missing} if missing else {}),
            },
        },
    }


def _exchange(turn: "_Turn") -> list[JSON]:
    """What the user and the agent said in one trace, in the form of the turns of a task."""
    return [{"role": "user", "content": turn.question}, {"role": "assistant", "content": turn.answer}]


def _sums(turns: Sequence["_Turn"], missing: dict[str, str]) -> JSON:
    """The latency, the tokens and the cost. What is missing in one turn is left out: a part would look like the sum."""
    found: JSON = {}
    if LATENCY not in missing:
        found["latency_ms"] = round(sum(turn.nanoseconds for turn in turns) / 1e6)
    usages = [usage for turn in turns for usage in turn.usages]
    if usages and COST not in missing:
        found["cost_usd"] = round(sum(usage.cost_usd or 0.0 for usage in usages), 12)
    if usages and TOKENS not in missing:
        sent, received = sum(one.input_tokens for one in usages), sum(one.output_tokens for one in usages)
        found |= {"tokens": sent + received, "input_tokens": sent, "output_tokens": received}
    return found


def _provenance(turns: Sequence["_Turn"]) -> JSON:
    main = turns[-1].main
    response = turns[-1].decisive.response_id if turns[-1].decisive else None
    dialects = sorted({one.dialect for turn in turns for one in turn.tree.facts if one.dialect})
    rates = {turn.main.span.probability for turn in turns}
    rate = rates.pop() if len(rates) == 1 else None
    moment = datetime.fromtimestamp(min(turns[0].main.span.start, 10**18 * 9) / 1e9, UTC)
    return {
        "trace_ids": [turn.main.span.trace_id for turn in turns],
        "span_id": main.span.span_id,
        **({"judged_span_id": turns[-1].decisive.span.span_id} if turns[-1].decisive else {}),
        **({"response_id": response} if response else {}),
        "name": main.span.name,
        "started_at": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "spans": sum(len(turn.tree.facts) for turn in turns),
        "model_calls": sum(len(turn.models) for turn in turns),
        **({"sampling_probability": rate} if rate is not None else {}),
        "errors": sum(one.failed for turn in turns for one in turn.tree.facts),
        "dialects": dialects,
    }


class _Turn:
    """One trace: what it was asked, what it answered, and what it did."""

    def __init__(self, group: SpanGroup, price: Price | None) -> None:
        self.tree = tree = tree_of(group.spans)
        self.main, self._price = tree.main, price
        self.models = tree.leaf_models()
        self.missing: dict[str, str] = {}
        problems = list(tree.problems)
        if partial := sum(one.is_partial for one in self.models):
            problems.append(f"the sender left out attributes or events of {partial} model calls")
        if group.left_out:
            problems.append(f"{group.left_out} spans are over the limit and left out")
        if problems:
            self.missing[TRAJECTORY] = "; ".join(problems)
        self.decisive = _decisive(tree, self.models)
        self.question, self.answer = self._texts()
        self.messages = _messages_of(self.decisive)
        self.usages = self._usages()
        self.steps = self._steps()
        self.nanoseconds = self.main.span.end - self.main.span.start
        if tree.skewed:
            self.missing[LATENCY] = "the clocks of the spans disagree"
        elif not (self.main.span.start and self.main.span.end):
            self.missing[LATENCY] = "the span has no start or no end"

    @property
    def outcome(self) -> str:
        return "failed" if self.main.span.status == ERROR else "completed"

    @property
    def error(self) -> str | None:
        return self.main.error

    def _texts(self) -> tuple[Any, Any]:
        decisive = self.decisive
        if decisive is None:
            reason = "the trace has no span of a model or an agent"
            self.missing |= {INPUT: reason, VALUE: reason}
            return None, None
        why = _no_messages(decisive)
        asked = [one for one in decisive.inputs if one["role"] == "user"]
        if decisive.is_partial:
            self.missing |= {INPUT: why, VALUE: why}
        if not asked:
            self.missing[INPUT] = why if decisive.cut or not decisive.inputs else "no message is of a user"
        if not decisive.outputs:
            self.missing[VALUE] = why if not decisive.failed else "the model call failed"
        question, answer = _text_or_messages(asked[-1:]), _text_or_messages(decisive.outputs)
        self.missing |= {
            part: self._cut for part, text in ((INPUT, question), (VALUE, answer)) if self._is_cut(text)
        }
        if (
            decisive.is_partial
            or decisive.cut
            or any(self._is_cut(one["content"]) for one in _messages_of(decisive))
        ):
            self.missing[MESSAGES] = why if decisive.is_partial or decisive.cut else self._cut
        return question, answer

    @property
    def _cut(self) -> str:
        return f"an attribute was cut to {self.tree.limit:,} characters"

    def _is_cut(self, text: Any) -> bool:
        return isinstance(text, str) and 0 < self.tree.limit == len(text)

    def _usages(self) -> list[Usage]:
        usages: list[Usage] = []
        unknown = 0
        unpriced = 0
        for one in self.models:
            if one.input_tokens is None or one.output_tokens is None:
                unknown += not one.failed  # a call that failed may have no usage
                continue
            cost = one.cost
            if cost is None and self._price is not None:
                counts = one.input_tokens, one.output_tokens, one.cached_tokens
                cost = self._price(one.provider or "", one.model or "", *counts)
            unpriced += cost is None
            usages.append(
                Usage(
                    provider=_name(one.provider),
                    model=_name(one.model),
                    input_tokens=one.input_tokens,
                    output_tokens=one.output_tokens,
                    cost_usd=cost,
                )
            )
        if unknown:
            self.missing[TOKENS] = f"{unknown} of {len(self.models)} model calls have no token counts"
            self.missing[COST] = self.missing[TOKENS]
        elif unpriced:
            self.missing[COST] = f"{unpriced} of {len(self.models)} model calls have no known price"
        elif not self.models:
            self.missing[TOKENS] = self.missing[COST] = "the trace has no model call"
        return usages

    def _steps(self) -> list[JSON]:
        """The tool calls and the usage of model calls, in the order of time."""
        start = self.main.span.start
        asked, answered = calls_of(self.models)
        open_calls = OpenCalls(asked)
        timed: list[tuple[int, JSON]] = []

        def add(at: int, step: Any, *without: str) -> None:
            document = msgspec.to_builtins(step) | {"at_ms": max(0, (at - start) // 1_000_000)}
            timed.append((at, {name: value for name, value in document.items() if name not in without}))

        unknown = unanswered = 0
        for one in self.tree.facts:
            if one.kind != "tool":
                continue
            span, tool = one.span, one.tool or one.span.name
            asked_id = one.call_id or open_calls.take(one, tool)
            asked_call = asked.pop(asked_id, None)
            arguments = (
                one.arguments
                if one.arguments is not UNSET or asked_call is None
                else asked_call[1]["arguments"]
            )
            result = one.result if one.result is not UNSET else answered.get(asked_id, UNSET)
            arguments, result = (UNSET if self._is_cut(part) else part for part in (arguments, result))
            call_id = one.call_id or asked_id or span.span_id
            unknown += arguments is UNSET
            unanswered += result is UNSET and not one.failed
            called = ToolCalled(call_id=call_id, tool=tool, inputs=_inputs(arguments))
            add(span.start, called, *(("inputs",) if arguments is UNSET else ()))
            add(
                max(span.end, span.start),
                ToolReturned(
                    call_id=call_id,
                    tool=tool,
                    status="error" if one.failed else "ok",
                    outcome=UNSET if one.failed else result,
                    error={"code": "tool_error", "message": one.error or ""} if one.failed else None,
                    duration_ms=max(0, (span.end - span.start) // 1_000_000),
                ),
            )
        for call_id, (at, call) in asked.items():  # a tool that has no span of its own
            add(at, ToolCalled(call_id=call_id, tool=call["name"], inputs=_inputs(call["arguments"])))
            if call_id in answered:
                returned = ToolReturned(
                    call_id=call_id, tool=call["name"], status="ok", outcome=answered[call_id]
                )
                add(at, returned)
            else:
                unanswered += 1
        usages = iter(self.usages)
        for one in self.models:
            if one.input_tokens is not None and one.output_tokens is not None:
                add(max(one.span.end, one.span.start), UsageStep(usage=next(usages)))
        if unknown:
            self.missing[f"{TRAJECTORY}[*].inputs"] = f"{unknown} tool calls have no arguments"
        if unanswered:
            self.missing[f"{TRAJECTORY}[*].outcome"] = f"{unanswered} tool calls have no result"
        return [step for _, step in sorted(timed, key=lambda pair: pair[0])]


def _decisive(tree: SpanTree, models: Sequence[Facts]) -> Facts | None:
    """
    The span whose messages are those of the case: the outermost agent with an answer, else the last outermost model
    call.

    If it holds no content, another span is not taken in its place: it would hold an intermediate answer.
    """
    depth = tree.depth
    answered = [
        one
        for one in tree.facts
        if one.kind in ("agent", "chain") and one.inputs and (one.outputs or one.cut)
    ]
    outer = [one for one in answered if depth[one.span.span_id] == 0]
    if outer:
        return max(outer, key=lambda one: (one.kind == "agent", one.span.end))
    if not models:
        return max(answered, key=lambda one: (-depth[one.span.span_id], one.span.end), default=None)
    least = min(depth[one.span.span_id] for one in models)
    return max((one for one in models if depth[one.span.span_id] == least), key=lambda one: one.span.end)


def _no_messages(facts: Facts) -> str:
    """Why a span has no messages, or not all of them."""
    span = facts.span
    if facts.cut:
        return f"an attribute was cut: {', '.join(facts.cut)}"
    if span.dropped_attributes or span.dropped_events:
        return f"the sender left out {span.dropped_attributes} attributes and {span.dropped_events} events of the span"
    return NO_CONTENT


def _text_or_messages(messages: Sequence[Message]) -> Any:
    """The text of the one message with one text part, else the messages; None for none."""
    if not messages:
        return None
    if len(messages) == 1 and isinstance(messages[0]["content"], str):
        return messages[0]["content"]
    return list(messages)


def _messages_of(facts: Facts | None) -> list[Message]:
    if facts is None:
        return []
    has_system = any(one["role"] == "system" for one in facts.inputs)
    system = [message("system", facts.system)] if facts.system and not has_system else []
    return [*system, *facts.inputs, *facts.outputs]


def _joined(turns: Sequence[list[Message]]) -> list[Message]:
    """The messages of a conversation. A turn that repeats the messages before it takes their place."""
    found: list[Message] = []
    for messages in turns:
        if messages[: len(found)] == found:
            found = list(messages)
        else:
            found += messages
    return found


def _inputs(arguments: Any) -> JSON:
    if arguments is UNSET:
        return {}
    return arguments if is_object(arguments) else {"input": arguments}


def calls_of(models: Sequence[Facts]) -> tuple[dict[str, tuple[int, JSON]], dict[str, Any]]:
    """The tool calls that models asked for, by id, with the time; and the results that later calls show."""
    asked: dict[str, tuple[int, JSON]] = {}
    answered: dict[str, Any] = {}
    for one in models:
        for output in one.outputs:
            for call in output.get("tool_calls", ()):
                if isinstance(call.get("id"), str):
                    asked.setdefault(call["id"], (one.span.end, call))
        for given in one.inputs:
            if given["role"] == "tool" and "tool_call_id" in given:
                answered.setdefault(given["tool_call_id"], given["content"])
    return asked, answered


class OpenCalls:
    """The tool calls that models asked for and that no tool span without an id of its own has answered."""

    def __init__(self, asked: dict[str, tuple[int, JSON]]) -> None:
        self._asked = asked
        self._ids: dict[
            tuple[str, bytes], deque[str]
        ] = {}  # by tool and arguments, those asked for first in front
        for call_id, (_, call) in asked.items():
            for arguments in (b"", _encode(call["arguments"])):
                self._ids.setdefault((call["name"], arguments), deque()).append(call_id)

    def take(self, facts: Facts, tool: str) -> str:
        """The id of the first call before a tool span, with its arguments if it has some; empty if there is none."""
        ids = self._ids.get((tool, b"" if facts.arguments is UNSET else _encode(facts.arguments)), deque())
        while ids and ids[0] not in self._asked:  # a span has answered it
            ids.popleft()
        return ids[0] if ids and self._asked[ids[0]][0] <= facts.span.start + SKEW else ""
