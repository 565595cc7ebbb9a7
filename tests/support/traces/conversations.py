"""One conversation of an agent with tools, told in each of the four dialects."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from support.traces.otlp import Sent


class ToolUse(Struct, kw_only=True, frozen=True):
    name: str
    arguments: dict[str, Any]
    result: Any


class Conversation(Struct, kw_only=True, frozen=True):
    """A question, one tool call for each model call but the last, and the answer."""

    question: str
    answer: str
    uses: tuple[ToolUse, ...] = ()
    tokens: tuple[int, int] = (10, 5)  # of each model call

    @property
    def history(self) -> list[list[dict[str, Any]]]:
        """The messages before each model call, in the form of a case."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": self.question}]
        found = [list(messages)]
        for at, use in enumerate(self.uses):
            asked = {"id": f"call-{at}", "name": use.name, "arguments": use.arguments}
            messages += [
                {"role": "assistant", "content": None, "tool_calls": [asked]},
                {"role": "tool", "content": use.result, "tool_call_id": f"call-{at}"},
            ]
            found.append(list(messages))
        return found

    def reply(self, at: int) -> dict[str, Any]:
        """The message that model call `at` returns."""
        if at == len(self.uses):
            return {"role": "assistant", "content": self.answer}
        return self.history[-1][1 + 2 * at]


Write = Callable[[Conversation], list[Sent]]


def _tree(
    talk: Conversation, model: Callable[[int], Any], tool: Callable[[int], Any], root: dict[str, Any]
) -> list[Sent]:
    """A root with its model calls and tool calls in turn. The root repeats the sum of the tokens, as agents do."""
    spans = [Sent(id="01", name="agent", start=0, end=1_000, attributes=root)]
    for at in range(len(talk.uses) + 1):
        attributes, events = model(at)
        start = 10 + at * 20
        spans.append(
            Sent(
                id=f"{16 + at:02x}",
                parent="01",
                start=start,
                end=start + 5,
                attributes=attributes,
                events=events,
            )
        )
        if at < len(talk.uses):
            attributes, events = tool(at)
            start += 10
            spans.append(
                Sent(
                    id=f"{96 + at:02x}",
                    parent="01",
                    start=start,
                    end=start + 5,
                    attributes=attributes,
                    events=events,
                )
            )
    return spans


def _usage(talk: Conversation) -> dict[str, Any]:
    sent, received = talk.tokens
    return {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": sent, "gen_ai.usage.output_tokens": received,
    }  # fmt: skip


def _sum(talk: Conversation) -> dict[str, Any]:
    calls = len(talk.uses) + 1
    sent, received = talk.tokens
    return {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": sent * calls,
        "gen_ai.usage.output_tokens": received * calls,
    }  # fmt: skip


def genai(talk: Conversation) -> list[Sent]:
    def parts(message: dict[str, Any]) -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        if message["role"] == "tool":
            answer = {
                "type": "tool_call_response",
                "id": message["tool_call_id"],
                "response": message["content"],
            }
            return {"role": "tool", "parts": [answer]}
        if message["content"] is not None:
            found.append({"type": "text", "content": message["content"]})
        found += [{"type": "tool_call", **call} for call in message.get("tool_calls", ())]
        return {"role": message["role"], "parts": found}

    def model(at: int) -> Any:
        return {
            **_usage(talk),
            "gen_ai.input.messages": json.dumps([parts(one) for one in talk.history[at]]),
            "gen_ai.output.messages": json.dumps([{**parts(talk.reply(at)), "finish_reason": "stop"}]),
        }, []

    def tool(at: int) -> Any:
        use = talk.uses[at]
        return {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": use.name, "gen_ai.tool.call.id": f"call-{at}",
            "gen_ai.tool.call.arguments": json.dumps(use.arguments), "gen_ai.tool.call.result": json.dumps(use.result),
        }, []  # fmt: skip

    return _tree(talk, model, tool, _sum(talk))


