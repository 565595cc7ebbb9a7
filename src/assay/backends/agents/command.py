"""An agent that is a command: JSON lines on stdin and stdout, one process per invocation (docs/agent-protocol.md)."""

import asyncio
import os
import shlex
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from assay.backends.agents.frames import (
    ProtocolError,
    apply_note,
    handle,
    read_end,
    read_frame,
    read_json,
    tool_specs,
)
from assay.backends.models.key_scrubbing import HiddenWords
from assay.concurrency.foreign_code import with_deadline
from assay.errors import ForeignFault
from assay.ports.agents import AgentContext
from assay.ports.telemetry import agent_environment, span_export
from assay.protocol.agents import AgentCard, InvocationResult
from assay.protocol.json_types import is_object

LINE = 16 * 1024 * 1024  # bytes of one frame
STDERR = 2_000  # last bytes of stderr
MOMENT = 1.0  # seconds to exit after its result
FLUSH = 15.0  # the same, if it has spans to send
ENDS = frozenset({"result", "error"})


class CommandAgent:
    """
    Starts the command, sends the task, answers its frames until `result` or `error`, and kills its process group.

    Each invocation has its own process, so that invocations cannot affect each other and a hanging one can be killed.
    """

    system_prompt: str | None = None

    def __init__(
        self,
        card: AgentCard,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> None:
        self.card, self._seconds = card, seconds
        self._words = shlex.split(command)
        self._env = dict(env or {})
        self._redactor = HiddenWords(self._env)

    async def invoke(self, task: Any, context: AgentContext) -> InvocationResult:
        return await with_deadline(context, self._seconds, self._invoke(task, context))

    async def close(self) -> None: ...

    async def _invoke(self, task: Any, context: AgentContext) -> InvocationResult:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                limit=LINE,
                start_new_session=True,  # so that its children are killed with it
                env=agent_environment({**os.environ, **self._env}),
            )
        except OSError as refused:
            raise ForeignFault(f"{self._words[0]!r} could not be started: {refused.strerror}") from None
        session = CommandSession(process, context, self._redactor)
        try:
            result = await session.run(self._task_frame(task, context))
            await session.wait_for_exit()
            return result
        finally:
            await session.close()

    def _task_frame(self, task: Any, context: AgentContext) -> dict[str, Any]:
        frame = {"type": "task", "task": task, "invocationId": context.invocation_id}
        frame |= {"messages": list(context.messages)} if context.messages else {}
        frame |= {"tools": tool_specs(context.tools)} if self.card.takes_tools else {}
        return frame | {"memory": self.card.takes_memory}


class CommandSession:
    """The dialogue with one process."""

    def __init__(self, process: Process, context: AgentContext, redactor: HiddenWords) -> None:
        self._process, self._context, self._redactor = process, context, redactor
        self._stderr = b""  # the end of it
        self._listening = asyncio.ensure_future(self._listen())
        self._answering: set[asyncio.Task[None]] = set()

    async def run(self, task_frame: dict[str, Any]) -> InvocationResult:
        """Send the task and handle frames until the result."""
        await self._send(task_frame)
        stdout = self._process.stdout
        assert stdout is not None
        while True:
            try:
                line = await stdout.readline()
            except ValueError:
                return _failed(f"it wrote a line of more than {LINE} bytes")
            if not line:
                return await self._silent()
            if line.isspace():
                continue
            try:
                if (result := self._receive(self._redactor.out_of(read_json(line)))) is not None:
                    await self._wait_for_answers()
                    return result
            except (ProtocolError, ValueError) as wrong:
                return _failed(f"it wrote an invalid frame: {wrong}")

    async def wait_for_exit(self) -> None:
        """Close its input and give it a moment to exit."""
        stdin = self._process.stdin
        if stdin is not None:
            stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(MOMENT if span_export.get() is None else FLUSH):
                await self._process.wait()

    async def close(self) -> None:
        """Kill the process group."""
        for task in self._answering:
            task.cancel()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._listening.cancel()
        # a grandchild that left the group may hold the pipes open: close this end
        self._process._transport.close()  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
        await self._process.wait()

    def _receive(self, value: Any) -> InvocationResult | None:
        if is_object(value) and value.get("type") in ENDS:
            kind = value["type"]
            rest = {name: member for name, member in value.items() if name != "type"}
            if kind == "error" and "error" not in rest:
                rest = {"error": rest.pop("message", "an error without a message"), **rest}
            return read_end(rest, self._context)
        frame = read_frame(value)
        if apply_note(frame, self._context):
            return None
        task = asyncio.ensure_future(self._answer(frame))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        return None

    async def _answer(self, frame: Any) -> None:
        await self._send({"type": "answer", **await handle(frame, self._context)})

    async def _wait_for_answers(self) -> None:
        """Calls that the agent did not wait for still belong to the invocation."""
        if self._answering:
            await asyncio.wait(self._answering)

    async def _send(self, frame: dict[str, Any]) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(ConnectionError):  # it closed its input; it may still write a result
            stdin.write(msgspec.json.encode(frame) + b"\n")
            await stdin.drain()

    async def _silent(self) -> InvocationResult:
        with suppress(TimeoutError):
            async with asyncio.timeout(MOMENT):
                await asyncio.shield(self._listening)
                await self._process.wait()
        code = self._process.returncode
        cause = f"was killed by signal {-code}" if code and code < 0 else f"ended with exit code {code}"
        cause = "closed its output" if code is None else cause
        last = self._redactor.out_of(self._stderr.decode(errors="replace").strip())
        return _failed(f"it {cause} and gave no result" + (f": {last}" if last else ""))

    async def _listen(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        while part := await stderr.read(65_536):
            self._stderr = (self._stderr + part)[-STDERR:]


def _failed(message: str) -> InvocationResult:
    return InvocationResult(outcome="failed", error=message)
