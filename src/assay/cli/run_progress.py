"""The progress of an eval run: a line per task on a terminal, and a line every 10 seconds elsewhere."""

import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec
from msgspec import UNSET, Struct

from assay.cli.console import FILE_INTERVAL, TERMINAL_INTERVAL
from assay.ports import Event
from assay.protocol.event_record import decode_event
from assay.protocol.events import EvalScored, TrialEnded
from assay.terminal import one_line

MAX_LINES = 60  # a suite with more tasks gets no line per task


class RunProgress:
    """Counts the events of a run and shows the counts on standard error."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._total, self._quiet = total, quiet
        self._stream = sys.stderr
        self._is_terminal = self._stream.isatty()
        self._last = time.monotonic()
        self._done = self._passed = self._unmeasured = 0
        self._visible = False

    async def follow(self, events: AsyncIterator[Event | None]) -> None:
        async for event in events:
            if event is not None:
                self.add(event.type, decode_event(event.data).payload)

    def add(self, type: str, payload: bytes | msgspec.Raw) -> None:
        """Count one event, of a run here or on another host."""
        if type == "eval.scored":
            scored = msgspec.json.decode(payload, type=EvalScored)
            self._done += 1
            self._passed += scored.passed
            self._task(
                "✓" if scored.passed else "✗", scored.task_id, f"{scored.score:.2f}", scored.latency_ms
            )
        elif type == "assay.trial.ended":
            ended = msgspec.json.decode(payload, type=TrialEnded)
            if ended.score is UNSET:
                self._unmeasured += 1
                self._task("?", ended.task_id, "not measured", UNSET)
        self._show()

    def _task(self, mark: str, id: str, score: str, latency: int | msgspec.UnsetType) -> None:
        if self._quiet or not self._is_terminal or self._total > MAX_LINES:
            return
        took = (
            "" if latency is UNSET else f"  {latency / 1000:.1f} s" if latency >= 100 else f"  {latency} ms"
        )
        self.clear()
        self._write(f"  {mark} {one_line(id)}  {score}{took}\n")

    def _show(self) -> None:
        now = time.monotonic()
        if self._quiet or now - self._last < (TERMINAL_INTERVAL if self._is_terminal else FILE_INTERVAL):
            return
        self._last = now
        unmeasured = f", {self._unmeasured:,} not measured" if self._unmeasured else ""
        text = f"{self._done:,}/{self._total:,} tasks, {self._passed:,} passed{unmeasured}"
        self._write(f"\r\x1b[K{text}" if self._is_terminal else f"{text}\n")
        self._visible = True

    def clear(self) -> None:
        if self._visible and self._is_terminal:
            self._write("\r\x1b[K")
            self._visible = False

    def _write(self, text: str) -> None:
        with suppress(OSError):  # a closed terminal must not end the run
            self._stream.write(text)
            self._stream.flush()


class RunOptions(Struct, frozen=True, kw_only=True):
    """The command line of `assay run`."""

    suite: str | None = None
    agent: str | None = None
    modes: tuple[str, ...] | None = None
    baseline: str | None = None
    force: bool = False
    trials: int = 1
    model: str | None = None
    judge: str | None = None
    checks: str | None = None
    modules: tuple[str, ...] = ()  # of --check-module
    policy: str | None = None  # a file
    max_attack_success: float | None = None
    concurrency: int | None = None
    timeout: float | None = None
    resume: str | None = None
    tags: tuple[str, ...] = ()
    any_agent: bool = False
    to: tuple[str, ...] = ()
    json: bool = False
    server: str | None = None
    key_file: str | None = None
