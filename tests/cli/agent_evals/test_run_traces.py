"""`assay run --traces`: the trajectory of a task comes from the spans of an agent in a process of its own."""

import asyncio
import json
import os
import shlex
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from assay.agenteval.scoring.traced_trial import read_trace
from assay.backends.agents.command import CommandAgent
from assay.ports.telemetry import agent_traceparent, trace_context
from assay.protocol.agents import AgentCard, ToolCalled, Usage, UsageStep
from assay.traces.otlp import items_of_json
from assay.traces.span_receiver import ExpectedSpans, SpanReceiver
from assay.traces.trace_case import SpanGroup
from support.traces.conversations import Conversation, ToolUse, genai
from support.traces.otlp import request_of
from support.traces.receivers import Receiver

AGENT = Path(__file__).parents[2] / "support" / "agents" / "instrumented.py"
COMMAND = shlex.join([sys.executable, str(AGENT)])


def suite_of(*tasks, **extension):
    fixtures = {"toolResponses": [{"tool": "weather", "response": {}}]}
    return {
        "suiteId": "local.x.evals.traced",
        "version": "1.0.0",
        "modes": ["golden"],
        "tasks": [
            {
                "taskId": name,
                "input": name,
                "expected": {"kind": "golden", "match": {"strategy": "contains", "value": "degrees"}},
                "fixtures": fixtures,
            }
            for name in tasks
        ],
        "x-assay": {"tasks": dict.fromkeys(tasks, extension)},
    }


WEATHER = {"must_call": [{"tool": "weather", "arguments": {"city": "Paris"}}]}


def results(command, folder):
    assert command("export", "latest", "-o", "out.jsonl", folder=folder).code == 0
    lines = (folder / "out.jsonl").read_text().splitlines()
    return {
        one["execution_context"]["test_case"]["id"]: one for one in map(json.loads, lines) if "status" in one
    }


def test_a_command_is_measured_by_its_spans_and_one_without_spans_is_not_measured(command, tmp_path):
    suite = suite_of("weather", "silent", "hidden", "stranger", **WEATHER)
    suite["x-assay"]["tasks"]["free"] = {"must_call": ["weather"]}
    suite["tasks"].append(suite["tasks"][0] | {"taskId": "free", "input": "hidden"})
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    done = command("run", "suite.json", "--agent", f"cmd:{COMMAND}", "--traces", folder=tmp_path)
    assert done.code == 1
    found = results(command, tmp_path)
    assert found["weather"]["status"] == "completed"
    metadata = found["weather"]["execution_context"]["output"]["metadata"]
    assert metadata["tool_calls"] == [{"tool": "weather", "arguments": {"city": "Paris"}}]
    assert (metadata["tokens"], metadata["trace"]["model_calls"]) == (40, 1)
    assert metadata["cost_usd"] > 0
    reasons = {
        name: one["check_results"][0]["error"]["message"]
        for name, one in found.items()
        if one["status"] == "error"
    }
    assert {name: reason.partition("finds nothing: ")[2] for name, reason in reasons.items()} == {
        "silent": "no spans came",
        "hidden": "1 tool calls have no arguments",
        "stranger": "no spans came",
    }
    assert [line for line in done.messages if "--traces" in line] == [
        "assay: --traces: no spans came for 2 of 5 trials",
        "assay: --traces: 3 spans belong to no task of this run; does the agent continue the trace of its "
        "traceparent?",
    ]
    with Receiver() as receiver:
        sent = command("export", "latest", "--to", f"otlp={receiver.url}", folder=tmp_path)
    assert (sent.code, sent.messages) == (
        0,
        [f"assay: --to otlp={receiver.url}: 2 results without a trace not sent"],
    )
    assert metadata["trace"]["trace_ids"][0] in {one["trace"] for one in receiver.events}
    assert {one.get("gen_ai.response.id") for one in receiver.events} == {"resp-1"}


def test_an_attack_without_spans_is_not_measured_at_all(command, tmp_path):
    """What an agent did is not known: no detector may say that the attack failed."""
    suite = suite_of("weather", "silent") | {"modes": ["adversarial"]}
    del suite["x-assay"]
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    done = command(
        *("run", "suite.json", "--agent", f"cmd:{COMMAND}", "--traces", "--mode", "adversarial"),
        folder=tmp_path,
    )
    assert done.code == 1, done.err
    found = results(command, tmp_path)
    assert {name: one["status"] for name, one in found.items()} == {"weather": "completed", "silent": "error"}
    assert "no spans came for 1 of 2 trials" in done.err


