"""
A model on this machine behind Anthropic's messages protocol: it asks the tool `orders` for the number in the question,
and then says what it answered. It streams, as Claude Code asks it to.

    with ScriptedMessages() as model: ...     # model.url
"""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USAGE = {"input_tokens": 40, "output_tokens": 8}


class ScriptedMessages:
    def __enter__(self):
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self._send(b"", "text/plain")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not body.get("stream"):
            self._send(json.dumps({"input_tokens": 40}).encode(), "application/json")
            return
        events = [
            {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [],
             "model": body["model"], "stop_reason": None, "stop_sequence": None, "usage": USAGE}},
            *block_events(body),
            {"type": "message_stop"},
        ]  # fmt: skip
        lines = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events]
        self._send("".join(lines).encode(), "text/event-stream")

    def _send(self, data, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format, *args):
        pass


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
