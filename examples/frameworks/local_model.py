"""
A model without a key, for these examples: OpenAI's chat protocol on this machine, with scripted answers.

`MODEL_URL` in the environment names a real endpoint instead, with `MODEL_KEY` and `MODEL_NAME`.
"""

import json
import os
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Script(BaseHTTPRequestHandler):
    """Asks the tool `orders` for the number in the question, and then says what it answered."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = [_text(message) for message in body["messages"]]
        roles = [message["role"] for message in body["messages"]]
        question = next(text for text, role in zip(texts, roles, strict=True) if role == "user")
        answered = roles[-1] == "tool" or texts[-1].startswith("Observation")
        number = re.search(r"\d+", question)
        if number and not answered:
            message = _call("orders", {"number": int(number[0])})
        else:
            state = re.search(r"lost|sent", texts[-1]) if answered else None
            say = f"Your order was {state[0]}." if state else "Which order do you mean?"
            tools = [tool["function"]["name"] for tool in body.get("tools", ())]
            ends = "final_answer" in tools  # smolagents ends with a call
            message = (
                _call("final_answer", {"answer": say}) if ends else {"role": "assistant", "content": say}
            )
        self._send(body, message)

    def _send(self, body, message):
        reason = "tool_calls" if "tool_calls" in message else "stop"
        usage = {"prompt_tokens": 40, "completion_tokens": 8, "total_tokens": 48}
        reply = {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"], "usage": usage}
        choice = {"index": 0, "finish_reason": reason}
        if body.get("stream"):
            first = reply | {"object": "chat.completion.chunk", "usage": None}
            chunks = [
                first | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
                first | {"choices": [choice | {"delta": {}}]},
                reply | {"object": "chat.completion.chunk", "choices": []},
            ]
            data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        else:
            data = json.dumps(reply | {"choices": [choice | {"message": message}]})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if body.get("stream") else "application/json")
        self.send_header("Content-Length", str(len(data.encode())))
        self.end_headers()
        self.wfile.write(data.encode())

    def log_message(self, *_):
        pass


def _text(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _call(name, arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _serve():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Script)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}/v1"


URL = os.environ.get("MODEL_URL") or _serve()
KEY = os.environ.get("MODEL_KEY") or "none"
NAME = os.environ.get("MODEL_NAME") or "scripted"
