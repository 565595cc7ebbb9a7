"""
A provider on this machine: OpenAI's chat and embeddings over real HTTP, as well or as badly as the model's name says.

A model's name is a script of steps: "500,500,ok" fails twice, then answers; the last step repeats for ever. A step may
have an argument: "429:0.2" sends `Retry-After: 0.2`, "slow:0.05" answers after 50 ms. `STEPS` has them all.

    with ProviderServer() as server: ...          # in a thread of this process; server.base_url, server.seen
    python tests/support/models/provider_server.py --port 8089   # by itself
"""

import argparse
import asyncio
import gzip
import hashlib
import json
import math
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))  # also by itself
from support.models.anthropic_replies import message, messages_of

DIMENSIONS = 32


class Seen(NamedTuple):
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    connection: int
    at: float  # by the clock of `time.monotonic`


class Call:
    """One request and the connection to answer it on."""

    def __init__(
        self, seen: Seen, argument: str, writer: asyncio.StreamWriter, answer: Callable[[dict], Any]
    ):
        self.seen, self.argument, self.writer, self.answer = seen, argument, writer, answer
        self.runs_inline = 1

    async def send(self, status: int, payload: Any, headers: dict[str, str] | None = None) -> None:
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        head = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        self.writer.write(f"HTTP/1.1 {status} {status}\r\n{lines}\r\n".encode() + body)
        await self.writer.drain()

    async def say(self, content: Any, *, finish_reason: str | None = "stop", **more: Any) -> None:
        """A chat completion; `more` goes into its message."""
        await self.send(200, self.completion(content, finish_reason=finish_reason, **more))

    def completion(self, content: Any, *, finish_reason: str | None = "stop", **more: Any) -> dict:
        words = sum(len(str(message["content"]).split()) for message in self.seen.body["messages"])
        written = len(str(content).split())
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": self.seen.body["model"],
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": content, **more},
                    "finish_reason": finish_reason,
                }
            ],
            "usage": {"prompt_tokens": words, "completion_tokens": written, "total_tokens": words + written},
        }

    def whole(self) -> bytes:
        """The right answer to a chat, as bytes."""
        return json.dumps(self.completion(json.dumps(self.answer(self.seen.body)))).encode()

    async def ok(self) -> None:
        if self.seen.path.endswith("/embeddings"):
            await self.send(200, embeddings(self.seen.body))
        elif self.seen.path.endswith("/messages"):
            await self.send(200, message(self.seen.body, self.answer(self.seen.body)))
        elif self.seen.path.endswith("/chat/completions"):
            answer = self.answer(self.seen.body)
            await self.say(answer if isinstance(answer, str) else json.dumps(answer))
        else:
            await self.fail(404, "no such address")

    async def fail(
        self, status: int, message: str, headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        await self.send(status, {"error": {"message": message, "type": "error", **more}}, headers)


Step = Callable[[Call], Awaitable[None]]


async def ok(call: Call) -> None:
    await call.ok()


async def slow(call: Call) -> None:
    await asyncio.sleep(float(call.argument))
    await call.ok()


async def busy(call: Call) -> None:
    """Answers after 20 ms, but no more than its argument at once."""
    if call.runs_inline > int(call.argument):
        await call.fail(429, "too many at once")
    else:
        await asyncio.sleep(0.02)
        await call.ok()


async def drop(call: Call) -> None:
    """Closed without a word."""
    call.writer.close()


async def hang(call: Call) -> None:
    """Half open: taken, never answered."""
    await asyncio.sleep(3600)


async def cut(call: Call) -> None:
    """Closed in the middle of the body."""
    call.writer.write(
        b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"id": "chat'
    )
    await call.writer.drain()
    call.writer.close()


async def half(call: Call) -> None:
    """A whole body that is half a JSON text."""
    await call.send(200, json.dumps(call.completion("{}")).encode()[:60])


async def page(call: Call) -> None:
    """A gateway's idea of an answer."""
    await call.send(200, b"<html>Welcome</html>", {"Content-Type": "text/html"})


async def drip(call: Call) -> None:
    """A stream that never ends."""
    call.writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    while True:
        call.writer.write(b"1\r\n \r\n")
        await call.writer.drain()
        await asyncio.sleep(0.01)


async def flood(call: Call) -> None:
    """An answer larger than anybody wants; with an argument, of that status."""
    status = call.argument or "200"
    call.writer.write(
        f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    )
    while True:
        call.writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        await call.writer.drain()


async def chunks(call: Call) -> None:
    """The answer in pieces, with a trailer behind them."""
    body = call.whole()
    pieces = b"".join(
        b"%x\r\n%s\r\n" % (len(body[at : at + 7]), body[at : at + 7]) for at in range(0, len(body), 7)
    )
    call.writer.write(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\nX-End: yes\r\n\r\n"
    )
    await call.writer.drain()


async def zipped(call: Call) -> None:
    await call.send(200, gzip.compress(call.whole()), {"Content-Encoding": "gzip"})


async def bomb(call: Call) -> None:
    """Small on the wire."""
    await call.send(200, gzip.compress(b" " * 4_000_000), {"Content-Encoding": "gzip"})


async def until_closed(call: Call) -> None:
    call.writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + call.whole())
    await call.writer.drain()
    call.writer.close()