def events(talk: Conversation) -> list[Sent]:
    def flat(message: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if message["content"] is not None:
            text = message["content"]
            found["content"] = (
                text if isinstance(text, str) and message["role"] != "tool" else json.dumps(text)
            )
        if "tool_calls" in message:
            found["tool_calls"] = json.dumps([_function(call) for call in message["tool_calls"]])
        return found | ({"id": message["tool_call_id"]} if "tool_call_id" in message else {})

    def model(at: int) -> Any:
        found = [(f"gen_ai.{one['role']}.message", flat(one)) for one in talk.history[at]]
        return _usage(talk), [*found, ("gen_ai.choice", {"message": json.dumps(_chat(talk.reply(at)))})]

    return _tree(talk, model, lambda at: genai_tool(talk, at), _sum(talk))


def genai_tool(talk: Conversation, at: int) -> Any:
    """The span of a tool, without content: the messages have it."""
    use = talk.uses[at]
    named = {"gen_ai.tool.name": use.name, "gen_ai.tool.call.id": f"call-{at}"}
    return {"gen_ai.operation.name": "execute_tool", **named}, []


def _function(call: dict[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
    return {"id": call["id"], "type": "function", "function": function}


def _chat(message: dict[str, Any]) -> dict[str, Any]:
    calls = [_function(call) for call in message.get("tool_calls", ())]
    return {
        "role": message["role"],
        "content": message["content"],
        **({"tool_calls": calls} if calls else {}),
    }


def openinference(talk: Conversation) -> list[Sent]:
    def flat(prefix: str, messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for at, one in enumerate(messages):
            start = f"{prefix}.{at}.message"
            found[f"{start}.role"] = one["role"]
            if one["content"] is not None:
                found[f"{start}.content"] = (
                    one["content"] if one["role"] != "tool" else json.dumps(one["content"])
                )
            for number, call in enumerate(one.get("tool_calls", ())):
                inner = f"{start}.tool_calls.{number}.tool_call"
                found[f"{inner}.id"], found[f"{inner}.function.name"] = call["id"], call["name"]
                found[f"{inner}.function.arguments"] = json.dumps(call["arguments"])
            if "tool_call_id" in one:
                found[f"{start}.tool_call_id"] = one["tool_call_id"]
        return found

    def model(at: int) -> Any:
        sent, received = talk.tokens
        return {
            "openinference.span.kind": "LLM", "llm.model_name": "gpt-4o-mini", "llm.provider": "openai",
            "llm.token_count.prompt": sent, "llm.token_count.completion": received,
            **flat("llm.input_messages", talk.history[at]), **flat("llm.output_messages", [talk.reply(at)]),
        }, []  # fmt: skip

    def tool(at: int) -> Any:
        use = talk.uses[at]
        return {
            "openinference.span.kind": "TOOL", "tool.name": use.name, "input.value": json.dumps(use.arguments),
            "output.value": json.dumps(use.result), "tool_call.id": f"call-{at}",
        }, []  # fmt: skip

    return _tree(talk, model, tool, {"openinference.span.kind": "AGENT"})


def gcp(talk: Conversation) -> list[Sent]:
    def content(message: dict[str, Any]) -> dict[str, Any]:
        if message["role"] == "tool":
            response = {"id": message["tool_call_id"], "name": "t", "response": message["content"]}
            return {"role": "user", "parts": [{"function_response": response}]}
        parts: list[dict[str, Any]] = []
        if message["content"] is not None:
            parts.append({"text": message["content"]})
        parts += [
            {"function_call": {"id": call["id"], "name": call["name"], "args": call["arguments"]}}
            for call in message.get("tool_calls", ())
        ]
        return {"role": "model" if message["role"] == "assistant" else "user", "parts": parts}

    def model(at: int) -> Any:
        sent, received = talk.tokens
        usage = {"prompt_token_count": sent, "candidates_token_count": received}
        asked = {"model": "gpt-4o-mini", "config": {}, "contents": [content(one) for one in talk.history[at]]}
        return {
            "gen_ai.system": "openai", "gcp.vertex.agent.llm_request": json.dumps(asked),
            "gcp.vertex.agent.llm_response": json.dumps({"content": content(talk.reply(at)), "usage_metadata": usage}),
        }, []  # fmt: skip

    def tool(at: int) -> Any:
        use = talk.uses[at]
        return {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": use.name, "gen_ai.tool.call.id": f"call-{at}",
            "gcp.vertex.agent.tool_call_args": json.dumps(use.arguments),
            "gcp.vertex.agent.tool_response": json.dumps(use.result),
        }, []  # fmt: skip

    return _tree(talk, model, tool, {"gen_ai.operation.name": "invoke_agent"})


DIALECTS: dict[str, Write] = {
    "gen_ai": genai,
    "gen_ai events": events,
    "openinference": openinference,
    "gcp.vertex.agent": gcp,
}
