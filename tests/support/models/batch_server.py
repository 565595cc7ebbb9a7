"""
Batches on this machine over real HTTP: OpenAI's files and batches, Anthropic's message batches, and their single calls.

`script` says how each batch behaves, in the order of their submission; the last one repeats. Words may be combined:
"lost hold". A batch ends when it was looked at `looks` times, or when it is let go.

| word | the batch |
|---|---|
| `ok` | answers every line, in order |
| `shuffled` | answers in another order |
| `doubled` | answers each line twice, the second time otherwise |
| `malformed` | has lines that are no JSON, or of another form, between the answers |
| `expired` | answers every other line, and then ends |
| `flaky` | answers every other line with a failure that may pass |
| `refused` | answers every other line with one that does not |
| `plain` | refuses structured output |
| `failed` | is refused as a whole |
| `lost` | is accepted, and the connection is closed without an answer |
| `unavailable` | is not accepted: 503 |
| `busy` | answers the first look with 429 |
| `hold` | does not end until `release` is set |
"""

import gzip
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support.models.anthropic_replies import message
from support.models.provider_server import fitting
from support.servers.thread_server import Handler, HandlerServer

CREATED = 2_000_000_000  # after every test began
ERRORS = {500: "api_error", 400: "invalid_request_error"}


class Batch:
    def __init__(self, id: str, behaviour: str, lines: list[tuple[str, Any]], metadata: Any = None) -> None:
        self.id, self.behaviour, self.lines, self.metadata = id, behaviour.split(), lines, metadata
        self.looks, self.ended, self.cancelled = 0, False, False
        self.answers: list[tuple[str, int, Any]] = []  # id, status (0: none), body
        self.files: dict[str, str | None] = {}  # of the answers


