"""Standard input and output as the wire of `assay mcp`: a JSON-RPC message on each line, and nothing else."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import msgspec

from assay.concurrency.threads import run_blocking, source
from assay.protocol.json_types import is_object, kind_of

MAX_LINE = 4 * 1024 * 1024  # bytes of a message
READ_AHEAD = 8  # messages
PARSE_ERROR, INVALID_REQUEST = -32700, -32600  # of JSON-RPC
GRACE = 10  # seconds that the last answers have, once the client is gone


class Wire:
    """
    What `stdio_server` of the SDK takes for standard input and for standard output.

    A line that is no message is answered here; the SDK would ignore it, or hold it in memory however long it is.
    """

    def __init__(self, on_close: Callable[[], None], parse: Callable[[bytes], Any]) -> None:
        """`parse` is the parser of the SDK."""
        self._on_close, self._parse = on_close, parse
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue(READ_AHEAD)
        self._loop = asyncio.get_running_loop()
        self._writing = asyncio.Lock()
        sys.stdout.flush()
        self._out = os.dup(1)
        os.dup2(2, 1)  # what anything here prints goes to standard error
        source(os.getpid()).start(self._read)

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._lines.get()) is not None:
            id, code, problem = _problem_of(line, self._parse)
            if not problem:
                yield line.decode()
            elif line.strip():
                await self._refuse(id, code, problem)

    async def write(self, text: str) -> None:
        """Write whole lines. If the client is gone, nobody misses them."""
        async with self._writing:
            await run_blocking(self._write, text.encode())

    async def flush(self) -> None:
        """Every line is written at once."""

    def _write(self, data: bytes) -> None:
        with suppress(OSError):
            while data:
                data = data[os.write(self._out, data) :]

    async def _refuse(self, id: Any, code: int, problem: str) -> None:
        wanted = f"expected a JSON-RPC message on one line of at most {MAX_LINE:,} bytes"
        error = {"code": code, "message": f"{wanted}, {problem}"}
        answer = {"jsonrpc": "2.0", "id": id, "error": error}
        await self.write(msgspec.json.encode(answer).decode() + "\n")

    def _read(self) -> None:
        """In a thread: a read cannot be interrupted."""
        with suppress(OSError, ValueError):
            while line := sys.stdin.buffer.readline(MAX_LINE + 1):
                long = len(line) > MAX_LINE
                while line and not line.endswith(b"\n"):
                    rest = sys.stdin.buffer.readline(MAX_LINE)
                    if not rest:
                        break
                    line = rest if long else line + rest
                self._put(b"[" if long else line)
        source(os.getpid()).start(_leave)
        self._loop.call_soon_threadsafe(self._on_close)
        self._put(None)

    def _put(self, line: bytes | None) -> None:
        with suppress(RuntimeError):  # the loop has ended
            asyncio.run_coroutine_threadsafe(self._lines.put(line), self._loop).result()


def _leave() -> None:
    """End the process even if the last answers cannot be written, because nobody reads them."""
    time.sleep(GRACE)
    os._exit(0)


def _problem_of(line: bytes, parse: Callable[[bytes], Any]) -> tuple[Any, int, str]:
    """
    Why a line is no message: the id to answer to, a code of JSON-RPC, and a text without what came. "": it is one.
    """
    try:
        message: Any = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None, PARSE_ERROR, "got a line that is not JSON, or a longer one"
    if not is_object(message):
        return None, INVALID_REQUEST, f"an object, got {kind_of(message)}"
    if message.get("jsonrpc") != "2.0":
        return None, INVALID_REQUEST, "with jsonrpc: '2.0', got none"
    id = message.get("id")
    if "id" in message and (not isinstance(id, str | int) or isinstance(id, bool)):
        return None, INVALID_REQUEST, "with an id that is a string or a number, got another"
    if not isinstance(message.get("method", ""), str) or not message.keys() & {"method", "result", "error"}:
        return id, INVALID_REQUEST, "with a method, a result or an error, got none"
    try:
        parse(line)
    except ValueError:  # of pydantic
        return (
            id,
            INVALID_REQUEST,
            "of the form that the protocol has, got another, or a value that is nested too deep",
        )
    return id, 0, ""
