"""
`assay evaluate --jobs N`: several processes evaluate byte ranges of one file.

A worker gets a range as two numbers and answers with counts. It writes results to an unnamed temporary file that both
processes hold; this process copies them in order. If a process is killed, no file is left over.
"""

import os
import selectors
import signal
import subprocess
import sys
import tempfile
from array import array
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.cli.evaluate.evaluation import Evaluation
from assay.cli.evaluate.inputs_outputs import Inputs
from assay.errors import BadLine, EnvironmentFailure, Problem
from assay.fep.outputs.failing_cases import FailingCase
from assay.fep.outputs.sinks import JsonlSink
from assay.fep.planning.plan import Plan
from assay.fep.planning.sources import Source, inputs_before
from assay.inputs.files import format_of
from assay.inputs.input_digests import InputDigests, other_input
from assay.ports import Limits
from assay.results.tally import TallyRecord

FIRST_RANGE, MAX_RANGE = 16 * 1024, 4 * 1024 * 1024  # bytes
GROWTH = 8  # a range is at most this many times as long as the one before
RANGE_SECONDS = 5.0  # intended work in a range: if this process ends, unwritten results are lost
FILES = 2  # ranges that a worker may have done before this process copies them


class WorkerConfig(Struct, frozen=True, kw_only=True):
    """The first message to a worker."""

    contexts: str
    device: int  # the number of its device and of its inode: a worker reads the same file, or none
    inode: int
    checks: msgspec.Raw
    modules: list[str]
    limits: Limits
    resolved_arguments: bool
    timings: bool
    skip_bad_lines: bool
    concurrency: int
    seconds: float
    cache: bool
    share: int  # number of workers that divide a provider's limits
    files: list[int]  # file descriptors for results, used in turn
    write: bool


class BadLineAt(Struct, frozen=True):
    """An invalid line, counted from the start of its range."""

    line: int
    problems: list[str]


class ByteRange(Struct, frozen=True, omit_defaults=True):
    """
    A range of the input, and the index of the file for its results.

    A worker does not know the ids of other ranges. A range with ids of another input is evaluated again, with `bad`.
    """

    start: int
    end: int
    file: int
    inputs: bool = False  # answer with the digests of the inputs
    bad: list[BadLineAt] | None = (
        None  # the lines whose id belongs to another input; None before they are known
    )


class RangeInputs(Struct, frozen=True):
    """The cases of a range in order: their ids, and their digests and lines as arrays."""

    ids: list[str]
    digests: bytes
    lines: bytes


class JobResult(Struct, frozen=True, kw_only=True):
    """The outcome of the range from `start` on; its results are the first `size` bytes of its file."""

    start: int
    size: int
    lines: int
    inputs: RangeInputs | None = None
    seconds: float
    tally: TallyRecord
    skipped: list[BadLineAt] = []
    skipped_count: int = 0
    first_bad_line: BadLineAt | None = None
    error: str = ""
    failing: list[FailingCase]  # the first ones
    all_failing: bool


