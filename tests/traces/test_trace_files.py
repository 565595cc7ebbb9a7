"""Files of OTLP: JSON, JSON lines and protobuf, plain and gzipped, give the same cases; bad ones get a clear answer."""

import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.ports import Limits
from assay.traces import trace_files
from assay.traces.otlp import items_of_json, items_of_protobuf
from support.traces.conversations import DIALECTS, Conversation, ToolUse, genai
from support.traces.otlp import Sent, logs_of, request_of, to_protobuf, write_lines

TALK = Conversation(
    question="weather in Paris?",
    answer="20 degrees",
    uses=(ToolUse(name="weather", arguments={"city": "Paris"}, result={"celsius": 20}),),
)
SPANS = genai(TALK)
TOOL = Sent(id="02", parent="01").document
REQUEST = request_of(
    *SPANS, resource={"service.name": "shop", "ratio": 0.5, "on": True, "list": [1, {"a": "b"}]}
)


def one_json(folder: Path) -> Path:
    path = folder / "t.json"
    path.write_text(json.dumps(REQUEST))
    return path


def lines(folder: Path) -> Path:
    return write_lines(
        folder / "t.jsonl", *(request_of(one, resource={"service.name": "shop"}) for one in reversed(SPANS))
    )


def lines_gzipped(folder: Path) -> Path:
    path = folder / "t.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(REQUEST).encode()))
    return path


def protobuf(folder: Path) -> Path:
    path = folder / "t.pb"
    path.write_bytes(to_protobuf(REQUEST))
    return path


def protobuf_requests(folder: Path) -> Path:
    path = folder / "t.binpb"
    requests = [to_protobuf(request_of(one)) for one in SPANS]
    path.write_bytes(b"".join(len(one).to_bytes(4, "big") + one for one in requests))
    return path


@pytest.mark.parametrize("write", [one_json, lines, lines_gzipped, protobuf, protobuf_requests])
def test_every_format_gives_the_same_case(write: Any, tmp_path: Path) -> None:
    (context,) = assay.read_traces(write(tmp_path))
    assert context["test_case"]["input"] == TALK.question
    assert context["output"]["value"] == TALK.answer
    calls = [step for step in context["output"]["metadata"]["trajectory"] if step["type"] == "tool-called"]
    assert [(one["tool"], one["inputs"]) for one in calls] == [("weather", {"city": "Paris"})]
    assert context["output"]["metadata"]["trace"]["trace_ids"] == ["aa" * 16]


@pytest.mark.parametrize(
    "request_document", [REQUEST, logs_of(("aa", "01", "gen_ai.choice", {"message": {"content": "x"}}))]
)
def test_protobuf_has_the_items_of_json(request_document: dict[str, Any]) -> None:
    assert list(items_of_protobuf(to_protobuf(request_document))) == list(items_of_json(request_document))


def test_messages_in_log_records_belong_to_their_span(tmp_path: Path) -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 1,
        "gen_ai.usage.output_tokens": 2,
    }
    logs = logs_of(
        ("aa", "01", "gen_ai.user.message", {"content": "q"}),
        ("aa", "01", "gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": "a"}}),
        ("bb", "01", "gen_ai.choice", {"message": {"content": "of another trace"}}),
    )
    path = write_lines(tmp_path / "t.jsonl", logs, request_of(Sent(id="01", attributes=attributes)))
    (context,) = assay.read_traces(path)
    assert (context["test_case"]["input"], context["output"]["value"]) == ("q", "a")


def test_traces_of_a_conversation_are_one_case_and_others_are_not(tmp_path: Path) -> None:
    def turn(trace: str, **more: str) -> dict[str, Any]:
        spans = [Sent(id=one.id, parent=one.parent, trace=trace, start=one.start, end=one.end,
                      attributes={**one.attributes, **more}) for one in SPANS]  # fmt: skip
        return request_of(*spans)

    named = {"gen_ai.conversation.id": "talk-1"}
    path = write_lines(tmp_path / "t.jsonl", turn("aa", **named), turn("bb"), turn("cc", **named))
    contexts = assay.read_traces(path)
    assert [one["test_case"]["id"] for one in contexts] == ["talk-1", "bb" * 16]
    assert contexts[0]["output"]["metadata"]["trace"]["trace_ids"] == ["aa" * 16, "cc" * 16]


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(depth):
        value = {"arrayValue": {"values": [value]}}
    return value


