"""An agent that is a command: JSON lines on stdin and stdout, a process of its own for every invocation (docs/agent-protocol.md)."""

import asyncio
import os
import shlex
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from assay.backends.agents.deadlines import with_deadline
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
from assay.errors import ForeignFault
from assay.ports.agents import AgentContext
from assay.protocol.agents import AgentCard, InvocationResult
from assay.protocol.json_types import is_object

LINE = 16 * 1024 * 1024  # bytes of one frame
KEPT = 2_000  # bytes of stderr, the last
MOMENT = 1.0  # seconds to end by itself after its result
ENDS = frozenset({"result", "error"})


class CommandAgent:
    """
    Starts the command, sends it the task, answers its frames until one says `result` or `error`, and ends its whole process group.

    A process for each: one invocation cannot see or break another's, and a hang is killed.
    """

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
        self._hidden = HiddenWords(self._env)

    async def invoke(self, task: Any, scene: AgentContext) -> InvocationResult:
        return await with_deadline(scene, self._seconds, self._invoke(task, scene))

    async def close(self) -> None: ...

    async def _invoke(self, task: Any, scene: AgentContext) -> InvocationResult:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                limit=LINE,
                start_new_session=True,  # so that its children can be ended with it
                env={**os.environ, **self._env},
            )
        except OSError as refused:
            raise ForeignFault(f"{self._words[0]!r} could not be started: {refused.strerror}") from None
        talk = CommandSession(process, scene, self._hidden)
        try:
            finish = await talk.finish(self._first(task, scene))
            await talk.leave()
            return finish
        finally:
            await talk.end()

    def _first(self, task: Any, scene: AgentContext) -> dict[str, Any]:
        first = {"type": "task", "task": task, "invocationId": scene.invocation_id}
        first |= {"tools": tool_specs(scene.tools)} if self.card.takes_tools else {}
        return first | {"memory": self.card.takes_memory}


class CommandSession:
    """One process, from its first frame to its end."""

    def __init__(self, process: Process, scene: AgentContext, hidden: HiddenWords) -> None:
        self._process, self._scene, self._hidden = process, scene, hidden
        self._said = b""  # on stderr, the last of it
        self._listening = asyncio.ensure_future(self._listen())
        self._acting: set[asyncio.Task[None]] = set()

    async def finish(self, first: dict[str, Any]) -> InvocationResult:
        await self._send(first)
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
                if (finish := self._hear(self._hidden.out_of(read_json(line)))) is not None:
                    await self._acted()
                    return finish
            except (ProtocolError, ValueError) as wrong:
                return _failed(f"it wrote a frame that makes no sense: {wrong}")

    async def leave(self) -> None:
        """It may end by itself."""
        stdin = self._process.stdin
        if stdin is not None:
            stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(MOMENT):
                await self._process.wait()

    async def end(self) -> None:
        for task in self._acting:
            task.cancel()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._listening.cancel()
        # a grandchild that left the group may hold the pipes open: they are closed from our side
        self._process._transport.close()  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
        await self._process.wait()

    def _hear(self, said: Any) -> InvocationResult | None:
        if is_object(said) and said.get("type") in ENDS:
            kind = said["type"]
            rest = {name: value for name, value in said.items() if name != "type"}
            if kind == "error" and "error" not in rest:
                rest = {"error": rest.pop("message", "it said no more"), **rest}
            return read_end(rest, self._scene)
        frame = read_frame(said)
        if apply_note(frame, self._scene):
            return None
        task = asyncio.ensure_future(self._answer(frame))
        self._acting.add(task)
        task.add_done_callback(self._acting.discard)
        return None

    async def _answer(self, frame: Any) -> None:
        await self._send({"type": "answer", **await handle(frame, self._scene)})

    async def _acted(self) -> None:
        """What it asked for and did not wait for still belongs to it."""
        if self._acting:
            await asyncio.wait(self._acting)

    async def _send(self, frame: dict[str, Any]) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(ConnectionError):  # it reads no more; what it says then is its end
            stdin.write(msgspec.json.encode(frame) + b"\n")
            await stdin.drain()

    async def _silent(self) -> InvocationResult:
        with suppress(TimeoutError):
            async with asyncio.timeout(MOMENT):
                await asyncio.shield(self._listening)
                await self._process.wait()
        code = self._process.returncode
        how = f"was killed by signal {-code}" if code and code < 0 else f"ended with exit code {code}"
        how = "closed its output" if code is None else how
        last = self._hidden.out_of(self._said.decode(errors="replace").strip())
        return _failed(f"it {how} and gave no result" + (f": {last}" if last else ""))

    async def _listen(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        while part := await stderr.read(65_536):
            self._said = (self._said + part)[-KEPT:]


def _failed(why: str) -> InvocationResult:
    return InvocationResult(outcome="failed", error=why)
