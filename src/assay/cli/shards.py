"""
`--jobs N`: one file over several processes, by byte range.

A range goes out as two numbers and comes back as counts; its results lie in a file without a name that both sides
hold, and are copied into place in order. Nothing is left over, whoever is killed.
"""

import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from assay.cli.asked import EvaluateOptions
from assay.cli.gathering import BadLines, Inputs
from assay.cli.progress import ProgressLine
from assay.errors import BadLine, EnvironmentFailure, Problem, RunTimeout
from assay.fep.execute import ExecutionOptions
from assay.fep.files import format_of
from assay.fep.plan import Plan
from assay.fep.sinks import JsonlSink, Sink
from assay.fep.tally import Tally, TallyRecord
from assay.ports import Limits
from assay.settings import Settings

FIRST, RANGE = 16 * 1024, 4 * 1024 * 1024  # bytes of a range at the beginning, and at most
GROWTH = 8  # a range is at most so many times the one before
KEPT = 5.0  # seconds of work in a range, about: what is not written yet is lost with us
FILES = 2  # results a worker may be ahead of us


class WorkerConfig(Struct, frozen=True, kw_only=True):
    """What a worker is told once."""

    contexts: str
    checks: msgspec.Raw
    modules: list[str]
    limits: Limits
    resolved_arguments: bool
    timings: bool
    skip_bad_lines: bool
    concurrency: int
    seconds: float
    cache: bool
    share: int  # workers, between whom a provider's limits are divided
    files: list[int]  # descriptors for results, used in turn
    write: bool


class ByteRange(Struct, frozen=True):
    """A range of the input, and which file its results go to."""

    start: int
    end: int
    file: int


class BadLineAt(Struct, frozen=True):
    """A line that is no context, counted from the start of its range."""

    line: int
    problems: list[str]


class JobResult(Struct, frozen=True, kw_only=True):
    """What came of a range: its results are the first `size` bytes of its file."""

    size: int
    lines: int
    seconds: float
    tally: TallyRecord
    skipped: list[BadLineAt] = []
    many_skipped: int = 0
    stopped: BadLineAt | None = None
    trouble: str = ""


