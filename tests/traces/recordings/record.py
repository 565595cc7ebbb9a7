"""
Records traces of real frameworks with their own instrumentation, against a scripted model.

    python tests/traces/recordings/record.py pydantic_ai

Run it in an environment with the framework, `opentelemetry-sdk` and `opentelemetry-exporter-otlp-proto-common`. Each
agent is asked for the weather in Paris, calls its tool once and answers.
"""

# pyright: basic, reportMissingImports=false

import base64
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

QUESTION, ANSWER = "How warm is it in Paris?", "It is 20 degrees in Paris."
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}


class Model(BaseHTTPRequestHandler):
    """A model that asks for the tool, and answers when it has the result."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        done = any(one.get("role") == "tool" for one in asked["messages"])
        message: dict[str, Any] = {"role": "assistant", "content": ANSWER if done else None}
        message |= {} if done else {"tool_calls": [CALL]}
        reason = "stop" if done else "tool_calls"
        usage = {
            "prompt_tokens": 31 if done else 20,
            "completion_tokens": 9 if done else 5,
            "total_tokens": 40,
        }
        head = {"id": "chatcmpl-1", "created": 1780000000, "model": "gpt-4o-mini-2024-07-18"}
        if asked.get("stream"):
            delta = dict(message)
            if not done:
                delta["tool_calls"] = [{"index": 0, **CALL}]
            chunks = [
                {"index": 0, "delta": delta, "finish_reason": None},
                {"index": 0, "delta": {}, "finish_reason": reason},
            ]
            lines = [{**head, "object": "chat.completion.chunk", "choices": [one]} for one in chunks]
            lines.append({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage})
            body = "".join(f"data: {json.dumps(one)}\n\n" for one in lines) + "data: [DONE]\n\n"
            kind = "text/event-stream"
        else:
            choices = [{"index": 0, "message": message, "finish_reason": reason}]
            body = json.dumps({**head, "object": "chat.completion", "choices": choices, "usage": usage})
            kind = "application/json"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        pass


def weather(city: str) -> dict[str, Any]:
    """How warm it is in a city."""
    return {"celsius": 20, "city": city}


def pydantic_ai(url: str) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    Agent.instrument_all()
    model = OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(base_url=url, api_key="none"))
    agent = Agent(model, name="travel", instructions="Be short.", tools=[weather])
    assert agent.run_sync(QUESTION).output == ANSWER


def openai_agents(url: str) -> None:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
    from openai import AsyncOpenAI
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    OpenAIAgentsInstrumentor().instrument()
    model = OpenAIChatCompletionsModel("gpt-4o-mini", AsyncOpenAI(base_url=url, api_key="none"))
    agent = Agent("travel", instructions="Be short.", model=model, tools=[function_tool(weather)])
    assert Runner.run_sync(agent, QUESTION).final_output == ANSWER


def strands(url: str) -> None:
    from strands import Agent, tool
    from strands.models.openai import OpenAIModel

    model = OpenAIModel(client_args={"base_url": url, "api_key": "none"}, model_id="gpt-4o-mini")
    agent = Agent(
        model=model, name="travel", system_prompt="Be short.", tools=[tool(weather)], callback_handler=None
    )
    assert str(agent(QUESTION)).strip() == ANSWER


def google_adk(url: str) -> None:
    import asyncio

    from google.adk.agents import LlmAgent
    from google.adk.models.lite_llm import LiteLlm
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    model = LiteLlm("openai/gpt-4o-mini", api_base=url, api_key="none")
    agent = LlmAgent(name="travel", model=model, instruction="Be short.", tools=[weather])

    async def run() -> str:
        runner = InMemoryRunner(agent=agent, app_name="travel")
        session = await runner.session_service.create_session(app_name="travel", user_id="u")
        message = types.Content(role="user", parts=[types.Part(text=QUESTION)])
        text = ""
        async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            parts = event.content.parts if event.content else []
            text = "".join(part.text or "" for part in parts or []) or text
        return text

    assert asyncio.run(run()) == ANSWER


RECORDED = {
    "pydantic_ai": pydantic_ai,
    "openai_agents": openai_agents,
    "strands": strands,
    "google_adk": google_adk,
    "google_adk_1": google_adk,
    "google_adk_without_content": google_adk,
}
ENVIRONMENTS = {
    "google_adk": {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY"},
    "google_adk_1": {"ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN": "1"},
}


def main(name: str) -> None:
    from google.protobuf.json_format import MessageToDict
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "travel"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ |= {"OPENAI_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "true"}
    os.environ |= ENVIRONMENTS.get(name, {})
    RECORDED[name](f"http://127.0.0.1:{server.server_address[1]}/v1")
    provider.force_flush()
    server.shutdown()

    def hexadecimal(node: Any) -> Any:
        if isinstance(node, list):
            return [hexadecimal(one) for one in node]
        if not isinstance(node, dict):
            return node
        ids = ("traceId", "spanId", "parentSpanId")
        return {
            key: base64.b64decode(one).hex() if key in ids else hexadecimal(one) for key, one in node.items()
        }

    request = hexadecimal(MessageToDict(encode_spans(exporter.get_finished_spans())))
    path = Path(__file__).with_name(f"{name}.json")
    path.write_text(json.dumps(request, indent=1) + "\n")
    sys.stdout.write(f"{path.name}: {len(exporter.get_finished_spans())} spans\n")


if __name__ == "__main__":
    main(sys.argv[1])