async def heard(call: Call) -> None:
    call.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    await call.ok()


async def noise(call: Call) -> None:
    call.writer.write(b"220 mail.example.com ESMTP\r\n")
    await call.writer.drain()
    call.writer.close()


async def twofold(call: Call) -> None:
    """An answer, and another that nobody asked for."""
    body = json.dumps(call.completion("{}") | {"model": "stray"}).encode()
    stray = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    whole = call.whole()
    call.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s" % (len(whole), whole, stray))
    await call.writer.drain()


async def plain(call: Call) -> None:
    """Knows no structured output."""
    if "response_format" in call.seen.body:
        await call.fail(400, "Unrecognized request argument supplied: response_format")
    else:
        await call.ok()


async def echo(call: Call) -> None:
    """Says back the key it was given."""
    await call.say(f"you came with {call.seen.headers.get('authorization')}")


async def leak(call: Call) -> None:
    """Fails with the key in its message, whole and in part."""
    sent = call.seen.headers
    key = sent.get("x-api-key") or sent.get("authorization", "").removeprefix("Bearer ")
    await call.fail(int(call.argument), f"key {key} is wrong; it began with '{key[:12]}***'")


async def hidden(call: Call) -> None:
    """An error under a 200."""
    await call.fail(200, "the upstream is gone", None, code=int(call.argument or 0))


async def quota(call: Call) -> None:
    await call.fail(429, "You exceeded your current quota", code="insufficient_quota")


async def redirect(call: Call) -> None:
    await call.send(307, {}, {"Location": "http://127.0.0.1:9/v1/chat/completions"})


async def calls(call: Call) -> None:
    """Wants tools: one well, one with arguments that are none, one without any."""
    wanted = [("c1", "shop_orders", '{"id": 17}'), (None, "nowhere", "{id"), ("c3", "shop_orders", "")]
    tool_calls = [
        {"id": id, "type": "function", "function": {"name": n, "arguments": a}} for id, n, a in wanted
    ]
    await call.say(None, finish_reason="tool_calls", tool_calls=tool_calls)


async def stale(call: Call) -> None:
    """Answers, then closes the connection that it promised to keep."""
    await call.ok()
    call.writer.close()


async def backwards(call: Call) -> None:
    body = embeddings(call.seen.body)
    body["data"].reverse()
    await call.send(200, body)


async def short(call: Call) -> None:
    body = embeddings(call.seen.body)
    body["data"].pop()
    await call.send(200, body)


async def ragged(call: Call) -> None:
    body = embeddings(call.seen.body)
    body["data"][0]["embedding"].pop()
    await call.send(200, body)


def saying(content: Any, **more: Any) -> Step:
    async def say(call: Call) -> None:
        await call.say(content, **more)

    return say


def using(usage: Any) -> Step:
    async def say(call: Call) -> None:
        await call.send(200, call.completion(json.dumps(call.answer(call.seen.body))) | {"usage": usage})

    return say


STEPS: dict[str, Step] = {
    "ok": ok,
    "calls": calls,
    "slow": slow,
    "busy": busy,
    "drop": drop,
    "hang": hang,
    "cut": cut,
    "half": half,
    "page": page,
    "drip": drip,
    "flood": flood,
    "chunks": chunks,
    "gzip": zipped,
    "bomb": bomb,
    "until_closed": until_closed,
    "continue": heard,
    "noise": noise,
    "twofold": twofold,
    "plain": plain,
    "echo": echo,
    "leak": leak,
    "hidden": hidden,
    "quota": quota,
    "redirect": redirect,
    "stale": stale,
    "wrong": saying('{"unexpected": 1}'),
    "prose": saying("I would say it is quite good."),
    "torn": saying('{"passed": tr'),
    "twice": saying('{"passed": true, "passed": false}'),
    "nan": saying('{"score": NaN}'),
    "fenced": saying('```json\n{"passed": true}\n```'),
    "thought": saying('<think>\n{"passed": false}?\n</think>\n{"passed": true}'),
    "parts": saying([{"type": "text", "text": '{"passed": '}, {"type": "text", "text": "true}"}]),
    "refusal": saying(None, refusal="I cannot judge this."),
    "length": saying('{"passed": tru', finish_reason="length"),
    "filter": saying("", finish_reason="content_filter"),
    "endless": saying('{"passed": true}', finish_reason=None),
    "unused": using(None),
    "misused": using({"prompt_tokens": -5, "completion_tokens": "many"}),
}


