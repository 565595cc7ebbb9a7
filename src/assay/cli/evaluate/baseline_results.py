"""`assay evaluate --baseline`: the results of the run, collected as they are written, beside an earlier run or file."""

import asyncio
import shlex
from typing import Any

import msgspec
from msgspec import UNSET

from assay.api.sources import open_sources
from assay.cli.console.console import echo, echo_err
from assay.comparison.compare import RunComparison, compare_runs
from assay.comparison.run_scores import ReadOptions, RunScores
from assay.comparison.wording import about_cases, counts_line, verdict_line
from assay.errors import Refusal
from assay.extras import require
from assay.results.run_end import RunFooter


class ScoresSink:
    """A sink of results that keeps their numbers, for a comparison."""

    name = "comparison"

    def __init__(self, name: str, read: ReadOptions) -> None:
        self.scores = RunScores(name, read)

    def write(self, line: bytes) -> None:
        self.scores.add(line, self.scores.name)

    def flush(self) -> None:
        """Nothing is written to a file."""

    def close(self, footer: RunFooter) -> None:
        """Note which part of its cases the run has. The comparison is made after the run."""
        part = UNSET if footer.end is None else footer.end.part
        if part is not UNSET:
            self.scores.note_part(part)


class BaselineSink(ScoresSink):
    """The results beside a baseline. It is read first, so that a wrong one is refused before the run."""

    name = "--baseline"

    def __init__(self, reference: str, read: ReadOptions) -> None:
        require("a comparison", "compare")
        self._baseline = read_baseline(reference, read)
        super().__init__("this run", read)

    def document(self) -> dict[str, Any]:
        """The comparison for `--json`, or why there is none."""
        compared = self._compared()
        return {"error": str(compared)} if isinstance(compared, Refusal) else msgspec.to_builtins(compared)

    def show(self, results: str | None, *, to_stderr: bool) -> None:
        """
        Print the verdict as `assay compare` does; on standard error where standard output has the results.

        `results` is the run or the file that holds the results of this run. The last line says how to list the cases
        that changed.
        """
        compared, put = self._compared(), echo_err if to_stderr else echo
        if isinstance(compared, Refusal):
            echo_err(f"--baseline: {compared}")
            return
        pair = compared.comparisons[0]
        put(f"against {pair.baseline_title}: {verdict_line(pair.result)}")
        put(counts_line(pair, compared))
        for line in about_cases(pair):
            put(line)
        if pair.better or pair.worse:
            command = None if results is None else shlex.join(["assay", "compare", pair.baseline, results])
            put(
                f"cases that changed, with both reasons: {command or 'add --save or -o FILE.jsonl to list them'}"
            )

    def _compared(self) -> RunComparison | Refusal:
        try:
            return compare_runs([self._baseline, self.scores])
        except Refusal as refusal:
            return refusal


def read_baseline(reference: str, read: ReadOptions) -> RunScores:
    """The numbers of an earlier run or file."""
    return asyncio.run(_read(reference, read))


async def _read(reference: str, read: ReadOptions) -> RunScores:
    async with open_sources([reference], ["baseline"], None) as (source,):
        return await source.scores(read)
