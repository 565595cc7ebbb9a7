"""The progress of an eval run: a line per task on a terminal, and a line every 10 seconds elsewhere."""

from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from msgspec import UNSET

from assay.cli.console.console import StatusLine, send, width_of, wrap
from assay.ports import Event
from assay.protocol.event_record import decode_event
from assay.protocol.events import EvalScored, TrialEnded
from assay.stats.number_text import case_value
from assay.terminal import one_line

MAX_LINES = 60  # a suite with more tasks gets no line per task


class RunProgress:
    """Counts the events of a run and shows the counts on standard error."""

    def __init__(
        self,
        run: str,
        total: int,
        *,
        quiet: bool,
        note: Callable[[], Awaitable[str]] | None = None,
        line: StatusLine | None = None,
    ) -> None:
        """`note`: reads what is known so far. It is called when the line is shown."""
        self._run, self._total, self._quiet, self._note = run, total, quiet, note
        self._line = line or StatusLine(quiet=quiet)
        self._done = self._passed = self._unmeasured = 0
        self._send()

    async def follow(self, events: AsyncIterator[Event | None]) -> None:
        async for event in events:
            if event is None:
                continue
            if self._note is not None and self._line.is_due:
                self._line.note = await self._note()
            self.add(event.type, decode_event(event.data).payload)

    def add(self, type: str, payload: bytes | msgspec.Raw) -> None:
        """Count one event, of a run here or on another host."""
        if type == "eval.scored":
            scored = msgspec.json.decode(payload, type=EvalScored)
            self._done += 1
            self._passed += scored.passed
            self._send()
            self._task(
                "✓" if scored.passed else "✗", scored.task_id, case_value(scored.score), scored.latency_ms
            )
        elif type == "assay.trial.ended":
            ended = msgspec.json.decode(payload, type=TrialEnded)
            if ended.score is UNSET:
                self._unmeasured += 1
                self._send()
                self._task("?", ended.task_id, "not measured", UNSET)
        if self._line.is_due:
            unmeasured = f", {self._unmeasured:,} not measured" if self._unmeasured else ""
            self._line.show(f"{self._done:,}/{self._total:,} tasks, {self._passed:,} passed{unmeasured}")

    def clear(self) -> None:
        self._line.clear()

    def _send(self) -> None:
        """Tell a program that started the run."""
        counts = {"done": self._done + self._unmeasured, "passed": self._passed, "total": self._total}
        send({"run": self._run, **counts})

    def _task(self, mark: str, id: str, score: str, latency: int | msgspec.UnsetType) -> None:
        if self._quiet or not self._line.is_terminal or self._total > MAX_LINES:
            return
        took = (
            "" if latency is UNSET else f"  {latency / 1000:.1f} s" if latency >= 100 else f"  {latency} ms"
        )
        self.clear()
        line = f"  {mark} {one_line(id)}  {score}{took}"
        self._line.write("".join(f"{part}\n" for part in wrap(line, width_of(self._line.stream))))