class BatchServer(HandlerServer):
    """
    Serves until it is left. `paid` has the prompt of every line that was answered, `singles` of every single call.

    `on_request` is called before and after a request has its effect; its answer comes after both. If it returns False
    before, the request has no effect and no answer. The first `cut` files are cut off; `packed` files are compressed.
    `failing` says how often requests whose path has a word are answered 503; `usage` is that of every answer.
    """

    def __init__(self, script: list[str] | None = None, answer: Any = fitting) -> None:
        self.script, self.answer, self.looks = script or ["ok"], answer, 1
        self.batches: list[Batch] = []
        self.paid: list[str] = []
        self.singles: list[str] = []
        self.release, self.submitted = threading.Event(), threading.Event()
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.on_request: Callable[[str, str, str], object] = lambda when, method, path: None
        self.cut, self.packed = 0, False
        self.failing: dict[str, int] = {}
        self.usage: dict[str, Any] = {}
        self._files: dict[str, bytes] = {}
        self._ids, self._lock = count(1), threading.RLock()
        batches = self

        class Batches(Handler):
            def do_GET(self) -> None:
                batches.handle(self, "GET", b"")

            def do_POST(self) -> None:
                batches.handle(self, "POST", self.body())

        super().__init__(Batches)
        self.base_url = f"{self.url}/v1"

    def __exit__(self, *_: object) -> None:
        self.release.set()
        super().__exit__()

    def handle(self, http: Handler, method: str, body: bytes) -> None:
        address = urlsplit(http.path)
        headers = {name.lower(): value for name, value in http.headers.items()}
        if self.on_request("before", method, http.path) is False:
            http.close_connection = True
            return
        with self._lock:
            self.requests.append((method, http.path, headers))
            word = next(
                (one for one, left in self.failing.items() if left and address.path.endswith(one)), None
            )
            if word is not None:
                self.failing[word] -= 1
                status, answer = 503, {"error": {"message": "try later"}}
            else:
                status, answer = self._route(
                    method, address.path.removeprefix("/v1"), parse_qs(address.query), body, headers
                )
        if status == 0:
            http.close_connection = True
            return
        self.on_request("after", method, http.path)
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        is_file = isinstance(answer, bytes)
        data = gzip.compress(data) if is_file and self.packed else data
        with suppress(ConnectionError):  # the client was killed
            http.send_response(status)
            http.send_header("Content-Length", str(len(data)))
            if is_file and self.packed:
                http.send_header("Content-Encoding", "gzip")
            if is_file and self.cut:
                self.cut -= 1
                data, http.close_connection = data[:-20], True
            if status == 429:
                http.send_header("Retry-After", "0.01")
            http.end_headers()
            http.wfile.write(data)
        if method == "POST" and address.path.endswith("batches"):
            self.submitted.set()

    def _route(
        self, method: str, path: str, query: Any, body: bytes, headers: dict[str, str]
    ) -> tuple[int, Any]:
        messages = path.startswith("/messages/batches")
        rest = path.removeprefix("/messages").removeprefix("/batches").strip("/")
        match method, path.removeprefix("/messages").split("/")[1:2], rest.split("/"):
            case "POST", ["files"], _:
                edge = headers["content-type"].partition("boundary=")[2].encode()
                part = next(one for one in body.split(b"--" + edge) if b'name="file"' in one)
                return 200, {"id": self._file(part.partition(b"\r\n\r\n")[2].strip())}
            case "GET", ["files"], _:
                return 200, self._files[path.split("/")[2]]
            case "POST", ["batches"], [""]:
                return self._create(json.loads(body), messages)
            case "GET", ["batches"], [""]:
                return 200, self._listed(query, messages)
            case "GET", ["batches"], [id]:
                return self._look(self._batch(id), messages)
            case "GET", ["batches"], [id, "results"]:
                return 200, self._results(self._batch(id))
            case "POST", ["batches"], [id, "cancel"]:
                batch = self._batch(id)
                batch.cancelled = True
                self._end(batch)
                return 200, self._shown(batch, messages)
            case _:
                return self._single(path, json.loads(body))

    def _single(self, path: str, asked: Any) -> tuple[int, Any]:
        self.singles.append(prompt_of(asked))
        return 200, self._answer_of(asked, path == "/messages")

    def _answer_of(self, asked: Any, messages: bool) -> Any:
        answer = self.answer(asked)
        if messages:
            found = message(asked, answer)
            return {**found, "usage": found["usage"] | self.usage}
        text = answer if isinstance(answer, str) else json.dumps(answer)
        usage = {"prompt_tokens": len(prompt_of(asked).split()), "completion_tokens": len(text.split())}
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return {"model": asked["model"], "choices": [choice], "usage": usage | self.usage}

    def _create(self, asked: Any, messages: bool) -> tuple[int, Any]:
        behaviour = self.script[min(len(self.batches), len(self.script) - 1)]
        if behaviour == "unavailable":
            self.script = self.script[1:] or ["ok"]
            return 503, {"error": {"message": "try later"}}
        if messages:
            lines = [(one["custom_id"], one["params"]) for one in asked["requests"]]
        else:
            file = self._files[asked["input_file_id"]]
            lines = [(one["custom_id"], one["body"]) for one in map(json.loads, file.splitlines())]
            assert len({body["model"] for _, body in lines}) == 1, "one model in a file"
        assert len({id for id, _ in lines}) == len(lines), "ids are unique"
        batch = Batch(f"batch_{next(self._ids)}", behaviour, lines, asked.get("metadata"))
        self.batches.append(batch)
        if "lost" in batch.behaviour:
            self.submitted.set()
            return 0, None
        return 200, self._shown(batch, messages)

    def _look(self, batch: Batch, messages: bool) -> tuple[int, Any]:
        batch.looks += 1
        if "busy" in batch.behaviour and batch.looks <= 2:
            return 429, {"error": {"message": "too many"}}
        if batch.looks >= self.looks and ("hold" not in batch.behaviour or self.release.is_set()):
            self._end(batch)
        return 200, self._shown(batch, messages)

    def _end(self, batch: Batch) -> None:
        """Answer the lines. A cancelled batch has answered the first half."""
        if batch.ended:
            return
        batch.ended = True
        if "failed" in batch.behaviour:
            return
        for at, (id, asked) in enumerate(batch.lines):
            status = 200
            if batch.cancelled:
                status = 200 if at < len(batch.lines) // 2 else 0
            elif "expired" in batch.behaviour:
                status = 200 if at % 2 else 0
            elif "flaky" in batch.behaviour:
                status = 200 if at % 2 else 500
            elif "refused" in batch.behaviour:
                status = 200 if at % 2 else 400
            elif "plain" in batch.behaviour and "response_format" in asked:
                status = 400
            if status == 200:
                self.paid.append(prompt_of(asked))
            batch.answers.append(
                (id, status, self._line_body(status, asked, plain="plain" in batch.behaviour))
            )

    def _line_body(self, status: int, asked: Any, *, plain: bool) -> Any:
        if status == 200:
            return self._answer_of(asked, "max_tokens" in asked)
        reason = "response_format is not supported" if plain else "no"
        return {"type": "error", "error": {"type": ERRORS.get(status, ""), "message": reason}}

    def _shown(self, batch: Batch, messages: bool) -> Any:
        answered = sum(status > 0 for _, status, _ in batch.answers)
        if messages:
            counts = {"processing": 0 if batch.ended else len(batch.lines), "succeeded": answered}
            counts |= {"expired": len(batch.lines) - answered if batch.ended else 0}
            state = "ended" if batch.ended else "canceling" if batch.cancelled else "in_progress"
            return {"id": batch.id, "processing_status": state, "request_counts": counts, "created_at": "2033-05-18T03:33:20Z"}  # fmt: skip
        state = "completed" if batch.ended else "in_progress"
        state = (
            "cancelled"
            if batch.cancelled
            else "failed"
            if batch.ended and "failed" in batch.behaviour
            else state
        )
        shown = {"id": batch.id, "status": state, "created_at": CREATED, "metadata": batch.metadata}
        shown["request_counts"] = {"total": len(batch.lines), "completed": answered, "failed": 0}
        if state == "failed":
            return shown | {"errors": {"data": [{"message": "the file is not valid", "line": 1}]}}
        if batch.ended and not batch.files:
            good = [one for one in batch.answers if one[1] == 200]
            batch.files["output_file_id"] = self._file(self._results(batch, good)) if good else None
            bad = [one for one in batch.answers if one[1] != 200]
            batch.files["error_file_id"] = self._file(self._results(batch, bad)) if bad else None
        return shown | batch.files

    def _results(self, batch: Batch, answers: Any = None) -> bytes:
        answers = list(batch.answers if answers is None else answers)
        lines = [json.dumps(result_line(*one)) for one in answers]
        if "shuffled" in batch.behaviour:
            lines.reverse()
        if "doubled" in batch.behaviour:
            lines += [
                json.dumps(result_line(id, 500, {"error": {"type": "api_error"}})) for id, _, _ in answers
            ]
        if "malformed" in batch.behaviour:
            lines = [
                "",
                '{"custom_id": ',
                *lines[:1],
                "null",
                '{"custom_id": 5}',
                "\\x00",
                *lines[1:],
                '{"other": 1}',
            ]
        return "\n".join(lines).encode()

    def _listed(self, query: Any, messages: bool) -> Any:
        newest = [self._shown(one, messages) for one in reversed(self.batches)]
        after = (query.get("after_id") or query.get("after") or [""])[0]
        ids = [one["id"] for one in newest]
        at = ids.index(after) + 1 if after else 0
        return {"data": newest[at : at + 2], "has_more": at + 2 < len(newest)}

    def _batch(self, id: str) -> Batch:
        return next(one for one in self.batches if one.id == id)

    def _file(self, data: bytes) -> str:
        id = f"file-{next(self._ids)}"
        self._files[id] = data
        return id


def prompt_of(asked: Any) -> str:
    """The text of the last message."""
    content = asked["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def result_line(id: str, status: int, body: Any) -> Any:
    """A line of both protocols at once: each reads its own members."""
    if status == 0:
        error = {"code": "batch_expired", "message": "it could not be run in time"}
        return {"custom_id": id, "response": None, "error": error, "result": {"type": "expired"}}
    response = {"status_code": status, "request_id": "req_1", "body": body}
    result = {"type": "succeeded", "message": body} if status == 200 else {"type": "errored", "error": body}
    return {"custom_id": id, "response": response, "error": None, "result": result}