def replying(**parts: Any) -> Step:
    async def say(call: Call) -> None:
        body = call.seen.body
        await call.send(200, message(body, call.answer(body)) | parts)

    return say


OF_MESSAGES: dict[str, Step] = {name: replying(**parts) for name, parts in messages_of().items()}
OF_EMBEDDINGS: dict[str, Step] = {"reversed": backwards, "short": short, "ragged": ragged}


def instance(schema: dict[str, Any]) -> Any:
    """The first value that fits a simple schema, true where there is a choice."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: instance(part) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [instance(schema.get("items", {}))] * max(1, schema.get("minItems", 1))
    if kind in ("number", "integer"):
        return schema.get("maximum", schema.get("minimum", 1))
    return {"boolean": True, "string": "because it is", "null": None}[kind]


def fitting(body: dict[str, Any]) -> Any:
    """A reply that fits the schema asked for, be it in `response_format` or in the prompt."""
    if asked := body.get("response_format"):
        return instance(asked["json_schema"]["schema"])
    if reply := next((one for one in body.get("tools", ()) if one.get("name") == "reply"), None):
        return instance(reply["input_schema"])
    first = body["messages"][0]
    system = body.get("system") or (first["content"] if first["role"] == "system" else "")
    if "JSON Schema" in system:
        return instance(json.loads(system.splitlines()[-1]))
    return "yes"


def embeddings(body: dict[str, Any]) -> dict:
    texts = body["input"]
    size = body.get("dimensions") or DIMENSIONS
    data = [
        {"object": "embedding", "index": i, "embedding": place(text, size)} for i, text in enumerate(texts)
    ]
    tokens = sum(len(text.split()) for text in texts)
    return {
        "object": "list",
        "data": data,
        "model": body["model"],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def place(text: str, size: int) -> list[float]:
    """A bag of words: texts that share words are near each other."""
    vector = [0.0] * size
    for word in text.casefold().split():
        digest = hashlib.sha256(word.encode()).digest()
        vector[digest[0] % size] += 1 if digest[1] % 2 else -1
    length = math.sqrt(sum(number * number for number in vector)) or 1.0
    return [number / length for number in vector]


class ProviderServer:
    """Serves until it is left. `answer` says what a judge says: a text, or a value that is written as JSON."""

    def __init__(self, answer: Callable[[dict], Any] = fitting, *, tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[Seen] = []
        self.most_at_once = 0
        self._answer, self._tls = answer, tls
        self._steps: Counter[str] = Counter()
        self._out = 0
        self._connections = 0
        self._tasks: set[asyncio.Task] = set()

    @property
    def base_url(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}/v1"

    @property
    def connections(self) -> int:
        return self._connections

    def __enter__(self) -> "ProviderServer":
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live(ready)), daemon=True)
        self._thread.start()
        ready.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5)

    async def _live(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        await self.start()
        ready.set()
        await self._stop.wait()
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(
            self._connection, "127.0.0.1", port, backlog=1024, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._connections += 1
        number = self._connections
        try:
            while not writer.is_closing():
                await self._one(reader, writer, number)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client left, or we do
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
        }
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        seen = Seen(head[0].split()[1], headers, body, number, time.monotonic())
        self.seen.append(seen)
        script = str(body.get("model", "ok")).split(",")
        at = self._steps[str(body.get("model"))]
        self._steps[str(body.get("model"))] += 1
        name, _, argument = script[min(at, len(script) - 1)].partition(":")
        call = Call(seen, argument, writer, self._answer)
        self._out += 1
        call.runs_inline = self._out
        self.most_at_once = max(self.most_at_once, self._out)
        try:
            if name.isdigit():
                await call.fail(int(name), f"no: {name}", {"Retry-After": argument} if argument else None)
            else:
                steps = STEPS | OF_EMBEDDINGS | (OF_MESSAGES if seen.path.endswith("/messages") else {})
                await steps.get(name, ok)(call)
        finally:
            self._out -= 1


async def _serve(port: int) -> None:
    server = ProviderServer()
    await server.start(port)
    sys.stdout.write(f"{server.base_url}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=0)
    asyncio.run(_serve(options.parse_args().port))
