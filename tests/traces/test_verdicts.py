"""A result of a trace as verdicts about its span: what they have, and that they have no content unless it is allowed."""

import json

import msgspec
import pytest

import assay
from assay.traces.verdicts import verdicts_of
from support.traces.conversations import DIALECTS, Conversation, ToolUse
from support.traces.otlp import Sent, request_of

CANARY = "canary-7f3a"
TALK = Conversation(
    question=f"{CANARY} question",
    answer=f"{CANARY} answer",
    uses=(ToolUse(name="lookup", arguments={"id": CANARY}, result={"found": CANARY}),),
)
CHECKS = [
    {"name": "polite", "type": "contains", "arguments": {"text": "$.output.value", "phrases": ["please"]}},
    {"contains": "answer"},
    {"type": "threshold", "arguments": {"value": "$.output.metadata.nothing", "max_value": 1}},
]


def results_of(spans, folder, checks=CHECKS):
    path = folder / "traces.json"
    path.write_text(json.dumps(request_of(*spans)))
    run = assay.evaluate_sync(assay.read_traces(path), checks=checks)
    return [msgspec.to_builtins(one) for one in run.results]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_verdict_belongs_to_the_judged_span_and_has_no_content(dialect, tmp_path):
    spans = DIALECTS[dialect](TALK)
    for at, span in enumerate(spans):
        if "gen_ai.operation.name" in span.attributes:
            span.attributes["gen_ai.response.id"] = f"resp-{at}"
    (result,) = results_of(spans, tmp_path)
    verdicts = verdicts_of(result, "run-1", 0, explanations=False)
    trace = result["execution_context"]["output"]["metadata"]["trace"]
    assert {(one.trace_id, one.span_id) for one in verdicts} == {("aa" * 16, trace["judged_span_id"])}
    assert [(one.name, one.label, one.score, one.error_type) for one in verdicts] == [
        ("polite", "fail", 0.0, None),
        ("contains", "pass", 1.0, None),
        ("threshold", None, None, "jsonpath_error"),
    ]
    assert {one.response_id for one in verdicts} == {trace.get("response_id")}
    assert CANARY not in repr(verdicts)
    with_explanations = verdicts_of(result, "run-1", 0, explanations=True)
    assert CANARY in with_explanations[0].explanation
    assert [one.uid for one in with_explanations] == [one.uid for one in verdicts]


def test_ids_are_those_of_one_result_of_one_run(tmp_path):
    (result,) = results_of(DIALECTS["gen_ai"](TALK), tmp_path)
    uids = [
        one.uid
        for run, ordinal in (("run-1", 0), ("run-1", 1), ("run-2", 0))
        for one in verdicts_of(result, run, ordinal, explanations=False)
    ]
    assert len(set(uids)) == 9
    again = verdicts_of(result, "run-1", 0, explanations=False)
    assert [one.uid for one in again] == uids[:3]


def test_a_conversation_is_judged_at_its_last_trace(tmp_path):
    def turn(trace, start):
        talk = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "talk-1"}
        return Sent(id="01", trace=trace, start=start, end=start + 5, attributes=talk)

    (result,) = results_of([turn("bb", 500), turn("aa", 0)], tmp_path)
    assert {one.trace_id for one in verdicts_of(result, "run-1", 0, explanations=False)} == {"bb" * 16}


def test_a_skipped_check_is_not_measured(tmp_path):
    (result,) = results_of(DIALECTS["gen_ai"](TALK), tmp_path)
    check = result["check_results"][0]
    check |= {"status": "skip", "results": {}}
    (verdict, *_) = verdicts_of(result, "run-1", 0, explanations=False)
    assert (verdict.label, verdict.score, verdict.error_type) == (None, None, "skipped")


@pytest.mark.parametrize(
    "trace",
    [
        None,
        {},
        [],
        "aa",
        {"trace_ids": [], "span_id": "01" * 8},
        {"trace_ids": ["aa" * 16]},
        {"trace_ids": ["zz" * 16], "span_id": "01" * 8},
        {"trace_ids": ["aa" * 16], "span_id": 7},
        {"trace_ids": [{}], "span_id": "01" * 8},
    ],
)
def test_an_output_without_ids_of_a_span_has_no_verdict(trace, tmp_path):
    (result,) = results_of(DIALECTS["gen_ai"](TALK), tmp_path)
    result["execution_context"]["output"]["metadata"]["trace"] = trace
    assert verdicts_of(result, "run-1", 0, explanations=True) == []