class Worker:
    """A worker process and its files."""

    def __init__(self, config: WorkerConfig) -> None:
        self.files: list[IO[bytes]] = [tempfile.TemporaryFile() for _ in range(FILES)]  # noqa: SIM115
        numbers = [file.fileno() for file in self.files]
        self.free, self._partial_line = deque(range(FILES)), b""
        before = signal.pthread_sigmask(
            signal.SIG_BLOCK, [signal.SIGINT]
        )  # inherited: Ctrl-C is for this process
        try:
            self.process = subprocess.Popen(  # our own interpreter, our own module
                [sys.executable, "-m", "assay.cli.evaluate.jobs_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=numbers,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        except OSError:
            for file in self.files:
                file.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.send(msgspec.structs.replace(config, files=numbers))

    def send(self, message: Struct) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(msgspec.json.encode(message) + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.failure() from None

    def receive(self) -> list[JobResult]:
        """All answers that have arrived; the selector reports several of them as one event."""
        assert self.process.stdout is not None
        part = os.read(self.process.stdout.fileno(), 1 << 16)
        if not part:
            raise self.failure()
        *lines, self._partial_line = (self._partial_line + part).split(b"\n")
        return [msgspec.json.decode(line, type=JobResult) for line in lines]

    def failure(self) -> EnvironmentFailure:
        return EnvironmentFailure(
            f"a worker process ended early (exit code {self.process.wait()}); --resume continues the run"
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


def reason_for_one_process(plan: Plan, inputs: Inputs, options: EvaluateOptions) -> str | None:
    """Why several processes cannot divide this run; None if they can."""
    name = options.contexts
    if name is None or name == "-" or format_of(name, "jsonl") != ("jsonl", False):
        return "only an uncompressed .jsonl file of --contexts can be divided"
    if inputs.source is not None and inputs.source.rows:
        return "rows of a table are read in one process"
    if options.limit or options.fail_fast or inputs.choice is not None:
        return "--only, --limit and --fail-fast need the cases in order"
    if options.shard is not None:
        return "a shard is a part of a file already"
    if plan.list_count is not None:
        return "checks listed per case need the cases in order"
    if options.batch:
        return "--batch collects the calls of one process"
    if options.max_cost is not None:
        return "--max-cost needs one process that adds up the costs"
    if plan.services.providers is not None and plan.services.providers.remote:
        return "answers of remote models are written as they arrive"
    return None


def start_jobs(jobs: int, evaluation: Evaluation) -> "JobScheduler":
    """Start workers for what is not yet read of the input. OSError: they cannot start, and nothing has happened."""
    options, settings, source = evaluation.options, evaluation.settings, evaluation.inputs.source
    assert source is not None
    name = str(options.contexts)
    file = Path(name).stat()
    count = max(1, min(jobs, (file.st_size - source.read + FIRST_RANGE - 1) // FIRST_RANGE))
    config = WorkerConfig(
        contexts=name,
        device=file.st_dev,
        inode=file.st_ino,
        checks=msgspec.Raw(msgspec.json.encode(evaluation.plan.checks)),
        modules=[*settings.check_modules, *options.modules],
        limits=settings.limits,
        resolved_arguments=options.resolved_arguments,
        timings=options.timings,
        skip_bad_lines=options.skip_bad_lines,
        concurrency=max(1, settings.concurrency // count),
        seconds=evaluation.check_seconds,
        cache=options.cache,
        share=count,
        files=[],
        write=bool(evaluation.sinks),
    )
    return JobScheduler(evaluation, config, source, file.st_size)


def _start_workers(config: WorkerConfig, count: int) -> list[Worker]:
    workers = list[Worker]()
    try:
        for _ in range(count):
            workers.append(Worker(config))
    except OSError:
        for worker in workers:
            worker.close()
        raise
    return workers


class JobScheduler:
    """Gives ranges to workers and writes their results in the order of the input."""

    def __init__(self, evaluation: Evaluation, config: WorkerConfig, source: Source, size: int) -> None:
        """`size`: of the file that `source` has begun to read."""
        assert isinstance(source.inputs, InputDigests)
        self._evaluation, self._config, self._inputs = evaluation, config, source.inputs
        self._tally, self._sinks, self._size = evaluation.tally, evaluation.sinks, size
        self._next, self._line = source.read, _lines_before(config.contexts, source.read)
        self._workers, self._range = _start_workers(config, config.share), FIRST_RANGE
        self._order: deque[tuple[Worker, ByteRange]] = deque()
        self._done: dict[int, JobResult] = {}

    def run(self) -> None:
        """Evaluate everything that the workers were started for, and end them."""
        try:
            with selectors.DefaultSelector() as ready:
                for worker in self._workers:
                    assert worker.process.stdout is not None
                    ready.register(worker.process.stdout, selectors.EVENT_READ, worker)
                for _ in range(FILES):
                    for worker in self._workers:
                        self._assign(worker)
                while self._order:
                    for key, _ in ready.select(self._evaluation.remaining_seconds):
                        self._receive(key.data)
                    self._write()
                    if not self._evaluation.remaining_seconds:
                        raise self._evaluation.timeout()
        finally:
            for worker in self._workers:
                worker.close()

    def _assign(self, worker: Worker) -> None:
        if self._next >= self._size or not worker.free:
            return
        part = ByteRange(
            self._next,
            min(self._next + self._range, self._size),
            worker.free.popleft(),
            not self._inputs.rises,
        )
        self._next = part.end
        self._order.append((worker, part))
        worker.send(part)

    def _receive(self, worker: Worker) -> None:
        for result in worker.receive():
            part = next(part for _, part in self._order if part.start == result.start)
            self._done[part.start] = result
            rate = (part.end - part.start) / max(result.seconds, 1e-3)
            self._range = int(max(FIRST_RANGE, min(MAX_RANGE, self._range * GROWTH, rate * RANGE_SECONDS)))

    def _write(self) -> None:
        while self._order and self._order[0][1].start in self._done:
            worker, part = self._order[0]
            result = self._done.pop(part.start)
            if part.bad is None and (bad := self._other_inputs(part, result)):
                part = msgspec.structs.replace(part, bad=bad)
                self._order[0] = worker, part
                worker.send(part)
                return
            self._order.popleft()
            with self._evaluation.interrupts:
                self._copy(worker.files[part.file], result.size)
                self._tally.add(result.tally)
                self._evaluation.failing.add(result.failing, complete=result.all_failing)
            self._report(result)
            self._line += result.lines
            worker.free.append(part.file)
            self._assign(worker)
            self._evaluation.progress(self._tally.cases, self._tally.error_cases, None, part.end / self._size)

    def _other_inputs(self, part: ByteRange, result: JobResult) -> list[BadLineAt]:
        """The lines of a range whose id belongs to another input: the first one, or all with --skip-bad-lines."""
        bad = list[BadLineAt]()
        answers = result.tally.answers
        if len(answers) == 1 and self._inputs.add_rising(answers[0].ids):
            return bad
        for id, digest, line in self._inputs_of(part, result):
            earlier = self._inputs.add_digest(id, digest, self._line + line)
            if earlier is not None:
                problem = other_input(id, f"{self._config.contexts}:{earlier}")
                bad.append(BadLineAt(line, [str(problem)]))
                if not self._config.skip_bad_lines:
                    break
        return bad

    def _inputs_of(self, part: ByteRange, result: JobResult) -> Iterable[tuple[str, int, int]]:
        """The id, the digest of the input and the line of each case of a range."""
        inputs = result.inputs
        if inputs is not None:
            lines = array("I", inputs.lines)
            return zip(inputs.ids, array("I", inputs.digests), lines, strict=True)
        config = self._config
        return inputs_before(
            config.contexts, config.limits, (config.device, config.inode), result.lines + 1, part.start
        )

    def _copy(self, file: IO[bytes], size: int) -> None:
        if len(self._sinks) == 1 and isinstance(self._sinks[0], JsonlSink):
            self._sinks[0].copy(file, size)
            return
        file.seek(0)
        for line in file.read(size).split(b"\n")[
            :-1
        ]:  # not splitlines(): a line may have \r between its tokens
            for sink in self._sinks:
                sink.write(line)

    def _report(self, result: JobResult) -> None:
        bad_lines = self._evaluation.bad_lines
        for spot in result.skipped:
            bad_lines(self._bad_line(spot))
        bad_lines.count += result.skipped_count - len(result.skipped)
        if result.first_bad_line is not None:
            raise self._bad_line(result.first_bad_line)
        if result.error:
            raise EnvironmentFailure(result.error)

    def _bad_line(self, location: BadLineAt) -> BadLine:
        place = f"{self._config.contexts}:{self._line + location.line}"
        return BadLine(place, [Problem("", problem) for problem in location.problems])


def _lines_before(name: str, end: int) -> int:
    """The number of lines before an offset in a file, to give a bad line its number."""
    count = 0
    with Path(name).open("rb") as file:
        while end > 0 and (block := file.read(min(end, 1 << 20))):
            count += block.count(b"\n")
            end -= len(block)
    return count