def test_an_endpoint_is_measured_by_its_spans(command, tmp_path):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "suite.json").write_text(json.dumps(suite_of("weather", **WEATHER)))
        arguments = ("run", "suite.json", "--traces", "--traces-port", str(port), "--agent")
        refused = command(*arguments, "http://127.0.0.1:1/agent", folder=tmp_path)
    assert refused.code == 2
    assert f"--traces: expected the free port {port} on 127.0.0.1" in refused.err
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_BSP_SCHEDULE_DELAY": "50"}
    with subprocess.Popen(
        [sys.executable, str(AGENT), "serve"], stdout=subprocess.PIPE, env=os.environ | settings, text=True
    ) as agent:
        try:
            url = f"http://127.0.0.1:{agent.stdout.readline().strip()}/agent"
            done = command(*arguments, url, "--checks", "checks.json", "--trials", "2", folder=tmp_path)
            assert done.code == 2  # no such file
            checks = [{"tool_calls": ["weather"]}, {"type": "threshold", "arguments": {"value": "$.output.metadata.tokens", "max_value": 40}}]  # fmt: skip
            (tmp_path / "checks.json").write_text(json.dumps(checks))
            done = command(*arguments, url, "--checks", "checks.json", "--trials", "2", folder=tmp_path)
        finally:
            agent.kill()
    assert (done.code, done.messages) == (0, []), done.err
    assert "tool_calls" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--traces-port", "4000"), "--traces-port: expected --traces with it"),
        (("--traces", "--server", "http://x"), "--traces and --server: expected one of them, got both"),
        (("--traces",), "--traces: expected an agent that is an HTTP address or cmd:COMMAND"),
    ],
)
def test_traces_are_refused_where_no_spans_can_come(command, tmp_path, arguments, message):
    (tmp_path / "suite.json").write_text(json.dumps(suite_of("weather")))
    (tmp_path / "bot.py").write_text("def answer(task): return 'degrees'\n")
    refused = command("run", "suite.json", "--agent", "bot:answer", *arguments, folder=tmp_path)
    assert (refused.code, refused.out) == (2, "")
    assert message in refused.err


def test_a_command_has_a_traceparent_and_with_a_receiver_its_endpoint(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://elsewhere")
    script = "import json, os; print(json.dumps({'type': 'result', 'result': dict(os.environ)}))"
    card = AgentCard(agent_id="local.x.y", kind="command")
    agent = CommandAgent(card, shlex.join([sys.executable, "-c", script]))

    class Context:
        invocation_id, messages, tools, remaining_seconds = "i", (), (), 60.0

    async def environment():
        return (await agent.invoke("task", Context())).result

    async def main():
        plain = await environment()
        with SpanReceiver("http://127.0.0.1:9", 1).expect() as expected:
            traced = await environment()
        with trace_context(f"00-{'a' * 32}-{'b' * 16}-01"):
            return plain, traced, expected.trace_id, await environment()

    plain, traced, trace, within = asyncio.run(main())
    assert plain["TRACEPARENT"].startswith("00-")
    assert plain["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] == "http://elsewhere"
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" not in plain
    assert traced["TRACEPARENT"].split("-")[1] == trace != plain["TRACEPARENT"].split("-")[1]
    assert traced["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://127.0.0.1:9"
    assert traced["OTEL_EXPORTER_OTLP_PROTOCOL"] == "http/protobuf"
    assert "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" not in traced
    assert within["TRACEPARENT"] == f"00-{'a' * 32}-{'b' * 16}-01"


TALK = Conversation(
    question="q", answer="a", uses=(ToolUse(name="weather", arguments={"city": "Paris"}, result={"c": 1}),)
)


def spans(trace, parent):
    """The spans of a conversation below a span of ours."""
    document = request_of(*genai(TALK))
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        span["traceId"] = trace
        if "parentSpanId" not in span:
            span["parentSpanId"] = parent
    return list(items_of_json(document))


def test_spans_are_waited_for_until_each_call_has_its_root():
    """Two calls of the agent, of a task with two turns; the spans of the second come later, its root last."""

    async def main():
        receiver = SpanReceiver("http://127.0.0.1:9", 120)
        with receiver.expect() as expected:
            first, second = (agent_traceparent().split("-")[2] for _ in range(2))
            receiver.add(spans(expected.trace_id, first), 100)
            assert not expected.complete
            waiting = asyncio.create_task(receiver.spans_of(expected))
            root, *others = spans(expected.trace_id, second)
            for one in (*others, root):
                assert not waiting.done()
                receiver.add([one], 100)
                await asyncio.sleep(0)
            group = await waiting
            assert isinstance(expected, ExpectedSpans)
        receiver.add([root], 1)
        receiver.add(spans("ee" * 16, "01" * 8), 1)
        return receiver, group

    receiver, group = asyncio.run(main())
    assert [span.parent for span in group.spans].count("") == 2
    assert (receiver.late, receiver.foreign, receiver.empty) == (1, 4, 0)


def test_what_was_recorded_and_is_in_spans_counts_once():
    items = spans("aa" * 16, "")
    recorded = [
        ToolCalled(call_id="call-1", tool="shop:weather", inputs={"city": "Paris"}, at_ms=1),
        UsageStep(usage=Usage(provider="x", model="y", input_tokens=1, output_tokens=1), at_ms=2),
    ]
    traced = read_trace(SpanGroup(items), recorded, [], lambda name: f"shop:{name}", None)
    calls = [step for step in traced.steps if isinstance(step, ToolCalled)]
    usages = [step.usage for step in traced.steps if isinstance(step, UsageStep)]
    assert (calls, traced.attempts) == (recorded[:1], [])
    assert sum(one.input_tokens for one in usages) == 20
    alone = read_trace(SpanGroup(items), [], [], lambda name: name, None)
    assert [(one.tool, one.arguments, one.outcome) for one in alone.attempts] == [
        ("weather", {"city": "Paris"}, "ok")
    ]
    assert alone.metadata["trace"]["trace_ids"] == ["aa" * 16]
