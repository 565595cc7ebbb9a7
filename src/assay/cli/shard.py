"""A worker of `--jobs`: ranges in on standard input, counts out on standard output, results into given files."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from assay import app
from assay.backends.provider_config import ProviderPolicy
from assay.checks.run import Options
from assay.cli.shards import BadLineAt, ByteRange, JobResult, WorkerConfig
from assay.errors import BadLine, Refusal
from assay.fep.context import Context
from assay.fep.execute import ExecutionOptions, score, stream
from assay.fep.files import SourceItem
from assay.fep.plan import Plan
from assay.fep.request import checks_from
from assay.fep.sources import Source, planned
from assay.fep.tally import Tally
from assay.settings import load

LISTED = 10


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    asks, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)  # what a check prints must not disturb the answers
    brief = msgspec.json.decode(asks.readline(), type=WorkerConfig)
    worker = _Worker(brief)
    for line in asks:
        done = worker.work(msgspec.json.decode(line, type=ByteRange))
        sys.stdout.flush()  # what checks printed: who has all answers kills this process
        answers.write(msgspec.json.encode(done) + b"\n")


class _Worker:
    def __init__(self, brief: WorkerConfig) -> None:
        self._brief = brief
        settings = msgspec.structs.replace(load(), limits=brief.limits, check_modules=[])
        checks = checks_from(msgspec.json.decode(brief.checks))
        options = Options(resolved_arguments=brief.resolved_arguments, timings=brief.timings)
        policy = ProviderPolicy(seconds=brief.seconds, share=brief.share)
        services = app.services(settings, policy, cache=brief.cache)
        self._plan = Plan(checks, app.registry(settings, brief.modules), services, options)
        self._files = [os.fdopen(number, "wb", 1 << 18) for number in brief.files]
        self._how = ExecutionOptions(concurrency=brief.concurrency, seconds=brief.seconds)

    def work(self, span: ByteRange) -> JobResult:
        began = time.monotonic()
        range_ = _Range(self._brief, span)
        tally = Tally(part=True)
        file = self._files[span.file]
        file.seek(0)
        write = file.write if self._brief.write else len
        stopped: BadLineAt | None = None
        trouble = ""
        try:
            self._score(range_.source, tally, write)
        except BadLine as bad:
            stopped = BadLineAt(range_.line, [str(problem) for problem in bad.found])
        except Refusal as refusal:  # checks of a case that are none
            stopped = BadLineAt(range_.line, str(refusal).splitlines())
        except OSError as wrong:
            trouble = f"{self._brief.contexts}: cannot be read: {wrong.strerror}"
        try:
            file.flush()
        except OSError as wrong:
            trouble = f"the temporary folder: cannot be written: {wrong.strerror}"
        return JobResult(
            size=file.tell(),
            lines=range_.line,
            seconds=time.monotonic() - began,
            tally=tally.record(),
            skipped=range_.bad,
            many_skipped=range_.many_bad,
            stopped=stopped,
            trouble=trouble,
        )

    def _score(self, source: Source, tally: Tally, put: Callable[[bytes], object]) -> None:
        if self._plan.shared is not None and not self._plan.shared.waits:
            for scored in score(self._plan, source, tally):
                put(scored.line + b"\n")
        else:
            asyncio.run(self._wait(planned(source, source, self._plan), tally, put))

    async def _wait(self, contexts: Iterator[Context], tally: Tally, put: Callable[[bytes], object]) -> None:
        try:
            async for scored in stream(self._plan, contexts, tally, self._how):
                put(scored.line + b"\n")
        finally:
            await self._plan.services.close()


class _Range:
    """The lines that begin in a range of a file."""

    def __init__(self, brief: WorkerConfig, span: ByteRange) -> None:
        self.line = 0
        self.bad: list[BadLineAt] = []
        self.many_bad = 0
        on_bad = self._on_bad if brief.skip_bad_lines else None
        self.source = Source(self._pieces(brief.contexts, span), brief.limits, on_bad)

    def _on_bad(self, bad: BadLine) -> None:
        self.many_bad += 1
        if len(self.bad) < LISTED:
            self.bad.append(BadLineAt(self.line, [str(problem) for problem in bad.found]))

    def _pieces(self, name: str, span: ByteRange) -> Iterator[SourceItem]:
        with Path(name).open("rb", buffering=1 << 18) as file:
            if span.start > 0:  # what began before is another range's
                file.seek(span.start - 1)
                file.readline()
            yield from self._lines(file, name, span)

    def _lines(self, file: IO[bytes], name: str, span: ByteRange) -> Iterator[SourceItem]:
        at = file.tell()
        while at < span.end and (line := file.readline()):
            self.line += 1
            first = at == 0
            at += len(line)
            if line := (line.removeprefix(b"\xef\xbb\xbf") if first else line).strip():
                yield SourceItem(name, line, at)


if __name__ == "__main__":
    main()
