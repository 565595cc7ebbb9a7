"""
Starts the command for the tools of `assay mcp`, each time in a process of its own, which outlives the server.

A job writes to files that have no name, so that it never waits for a reader and never fails when there is none.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import IO, Any

import msgspec
from msgspec import Struct

from assay.concurrency.threads import run_blocking

SOON, LATER = 0.02, 0.25  # seconds between two looks at a job
AT_ONCE, WAITING = 4, 32  # jobs that run, and those that wait for one of them to end
MAX_OUTPUT = 64 * 1024 * 1024  # bytes of a document
MAX_MESSAGES = 1024 * 1024  # bytes of messages that are read
STOP_SECONDS = 60  # that a cancelled run has to record that it is
HIDDEN = ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")  # the job of a tool is no step of a workflow
Progress = Callable[[Mapping[str, Any]], Awaitable[None]]


class CallRefused(Exception):
    """Why a call has no answer, in words of assay."""


class Ended(Struct, frozen=True):
    """How a job ended: its exit code, the document it printed, and its messages."""

    code: int
    document: Any
    messages: list[str]


class JobRunner:
    """Runs jobs in one folder, a few at a time. `closing` is set once the client is gone."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._room = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._ending: set[asyncio.Task[None]] = set()
        self.closing = False

    async def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        survives: bool = False,
        progress: Progress | None = None,
    ) -> Ended:
        """
        Run one job. A call that is cancelled ends it; one that `survives` is asked to record that it was cancelled, and
        goes on if it is the client that is gone.
        """
        if self._waiting >= WAITING:
            raise CallRefused(f"expected at most {WAITING} calls that wait, got one more; call again later")
        self._waiting += 1
        try:
            await self._room.acquire()
        finally:
            self._waiting -= 1
        try:
            with (
                tempfile.TemporaryFile() as given,
                tempfile.TemporaryFile() as out,
                tempfile.TemporaryFile() as err,
            ):
                given.write(stdin)
                given.seek(0)
                process = self._start(arguments, given, out, err)
                try:
                    return await _end(process, out, _Messages(err, progress))
                finally:
                    if process.returncode is None and not (survives and self.closing):
                        self._stop(process, gently=survives)
        finally:
            self._room.release()

    def _start(
        self, arguments: tuple[str, ...], given: IO[bytes], out: IO[bytes], err: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        environ = {name: value for name, value in os.environ.items() if name not in HIDDEN}
        try:
            return subprocess.Popen(  # noqa: S603  # the command itself, with words and no shell
                [sys.executable, "-P", "-m", "assay.cli.coding_agents.job", *arguments],
                cwd=self._folder,
                env=environ,
                stdin=given,
                stdout=out,
                stderr=err,
                start_new_session=True,  # no signal to the client or the server reaches it
            )
        except OSError as wrong:
            raise CallRefused(
                f"expected a process for this call, got none: {wrong.strerror or wrong}"
            ) from None

    def _stop(self, process: subprocess.Popen[bytes], *, gently: bool) -> None:
        process.send_signal(signal.SIGINT if gently else signal.SIGKILL)
        task = asyncio.create_task(_reap(process))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


class _Messages:
    """The lines of JSON that a job writes to standard error."""

    def __init__(self, file: IO[bytes], progress: Progress | None) -> None:
        self._file, self._progress = file, progress
        self._read, self._rest = 0, b""
        self._last: Mapping[str, Any] | None = None
        self.texts: list[str] = []

    async def look(self) -> None:
        """Read what is new, and report the newest progress."""
        newest: Mapping[str, Any] | None = None
        while part := os.pread(self._file.fileno(), 65_536, self._read):
            self._read += len(part)
            *lines, self._rest = (self._rest + part).split(b"\n")
            for line in lines:
                document = _line_of(line)
                if "message" not in document:
                    newest = document or newest
                elif self._read <= MAX_MESSAGES:
                    self.texts.append(document["message"])
        if newest is not None and newest != self._last and self._progress is not None:
            self._last = newest
            await self._progress(newest)


def _line_of(line: bytes) -> dict[str, Any]:
    """A message or a progress. What Python itself says of a process that does not even start is neither."""
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}


async def _end(process: subprocess.Popen[bytes], out: IO[bytes], messages: _Messages) -> Ended:
    pause = SOON
    while process.poll() is None:
        await messages.look()
        await asyncio.sleep(pause)
        pause = min(LATER, pause * 1.3)
    await messages.look()
    if process.returncode < 0:
        raise CallRefused(
            f"the process of this call was ended by {signal.Signals(-process.returncode).name}; a run that it had"
            " begun is stored, and `resume` completes it"
        )
    out.seek(0, os.SEEK_END)
    if out.tell() > MAX_OUTPUT:
        raise CallRefused(f"expected an answer of at most {MAX_OUTPUT:,} bytes, got {out.tell():,}")
    out.seek(0)
    data = out.read()
    try:
        document = await run_blocking(msgspec.json.decode, data) if data.strip() else None
    except msgspec.MsgspecError:
        raise CallRefused("expected a document of the command, got a text that is not JSON") from None
    return Ended(process.returncode, document, messages.texts)


async def _reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a job that is stopped, and end it if it does not."""
    for _ in range(int(STOP_SECONDS / LATER)):
        if process.poll() is not None:
            return
        await asyncio.sleep(LATER)
    with suppress(ProcessLookupError):
        process.kill()
    process.wait()
