"""A trace becomes a case: the same facts in every dialect, and nothing guessed where the spans hold nothing."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.traces.otlp import items_of_json
from assay.traces.spans import Span
from assay.traces.trace_case import SpanGroup, context_of_traces
from support.traces.conversations import DIALECTS, Conversation
from support.traces.otlp import Sent, request_of
from support.traces.strategies import conversations


def case_of(*sent: Sent, left_out: int = 0) -> dict[str, Any]:
    spans = [
        item
        for one in sent
        for item in items_of_json(request_of(one, resource=one.resource))
        if isinstance(item, Span)
    ]
    return context_of_traces("case", [SpanGroup(spans, left_out)])


def steps_of(case: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [step for step in case["output"]["metadata"]["trajectory"] if step["type"] == kind]


def missing_in(case: dict[str, Any]) -> dict[str, str]:
    return case["output"]["metadata"].get("missing", {})


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=30, deadline=None)
@given(talk=conversations)
def test_every_dialect_gives_the_facts_of_the_conversation(dialect: str, talk: Conversation) -> None:
    case = case_of(*DIALECTS[dialect](talk))
    metadata = case["output"]["metadata"]
    sent, received = talk.tokens
    calls = len(talk.uses) + 1
    assert case["test_case"]["input"] == talk.question
    assert case["output"]["value"] == talk.answer
    assert metadata["messages"] == [*talk.history[-1], {"role": "assistant", "content": talk.answer}]
    assert (metadata["input_tokens"], metadata["output_tokens"]) == (sent * calls, received * calls)
    assert metadata["latency_ms"] == 1_000
    assert metadata["outcome"] == "completed"
    assert [(one["tool"], one["inputs"]) for one in steps_of(case, "tool-called")] == [
        (use.name, use.arguments) for use in talk.uses
    ]
    assert [one["outcome"] for one in steps_of(case, "tool-returned")] == [use.result for use in talk.uses]
    assert len(steps_of(case, "used")) == calls
    assert dialect in metadata["trace"]["dialects"]
    assert missing_in(case).keys() <= {"output.metadata.cost_usd"}


def model(id: str, attributes: dict[str, Any], **members: Any) -> Sent:
    named = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.provider.name": "p"}
    return Sent(id=id, attributes={**named, **attributes}, **members)


def exchange(text: str, asked: str = "q") -> dict[str, Any]:
    def one(role: str, content: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": content}]}])

    return {"gen_ai.input.messages": one("user", asked), "gen_ai.output.messages": one("assistant", text)}


COUNTED = {"gen_ai.usage.input_tokens": 1, "gen_ai.usage.output_tokens": 1}
AGENT = {"gen_ai.operation.name": "invoke_agent"}

CUT = 200  # characters


def cut(sent: Sent) -> Sent:
    """What a sender sends that cuts texts (OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT)."""

    def limited(attributes: dict[str, Any]) -> dict[str, Any]:
        return {key: one[:CUT] if isinstance(one, str) else one for key, one in attributes.items()}

    events = [(name, limited(attributes)) for name, attributes in sent.events]
    return msgspec.structs.replace(sent, attributes=limited(sent.attributes), events=events)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=30, deadline=None)
@given(talk=conversations, longer=st.integers(-CUT // 2, CUT))
def test_a_text_that_was_cut_is_never_an_answer(dialect: str, talk: Conversation, longer: int) -> None:
    talk = msgspec.structs.replace(talk, answer=f"[{talk.answer}".ljust(CUT + longer, "x"))
    spans = DIALECTS[dialect](talk)
    for span in spans:
        if dialect == "openinference":  # as its instrumentations do, beside the flat messages
            span.attributes["output.value"] = json.dumps({"choices": [{"content": talk.answer}]})
    case = case_of(*map(cut, spans))
    assert case["output"]["value"] == talk.answer or "output.value" in missing_in(case)
    if longer > 0:
        assert {"output.value", "output.metadata.messages"} <= missing_in(case).keys()


@pytest.mark.parametrize("answer", ["[1] says the page", "{name} is a blank", "[Note] x", "{'a': 1}"])
def test_a_text_that_is_not_json_is_not_taken_for_a_cut_one(answer: str) -> None:
    attributes = {"openinference.span.kind": "LLM", "input.value": "q", "output.value": answer}
    assert case_of(Sent(id="01", attributes=attributes))["output"]["value"] == answer


MISSING = {
    "no content": (
        [Sent(id="01", attributes=AGENT), model("02", COUNTED, parent="01")],
        {"test_case.input", "output.value"},
    ),
    "an attribute that was cut": (
        [model("01", {**COUNTED, **exchange("a"), "gen_ai.output.messages": '[{"role": "assis'})],
        {"output.value", "output.metadata.messages"},
    ),
    "the last answer is not there, and an earlier one is": (
        [
            Sent(id="01", attributes=AGENT, end=90),
            model("02", {**COUNTED, **exchange("an intermediate answer")}, parent="01", start=1, end=2),
            model("03", COUNTED, parent="01", start=3, end=4),
        ],
        {"test_case.input", "output.value"},
    ),
    "a model call without tokens": (
        [
            Sent(id="01", attributes=AGENT),
            model("02", {**COUNTED, **exchange("a")}, parent="01", end=5),
            model("03", exchange("b"), parent="01", start=6, end=9),
        ],
        {"output.metadata.tokens"},
    ),
    "a parent that was not sent": (
        [
            model("02", {**COUNTED, **exchange("a")}, parent="01", end=5),
            model("03", {**COUNTED, **exchange("b")}, parent="01", start=6, end=9),
        ],
        {"output.metadata.trajectory"},
    ),
    "a cycle": (
        [model("02", {**COUNTED, **exchange("a")}, parent="03"), Sent(id="03", parent="02")],
        {"output.metadata.trajectory"},
    ),
    "two spans with one id": (
        [model("02", {**COUNTED, **exchange("a")}), model("02", {**COUNTED, **exchange("b")})],
        {"output.metadata.trajectory"},
    ),
    "a span that ends before it starts": (
        [model("02", {**COUNTED, **exchange("a")}, start=50, end=10)],
        {"output.metadata.latency_ms"},
    ),
    "a clock that is ahead": (
        [
            Sent(id="01", attributes=AGENT, end=100),
            model("02", {**COUNTED, **exchange("a")}, parent="01", start=9_000, end=9_900,
                  resource={"host.name": "other"}),
        ],
        {"output.metadata.latency_ms"},
    ),
    "a parent in the same process that was not sent": (
        [model("02", {**COUNTED, **exchange("a")}, parent="01", members={"flags": 0x100})],
        {"output.metadata.trajectory"},
    ),
    "attributes that the sender left out, and the messages in the others": (
        [
            Sent(
                id="01",
                attributes={
                    "openinference.span.kind": "LLM",
                    "llm.token_count.prompt": 1,
                    "llm.token_count.completion": 1,
                    "llm.input_messages.0.message.role": "user",
                    "llm.input_messages.0.message.content": "an earlier question",
                    "llm.output_messages.0.message.role": "assistant",
                    "llm.output_messages.0.message.content": "a",
                },
                members={"droppedAttributesCount": 2},
            )
        ],
        {"test_case.input", "output.value", "output.metadata.messages", "output.metadata.trajectory"},
    ),
    "events that the sender left out, and the messages in the others": (
        [
            model(
                "01",
                COUNTED,
                events=[("gen_ai.user.message", {"content": "q"}), ("gen_ai.choice", {"message": "a"})],
                members={"droppedEventsCount": 2},
            )
        ],
        {"test_case.input", "output.value", "output.metadata.messages", "output.metadata.trajectory"},
    ),
    "a tool span without its arguments and its result": (
        [
            model("01", {**COUNTED, **exchange("a")}),
            Sent(id="02", parent="01", attributes={"gen_ai.operation.name": "execute_tool"}),
        ],
        {"output.metadata.trajectory[*].inputs", "output.metadata.trajectory[*].outcome"},
    ),
    "a clock that is behind": (
        [Sent(id="01", attributes=AGENT, start=9_000, end=9_900),
         model("02", {**COUNTED, **exchange("a")}, parent="01")],
        {"output.metadata.latency_ms"},
    ),
    "no span of an agent": ([Sent(id="01", name="GET /")], {"test_case.input", "output.value", "output.metadata.tokens"}),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "missing"), MISSING.values(), ids=MISSING)
def test_what_the_spans_do_not_hold_is_named_as_missing(sent: list[Sent], missing: set[str]) -> None:
    assert missing_in(case_of(*sent)).keys() - {"output.metadata.cost_usd"} == missing


def test_spans_over_the_limit_make_the_trajectory_missing() -> None:
    case = case_of(model("01", {**COUNTED, **exchange("a")}), left_out=7)
    assert missing_in(case)["output.metadata.trajectory"] == "7 spans are over the limit and left out"


COMPLETE = {
    "a span that was sent twice": [model("01", {**COUNTED, **exchange("a")})] * 2,
    "a parent in another service": [model("01", {**COUNTED, **exchange("a")}, parent="ff")],
    "attributes that the sender left out beside whole messages": [
        model("01", {**COUNTED, **exchange("a")}, members={"droppedAttributesCount": 7})
    ],
    "a consumer of the same trace that starts later": [
        model("01", {**COUNTED, **exchange("a")}, end=100),
        Sent(
            id="02", parent="01", start=9_000, end=9_900, resource={"host.name": "other"}, members={"kind": 5}
        ),
    ],
    "two parents in other services": [
        model("01", {**COUNTED, **exchange("b")}, parent="fe", members={"kind": 2}, end=10),
        model("02", {**COUNTED, **exchange("a")}, parent="ff", members={"flags": 0x300}, start=20),
    ],
    "two roots": [
        model("01", {**COUNTED, **exchange("b")}, end=10),
        model("02", {**COUNTED, **exchange("a")}, start=20),
    ],
}


@pytest.mark.parametrize("sent", COMPLETE.values(), ids=COMPLETE)
def test_a_whole_trace_misses_nothing_but_its_price(sent: list[Sent]) -> None:
    case = case_of(*sent)
    assert missing_in(case).keys() == {"output.metadata.cost_usd"}
    assert case["output"]["value"] == "a"


def test_the_answer_is_that_of_the_outermost_agent() -> None:
    case = case_of(
        Sent(id="01", attributes=AGENT, end=100),
        model("02", {**COUNTED, **exchange("the answer", "the question")}, parent="01", start=10, end=80),
        Sent(id="03", parent="01", attributes={**AGENT}, start=20, end=99),
        model("04", {**COUNTED, **exchange("of a helper", "to a helper")}, parent="03", start=30, end=98),
    )
    assert (case["test_case"]["input"], case["output"]["value"]) == ("the question", "the answer")


def test_tokens_that_an_outer_model_span_repeats_count_once() -> None:
    case = case_of(
        model("01", {"gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 3}),
        model(
            "02",
            {**exchange("a"), "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 3},
            parent="01",
        ),
    )
    assert case["output"]["metadata"]["tokens"] == 10


def test_a_model_span_without_tokens_has_those_of_the_model_span_around_it() -> None:
    case = case_of(model("01", {**COUNTED, **exchange("a")}), model("02", {}, parent="01"))
    assert (case["output"]["value"], case["output"]["metadata"]["tokens"]) == ("a", 2)


def test_the_reason_names_what_the_sender_left_out() -> None:
    case = case_of(model("01", COUNTED, members={"droppedAttributesCount": 2, "droppedEventsCount": 1}))
    assert missing_in(case)["output.value"] == "the sender left out 2 attributes and 1 events of the span"


@pytest.mark.parametrize("same", [True, False], ids=["equal arguments", "other arguments"])
def test_a_tool_span_without_an_id_has_the_first_open_call_with_its_arguments(same: bool) -> None:
    many = 20
    calls = [
        {"type": "tool_call", "id": f"c{at}", "name": "t", "arguments": {"n": 0 if same else at}}
        for at in range(many)
    ]
    asked = model(
        "01", {**COUNTED, "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": calls}])}
    )
    tools = [
        Span(
            trace_id="aa" * 16,
            span_id=f"{at + 100:016x}",
            start=10**18 * 2,
            end=10**18 * 2,
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "t",
                "gen_ai.tool.call.arguments": {"n": 0 if same else many - 1 - at},
                "gen_ai.tool.call.result": at,
            },
        )
        for at in range(many)
    ]
    spans = [item for item in items_of_json(request_of(asked)) if isinstance(item, Span)]
    case = context_of_traces("case", [SpanGroup([*spans, *tools])])
    numbers = range(many) if same else reversed(range(many))
    assert [step["call_id"] for step in steps_of(case, "tool-called")] == [f"c{at}" for at in numbers]


@pytest.mark.parametrize(
    "completion", ["a", '[{"role": "assistant", "content": "a"}]'], ids=["text", "messages"]
)
def test_events_of_the_first_conventions_have_a_prompt_and_a_completion(completion: str) -> None:
    events = [
        ("gen_ai.content.prompt", {"gen_ai.prompt": '[{"role": "user", "content": "q"}]'}),
        ("gen_ai.content.completion", {"gen_ai.completion": completion}),
    ]
    case = case_of(model("01", COUNTED, events=events))
    assert (case["test_case"]["input"], case["output"]["value"]) == ("q", "a")


def test_a_failed_trace_has_the_outcome_and_the_error() -> None:
    case = case_of(
        Sent(id="01", attributes=AGENT, failed="it broke"),
        model("02", {**COUNTED, **exchange("a")}, parent="01"),
    )
    metadata = case["output"]["metadata"]
    assert (metadata["outcome"], metadata["error"], metadata["trace"]["errors"]) == ("failed", "it broke", 1)


def test_several_parts_stay_messages() -> None:
    picture = {"type": "uri", "uri": "https://example.com/a.png", "modality": "image"}
    asked = [{"role": "user", "parts": [{"type": "text", "content": "what is this?"}, picture]}]
    case = case_of(model("01", {**COUNTED, **exchange("a cat"), "gen_ai.input.messages": asked}))
    text = {"type": "text", "text": "what is this?"}
    assert case["test_case"]["input"] == [{"role": "user", "content": [text, picture]}]


def test_attributes_are_metadata_and_content_is_not() -> None:
    spans = request_of(
        model("01", {**COUNTED, **exchange("a secret answer"), "user.tier": "gold"}),
        resource={"service.name": "shop"},
    )
    items = [item for item in items_of_json(spans) if isinstance(item, Span)]
    metadata = context_of_traces("c", [SpanGroup(items)])["test_case"]["metadata"]
    assert (metadata["user.tier"], metadata["service.name"]) == ("gold", "shop")
    assert "secret" not in json.dumps(metadata)


def test_turns_of_a_conversation_are_one_case() -> None:
    def turn(trace: str, start: int, text: str) -> SpanGroup:
        sent = model(
            "01",
            {**COUNTED, **exchange(f"answer {text}", f"question {text}")},
            trace=trace,
            start=start,
            end=start + 10,
        )
        return SpanGroup([item for item in items_of_json(request_of(sent)) if isinstance(item, Span)])

    case = context_of_traces("talk", [turn("bb", 50, "2"), turn("aa", 0, "1")])
    metadata = case["output"]["metadata"]
    assert (case["test_case"]["input"], case["output"]["value"]) == ("question 2", "answer 2")
    assert [one["content"] for one in metadata["messages"]] == [
        "question 1",
        "answer 1",
        "question 2",
        "answer 2",
    ]
    assert (metadata["tokens"], metadata["latency_ms"]) == (4, 20)
    assert metadata["trace"]["trace_ids"] == ["aa" * 16, "bb" * 16]
