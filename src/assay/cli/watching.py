"""An eval run while it goes: a line for every task on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec
from msgspec import UNSET

from assay.ports import Event
from assay.protocol.event_record import read_stored
from assay.protocol.events import EvalScored, TrialEnded
from assay.terminal import one_line

EACH = 60  # tasks up to which every one gets its line
QUICK, SLOW = 0.1, 10.0


class RunProgress:
    """What was recorded so far, as somebody sees it."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._total, self._quiet = total, quiet
        self._to = sys.stderr
        self._live = self._to.isatty()
        self._began = self._last = time.monotonic()
        self._done = self._passed = self._missing = 0
        self._shown = False

    async def follow(self, events: AsyncIterator[Event | None]) -> None:
        async for event in events:
            if event is not None:
                self.see(event.type, read_stored(event.data).payload)

    def see(self, type: str, payload: bytes | msgspec.Raw) -> None:
        """One event, here or from elsewhere."""
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
                self._missing += 1
                self._task("?", ended.task_id, "not measured", UNSET)
        self._tell()

    def _task(self, mark: str, id: str, told: str, latency: int | msgspec.UnsetType) -> None:
        if self._quiet or not self._live or self._total > EACH:
            return
        took = (
            "" if latency is UNSET else f"  {latency / 1000:.1f} s" if latency >= 100 else f"  {latency} ms"
        )
        self.clear()
        self._write(f"  {mark} {one_line(id)}  {told}{took}\n")

    def _tell(self) -> None:
        now = time.monotonic()
        if self._quiet or now - self._last < (QUICK if self._live else SLOW):
            return
        self._last = now
        missing = f", {self._missing:,} not measured" if self._missing else ""
        text = f"{self._done:,}/{self._total:,} tasks, {self._passed:,} passed{missing}"
        self._write(f"\r\x1b[K{text}" if self._live else f"{text}\n")
        self._shown = True

    def clear(self) -> None:
        if self._shown and self._live:
            self._write("\r\x1b[K")
            self._shown = False

    def _write(self, text: str) -> None:
        with suppress(OSError):  # nobody looks any more, and that ends no run
            self._to.write(text)
            self._to.flush()
