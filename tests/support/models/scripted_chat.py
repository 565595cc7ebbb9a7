"""
A model on this machine behind OpenAI's chat protocol. The last message of the user says what it does. Standard library
only: it runs inside the environments of frameworks.

    with ScriptedChat() as model: ...     # model.url, model.requests

| message | the model |
|---|---|
| `say TEXT` | says it |
| `call TOOL {ARGUMENTS}` | calls the tool, then says its answer |
| `count` | says how many messages of users the conversation has |
| `together N` | answers when N such requests wait, with all that follows the number |
| `hang` | does not answer |
| `nothing` | says an empty text |
| `refuse` | answers with status 400 |
| `shape {OBJECT}` | answers with the object, as the request asks for structured output |
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

IN, OUT = 11, 7  # tokens of every call
MODEL = "scripted-1"
PATIENCE = 60.0  # seconds
TASK = "New task:\n"  # smolagents says with it what a user said, also after a result in the same message
RESULTS = ("Observation:", "Error:", "Call id:")  # smolagents says with these what a tool answered


class ScriptedChat:
    def __init__(self):
        self.requests = []
        self.asked = threading.Event()
        self.left = threading.Event()  # a client gave up a request that hangs
        self.closing = threading.Event()
        self._together = threading.Condition()
        self._waiting = 0
        chat = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                chat.requests.append(body)
                chat.asked.set()
                chat.answer(self, body)

            def log_message(self, format, *args):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 200

            def handle_error(self, request, client_address):  # a client that went away
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler, body):
        questions, results = _conversation(body["messages"])
        verb, _, rest = questions[-1].partition(" ")
        if verb == "refuse":
            return _send(handler, 400, {"error": {"message": "this request is refused", "type": "bad"}})
        if verb == "hang":
            return self._hang(handler)
        if verb == "together":
            number, _, rest = rest.partition(" ")
            self._wait_for(int(number))
        if verb == "call" and not results:
            name, _, arguments = rest.partition(" ")
            return _reply(handler, body, call=(name, arguments or "{}"))
        text = {"call": results[-1] if results else "", "count": str(len(questions)), "nothing": ""}.get(
            verb, rest
        )
        names = {tool["function"]["name"] for tool in body.get("tools", ())}
        if verb == "shape" and (output := names & {"final_result", "set_model_response", "Order"}):
            return _reply(handler, body, call=(output.pop(), rest))
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
        if verb == "shape" and list(schema.get("properties", ())) == ["response"]:
            text = json.dumps({"response": json.loads(rest)})
        if "final_answer" in names:  # smolagents ends with a call
            answer = json.loads(rest) if verb == "shape" else text
            return _reply(handler, body, call=("final_answer", json.dumps({"answer": answer})))
        return _reply(handler, body, text=text)

    def _wait_for(self, number):
        with self._together:
            self._waiting += 1
            self._together.notify_all()
            self._together.wait_for(lambda: self._waiting >= number, PATIENCE)

    def _hang(self, handler):
        """Until the client goes away or the test ends."""
        handler.connection.settimeout(0.05)
        while not self.closing.is_set():
            try:
                if handler.connection.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        self.left.set()
        handler.close_connection = True


def _conversation(messages):
    """What the users asked, and what tools answered after the last of them."""
    questions, results = [], []
    for message in messages:
        text = _text(message.get("content"))
        for part in text.split(TASK) if message["role"] == "user" else ():
            if part.startswith(RESULTS):
                results.append(part)
            elif part.strip():
                questions.append(part.strip())
                results = []
        if message["role"] == "tool":
            results.append(text)
    return questions, results


def _text(content):
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _reply(handler, body, *, text=None, call=None):
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if call is not None:
        name, arguments = call
        message["tool_calls"] = [
            {
                "id": f"call_{time.monotonic_ns()}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
        ]
    reason = "stop" if call is None else "tool_calls"
    usage = {"prompt_tokens": IN, "completion_tokens": OUT, "total_tokens": IN + OUT}
    shared = {"id": "chatcmpl-1", "created": 1, "model": body["model"]}
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return _send(
            handler, 200, {**shared, "object": "chat.completion", "choices": [choice], "usage": usage}
        )
    shared["object"] = "chat.completion.chunk"
    for call in message.get("tool_calls", ()):
        call["index"] = 0
    choices = [
        {"index": 0, "delta": message, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": reason},
    ]
    chunks = [*({**shared, "choices": [one]} for one in choices), {**shared, "choices": [], "usage": usage}]
    lines = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    return _send(handler, 200, lines.encode(), "text/event-stream")


def _send(handler, status, payload, kind="application/json"):
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)