BAD = {
    "another document": ({"spans": []}, "expected an OTLP export request with resourceSpans or resourceLogs, got an object with 'spans'"),
    "a list": ([], "expected an OTLP export request with resourceSpans or resourceLogs, got a list"),
    "an id in base64": (
        request_of(Sent(id="01", members={"traceId": "qqqqqqqqqqqqqqqqqqqqqg=="})),
        "resourceSpans[0].scopeSpans[0].spans[0].traceId: expected 32 hexadecimal digits that are not all 0, got 'qqqqqqqqqqqqqqqqqqqqqg=='",
    ),
    "an id of zeros": (request_of(Sent(id="00")), "spanId: expected 16 hexadecimal digits that are not all 0"),
    "a time that is no number": (
        request_of(Sent(id="01", members={"startTimeUnixNano": "now"})),
        "startTimeUnixNano: expected a number from 0 on, or its digits in a string, got 'now'",
    ),
    "spans that are no list": (
        {"resourceSpans": [{"scopeSpans": [{"spans": {}}]}]},
        "resourceSpans[0].scopeSpans[0].spans: expected a list, got an object",
    ),
    "a value of another kind": (
        request_of(Sent(id="01", members={"attributes": [{"key": "a", "value": {"text": "x"}}]})),
        "attributes[0].value.text: expected a value of OTLP, got a string",
    ),
    "a value that nests deep": (
        request_of(Sent(id="01", members={"attributes": [{"key": "a", "value": nested(70)}]})),
        "nested more than 64 deep",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("document", "message"), BAD.values(), ids=BAD)
def test_a_request_that_is_not_otlp_is_refused_with_its_place(
    document: Any, message: str, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "t.jsonl", REQUEST, document)
    with pytest.raises(assay.InvalidRequest) as refusal:
        assay.read_traces(path)
    assert message in str(refusal.value)
    assert f"{path}:2" in str(refusal.value)


def test_broken_protobuf_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.pb"
    path.write_bytes(to_protobuf(REQUEST)[:-7])
    with pytest.raises(assay.InvalidRequest, match="request 1: expected an OTLP export request"):
        assay.read_traces(path)


def test_a_file_of_another_kind_is_refused_with_the_kinds_there_are(tmp_path: Path) -> None:
    with pytest.raises(assay.UsageError, match=r"expected a file of traces that ends in \.json, \.jsonl"):
        assay.read_traces(tmp_path / "t.csv")


def test_spans_over_the_limit_are_counted_and_the_root_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_files, "MAX_SPANS", 4)
    many = [Sent(id=f"{at:02x}", parent="01") for at in range(0x20, 0x60)]
    (context,) = assay.read_traces(write_lines(tmp_path / "t.jsonl", request_of(*many, *SPANS)))
    metadata = context["output"]["metadata"]
    assert metadata["trace"]["span_id"] == "01" * 8
    assert metadata["missing"]["output.metadata.trajectory"] == f"{64} spans are over the limit and left out"


def test_memory_does_not_grow_with_the_number_of_traces(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"

    def peak(traces: int) -> int:
        with path.open("w") as file:
            for at in range(traces):
                spans = [{**one.document, "traceId": f"{at + 1:032x}"} for one in SPANS]
                file.write(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}) + "\n")
        tracemalloc.start()
        try:
            assert sum(1 for _ in trace_files.trace_items([str(path)], Limits())) == traces
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(400) < 1.5 * peak(100)


def test_memory_does_not_grow_with_the_spans_of_one_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, series: Callable[[int, int], int]
) -> None:
    """A million of them in `make soak`, and the limit of the product."""
    path, limit = tmp_path / "t.jsonl", series(100, trace_files.MAX_SPANS)
    monkeypatch.setattr(trace_files, "MAX_SPANS", limit)

    def peak(spans: int) -> int:
        with path.open("w") as file:
            file.write(json.dumps(REQUEST) + "\n")
            for at in range(0, spans, 100):
                tools = [{**TOOL, "spanId": f"{at + more + 1:016x}"} for more in range(100)]
                file.write(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": tools}]}]}) + "\n")
        tracemalloc.start()
        try:
            (context,) = assay.read_traces(path)
            left_out = spans + len(SPANS) - limit
            missing = context["output"]["metadata"]["missing"]["output.metadata.trajectory"]
            assert missing == f"{left_out} spans are over the limit and left out"
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few = 20 * limit
    assay.read_traces(one_json(tmp_path))  # imports
    assert peak(series(4 * few, 1_000_000)) < 1.5 * peak(few)


def test_an_attribute_that_is_too_large_is_refused_with_the_limit(
    tmp_path: Path, series: Callable[[int, int], int]
) -> None:
    size = series(1_000_000, 100_000_000)
    talk = Conversation(question="x" * size, answer="20 degrees")
    path = write_lines(tmp_path / "t.jsonl", request_of(*genai(talk)))
    limits = Limits(max_line_bytes=min(size, Limits().max_line_bytes))
    (item,) = trace_files.trace_items([str(path)], limits)
    (problem,) = item.problems
    assert f"longer than {limits.max_line_bytes} bytes, which is the limit for a line" in str(problem)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_check_scores_the_answer_of_a_trace(dialect: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t.jsonl", request_of(*DIALECTS[dialect](TALK)))
    result = assay.evaluate_sync(assay.read_traces(path), checks=[{"contains": "20"}, {"contains": "21"}])
    assert [one.results for one in result.results[0].check_results] == [{"passed": True}, {"passed": False}]
