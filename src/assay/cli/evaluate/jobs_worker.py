"""
A worker process of `--jobs`: it reads ranges on standard input, answers counts on standard output, and writes results
to inherited files.
"""

import errno
import os
import signal
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from assay.backends.provider_config import ProviderPolicy
from assay.checks.runner import ResultOptions
from assay.cli.evaluate.jobs import BadLineAt, ByteRange, JobResult, RangeInputs, WorkerConfig
from assay.concurrency.workers import machine, pool
from assay.errors import BadLine, Problem, Refusal
from assay.fep.execution.execute import Execution, ExecutionOptions
from assay.fep.outputs.failing_cases import FailingCases
from assay.fep.planning.plan import Plan
from assay.fep.planning.request import checks_from
from assay.fep.planning.scorer import ScoredCase
from assay.fep.planning.sources import Source, valid_contexts
from assay.host import parts
from assay.inputs.files import SourceItem
from assay.inputs.input_digests import digest_of
from assay.inputs.portions import next_line, seek_line
from assay.results.tally import Tally
from assay.settings import load

LISTED = 10
Writer = Callable[[bytes], object]
NoteCase = Callable[[ScoredCase, bytes], None]


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)  # prints of checks must not mix with the answers
    config = msgspec.json.decode(requests.readline(), type=WorkerConfig)
    worker = _Worker(config)
    for line in requests:
        result = worker.run(msgspec.json.decode(line, type=ByteRange))
        sys.stdout.flush()  # prints of checks: the parent kills this process after the last answer
        try:
            answers.write(msgspec.json.encode(result) + b"\n")
        except BrokenPipeError:
            break
    os._exit(0)  # the parent has ended: there is nothing to take apart or to report


class _Worker:
    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        settings = msgspec.structs.replace(load(), limits=config.limits, check_modules=[])
        checks = checks_from(msgspec.json.decode(config.checks))
        options = ResultOptions(resolved_arguments=config.resolved_arguments, timings=config.timings)
        policy = ProviderPolicy(seconds=config.seconds, share=config.share)
        services = parts.services(settings, policy, cache=config.cache)
        self._plan = Plan(checks, parts.registry(settings, config.modules), services, options)
        self._files = [os.fdopen(number, "wb", 1 << 18) for number in config.files]
        pool.resize(
            max(2, -(-machine.default_size() // config.share))
        )  # two at least: one owner may use all but one
        self._execution = ExecutionOptions(concurrency=config.concurrency, seconds=config.seconds)

    def run(self, part: ByteRange) -> JobResult:
        began = time.monotonic()
        range_ = _Range(self._config, part)
        tally, failing = Tally(part=True), FailingCases()
        file = self._files[part.file]
        file.seek(0)
        write = file.write if self._config.write else len
        first_bad_line: BadLineAt | None = None
        error = ""
        try:
            self._score(range_.source, tally, write, failing.note_case)
        except BadLine as bad:
            first_bad_line = BadLineAt(range_.line, [str(problem) for problem in bad.line_problems])
        except Refusal as refusal:  # the checks of a case are invalid
            first_bad_line = BadLineAt(range_.line, str(refusal).splitlines())
        except OSError as wrong:
            error = f"{self._config.contexts}: expected a file that can be read, got {wrong.strerror}"
        try:
            file.flush()
        except OSError as wrong:
            error = f"the temporary folder: expected a file that can be written, got {wrong.strerror}"
        return JobResult(
            start=part.start,
            inputs=range_.inputs.record() if part.inputs else None,
            size=file.tell(),
            lines=range_.line,
            seconds=time.monotonic() - began,
            tally=tally.record(),
            skipped=range_.bad_lines,
            skipped_count=range_.bad_count,
            first_bad_line=first_bad_line,
            error=error,
            failing=failing.cases,
            all_failing=failing.complete,
        )

    def _score(self, source: Source, tally: Tally, write: Writer, note: NoteCase) -> None:
        contexts = valid_contexts(source, source, self._plan)
        execution = Execution(self._plan, contexts, tally, self._execution)
        for scored in execution.score_in_place():
            line = scored.line
            write(line + b"\n")
            note(scored, line)
        if not execution.is_complete:
            import asyncio  # deferred import, with TLS and sockets: most ranges need no event loop

            asyncio.run(self._score_on_loop(execution, write, note))

    async def _score_on_loop(self, execution: Execution, write: Writer, note: NoteCase) -> None:
        from assay.fep.execution.stream import stream  # deferred import

        try:
            async for scored in stream(execution):
                write(scored.line + b"\n")
                note(scored, scored.line)
        finally:
            await self._plan.services.close()


class _Range:
    """The lines of a file that start in a range."""

    def __init__(self, config: WorkerConfig, part: ByteRange) -> None:
        self.line = 0
        self.bad_lines: list[BadLineAt] = []
        self.bad_count = 0
        on_bad = self._on_bad if config.skip_bad_lines else None
        self.inputs = _RangeInputs(collect=part.inputs)
        self._known_bad = {bad.line: bad.problems for bad in part.bad or ()}
        self.source = Source(self._items(config, part), config.limits, on_bad, inputs=self.inputs)

    def _on_bad(self, line: BadLine) -> None:
        self.bad_count += 1
        if len(self.bad_lines) < LISTED:
            self.bad_lines.append(BadLineAt(self.line, [str(problem) for problem in line.line_problems]))

    def _items(self, config: WorkerConfig, part: ByteRange) -> Iterator[SourceItem]:
        with Path(config.contexts).open("rb", buffering=1 << 18) as file:
            now = os.fstat(file.fileno())
            if (now.st_dev, now.st_ino) != (config.device, config.inode):
                raise OSError(errno.ESTALE, "another file has this name now")
            if part.start > 0:  # a line that started before belongs to the range before
                seek_line(file, part.start)
            yield from self._lines(file, config, part)

    def _lines(self, file: IO[bytes], config: WorkerConfig, part: ByteRange) -> Iterator[SourceItem]:
        at = file.tell()
        while at < part.end:
            line, size = next_line(file, config.limits.max_line_bytes)
            if not size:
                return
            self.line += 1
            first = at == 0
            at += size
            if line := (line.removeprefix(b"\xef\xbb\xbf") if first else line).strip():
                problems = tuple(Problem("", text) for text in self._known_bad.get(self.line, ()))
                yield SourceItem(config.contexts, self.line, line, at, problems)


class _RangeInputs:
    """
    Collects the inputs of a range, if they are wanted. The parent process compares them, because it knows all ranges.
    """

    def __init__(self, *, collect: bool) -> None:
        self._collect = collect
        self._ids: list[str] = []
        self._digests, self._lines = array("I"), array("I")

    def add(self, id: str, value: Any, number: int) -> None:
        if self._collect:
            self._ids.append(id)
            self._digests.append(digest_of(value))
            self._lines.append(number)

    def record(self) -> RangeInputs:
        return RangeInputs(self._ids, self._digests.tobytes(), self._lines.tobytes())


if __name__ == "__main__":
    main()
