"""
A model on this machine behind Anthropic's messages protocol: it asks the tool `orders` for the number in the question,
and then says what it answered. It streams, as Claude Code asks it to.

    with ScriptedMessages() as model: ...     # model.url
"""

import json
import re

from support.servers.thread_server import Handler, HandlerServer

USAGE = {"input_tokens": 40, "output_tokens": 8}


class ScriptedMessages(HandlerServer):
    def __init__(self):
        super().__init__(Messages)


class Messages(Handler):
    def do_HEAD(self):
        self.send(200, headers={"Content-Type": "text/plain"})

    def do_POST(self):
        body = json.loads(self.body())
        if not body.get("stream"):
            self.send(200, json.dumps({"input_tokens": 40}).encode(), {"Content-Type": "application/json"})
            return
        events = [
            {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [],
             "model": body["model"], "stop_reason": None, "stop_sequence": None, "usage": USAGE}},
            *block_events(body),
            {"type": "message_stop"},
        ]  # fmt: skip
        lines = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events]
        self.send(200, "".join(lines).encode(), {"Content-Type": "text/event-stream"})


def block_events(body):
    """A call of the tool, or a text."""
    conversation = json.dumps(body["messages"])
    number, state = re.search(r"order (\d+)", conversation), re.search(r"lost|sent", conversation)
    tool = next((one["name"] for one in body.get("tools", ()) if one["name"].endswith("orders")), None)
    if tool and number and "tool_result" not in conversation:
        begin = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps({"number": int(number[1])})}
    else:
        text = f"Your order was {state[0]}." if "tool_result" in conversation else "Which order do you mean?"
        begin, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
    reason = "tool_use" if begin["type"] == "tool_use" else "end_turn"
    return [
        {"type": "content_block_start", "index": 0, "content_block": begin},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": USAGE},
    ]