class Worker:
    """One process and its files."""

    def __init__(self, brief: WorkerConfig) -> None:
        self.files: list[IO[bytes]] = [tempfile.TemporaryFile() for _ in range(FILES)]  # noqa: SIM115
        numbers = [file.fileno() for file in self.files]
        self.free, self._rest = deque(range(FILES)), b""
        self.process = subprocess.Popen(  # our own interpreter, our own module
            [sys.executable, "-m", "assay.cli.shard"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=numbers,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self.send(msgspec.structs.replace(brief, files=numbers))

    def send(self, what: Struct) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(msgspec.json.encode(what) + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.gone() from None

    def receive(self) -> list[JobResult]:
        """All that it has answered by now: whoever waits hears of it once, however many there are."""
        assert self.process.stdout is not None
        part = os.read(self.process.stdout.fileno(), 1 << 16)
        if not part:
            raise self.gone()
        *lines, self._rest = (self._rest + part).split(b"\n")
        return [msgspec.json.decode(line, type=JobResult) for line in lines]

    def gone(self) -> EnvironmentFailure:
        return EnvironmentFailure(
            f"a worker ended before its work did (exit code {self.process.wait()}); --resume goes on"
        )

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, *self.files):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue


def shard(
    plan: Plan,
    gathered: Inputs,
    tally: Tally,
    sinks: list[Sink],
    asked: EvaluateOptions,
    settings: Settings,
    how: ExecutionOptions,
    bad: BadLines,
    progress: ProgressLine,
) -> str | None:
    """Do it all, or say why one process has to."""
    name = asked.contexts
    if name is None or name == "-" or format_of(name, "jsonl") != ("jsonl", False):
        return "only a plain .jsonl file given with --contexts can be read in ranges"
    if asked.limit or asked.fail_fast:
        return "--limit and --fail-fast need the cases in order"
    if plan.each is not None:
        return "checks listed per case need the cases in order"
    if asked.max_cost is not None:
        return "--max-cost needs all that is spent in one place"
    if plan.services.providers is not None and plan.services.providers.remote:
        return "answers that are asked for over the network are written as they come"
    start = gathered.source.read if gathered.source else 0
    size = Path(name).stat().st_size
    jobs = max(1, min(asked.jobs, (size - start + FIRST - 1) // FIRST))
    brief = WorkerConfig(
        contexts=name,
        checks=msgspec.Raw(msgspec.json.encode(gathered.checks)),
        modules=[*settings.check_modules, *asked.modules],
        limits=settings.limits,
        resolved_arguments=asked.resolved_arguments,
        timings=asked.timings,
        skip_bad_lines=asked.skip_bad_lines,
        concurrency=max(1, how.concurrency // jobs),
        seconds=how.seconds,
        cache=asked.cache,
        share=jobs,
        files=[],
        write=bool(sinks),
    )
    line = _lines_before(name, start)
    JobScheduler(brief, jobs, start, size, tally, sinks, bad, progress, line).run(how)
    return None


class JobScheduler:
    """Ranges out, results in; written in the order of the input."""

    def __init__(
        self,
        brief: WorkerConfig,
        jobs: int,
        start: int,
        size: int,
        tally: Tally,
        sinks: list[Sink],
        bad: BadLines,
        progress: ProgressLine,
        line: int,
    ) -> None:
        self._brief, self._size, self._tally, self._sinks = brief, size, tally, sinks
        self._bad, self._progress, self._line = bad, progress, line
        self._next = self._written = start
        self._jobs, self._range = jobs, FIRST
        self._order: deque[tuple[Worker, ByteRange]] = deque()
        self._done: dict[int, JobResult] = {}

    def run(self, how: ExecutionOptions) -> None:
        until = time.monotonic() + how.run_seconds
        workers = [Worker(self._brief) for _ in range(self._jobs)]
        try:
            with selectors.DefaultSelector() as ready:
                for worker in workers:
                    assert worker.process.stdout is not None
                    ready.register(worker.process.stdout, selectors.EVENT_READ, worker)
                for _ in range(FILES):
                    for worker in workers:
                        self._give(worker)
                while self._order:
                    for key, _ in ready.select(max(0.0, until - time.monotonic())):
                        self._take(key.data)
                    self._write()
                    if time.monotonic() > until:
                        raise RunTimeout(how.run_seconds)
        finally:
            for worker in workers:
                worker.close()

    def _give(self, worker: Worker) -> None:
        if self._next >= self._size or not worker.free:
            return
        span = ByteRange(self._next, min(self._next + self._range, self._size), worker.free.popleft())
        self._next = span.end
        self._order.append((worker, span))
        worker.send(span)

    def _take(self, worker: Worker) -> None:
        """A worker answers in the order it was asked."""
        for done in worker.receive():
            span = next(span for one, span in self._order if one is worker and span.start not in self._done)
            self._done[span.start] = done
            pace = (span.end - span.start) / max(done.seconds, 1e-3)
            self._range = int(max(FIRST, min(RANGE, self._range * GROWTH, pace * KEPT)))

    def _write(self) -> None:
        while self._order and self._order[0][1].start in self._done:
            worker, span = self._order.popleft()
            done = self._done.pop(span.start)
            self._copy(worker.files[span.file], done.size)
            self._tally.add(done.tally)
            self._report(done)
            self._line += done.lines
            self._written = span.end
            worker.free.append(span.file)
            self._give(worker)
            self._progress(self._tally.cases, self._tally.error_cases, None, self._written / self._size)

    def _copy(self, file: IO[bytes], size: int) -> None:
        if len(self._sinks) == 1 and isinstance(self._sinks[0], JsonlSink):
            self._sinks[0].copy(file, size)
            return
        file.seek(0)
        for line in file.read(size).splitlines():
            for sink in self._sinks:
                sink.write(line)

    def _report(self, done: JobResult) -> None:
        for spot in done.skipped:
            self._bad(self._placed(spot))
        self._bad.many += done.many_skipped - len(done.skipped)
        if done.stopped is not None:
            raise self._placed(done.stopped)
        if done.trouble:
            raise EnvironmentFailure(done.trouble)

    def _placed(self, spot: BadLineAt) -> BadLine:
        place = f"{self._brief.contexts}:{self._line + spot.line}"
        return BadLine(place, [Problem("", problem) for problem in spot.problems])


def _lines_before(name: str, end: int) -> int:
    """How many lines stand before a place in a file: for telling where a bad one is."""
    many = 0
    with Path(name).open("rb") as file:
        while end > 0 and (block := file.read(min(end, 1 << 20))):
            many += block.count(b"\n")
            end -= len(block)
    return many
