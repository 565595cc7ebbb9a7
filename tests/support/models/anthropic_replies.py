"""What a model behind Anthropic's messages protocol says: messages with text, with the call of a tool, with usage."""

import json
from typing import Any


def words(value: Any) -> int:
    """Tokens of a value: its words."""
    return len(json.dumps(value).split())


def message(body: dict[str, Any], answer: Any) -> dict[str, Any]:
    """The answer as a call of the tool `reply`, if the request has one, else as a text."""
    if any(tool["name"] == "reply" for tool in body.get("tools", ())) and isinstance(answer, dict):
        content, reason = [tool_use("reply", answer)], "tool_use"
    else:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        content, reason = [{"type": "text", "text": text}], "end_turn"
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": usage(body["messages"], words(answer)),
    }


def tool_use(name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": arguments}


def usage(messages: list[dict[str, Any]], written: int) -> dict[str, Any]:
    """Blocks with a mark are read from the cache: the first request of a test finds it warm."""
    blocks = [block for one in messages if isinstance(one["content"], list) for block in one["content"]]
    cached = sum(len(block["text"].split()) for block in blocks if "cache_control" in block)
    plain = sum(len(str(block.get("text", "")).split()) for block in blocks if "cache_control" not in block)
    return {
        "input_tokens": plain,
        "output_tokens": written,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
    }


def messages_of() -> dict[str, dict[str, Any]]:
    """Steps of the provider by name: what of a message is other than usual."""
    text = {"type": "text", "text": "Let me think."}
    return {
        "spoken": {"content": [text, tool_use("reply", {"passed": True})]},
        "prose": {"content": [text], "stop_reason": "end_turn"},
        "textual": {"content": [{"type": "text", "text": '{"passed": true}'}], "stop_reason": "end_turn"},
        "length": {"content": [tool_use("reply", {})], "stop_reason": "max_tokens"},
        "context": {"content": [text], "stop_reason": "model_context_window_exceeded"},
        "refusal": {"content": [{"type": "text", "text": "I cannot judge this."}], "stop_reason": "refusal"},
        "silent": {"content": [], "stop_reason": "refusal"},
        "paused": {"content": [text], "stop_reason": "pause_turn"},
        "wrong": {"content": [tool_use("reply", {"unexpected": 1})]},
        "calls": {
            "content": [tool_use("shop_orders", {"id": 17}), tool_use("nowhere", [1])],
            "stop_reason": "tool_use",
        },
        "unused": {"usage": None},
        "misused": {"usage": {"input_tokens": -5, "output_tokens": "many"}},
        "written": {
            "usage": {
                "input_tokens": 10,
                "output_tokens": 10,
                "cache_read_input_tokens": 20,
                "cache_creation_input_tokens": 70,
            }
        },
    }
