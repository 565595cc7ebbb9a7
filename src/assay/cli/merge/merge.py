"""`assay merge`: the results of all shards of a run as one run, with its summary and its exit code."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from assay.cli.console.console import count_of
from assay.cli.evaluate.bars import read_bars, results_of, slice_sink, with_check_names
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.cli.evaluate.evaluate_report import Outcome, exit_code_of, report
from assay.cli.evaluate.inputs_outputs import BadLines, Inputs
from assay.errors import EnvironmentFailure, InvalidRequest, Refusal, UsageError
from assay.fep.outputs.failing_cases import FailingCases
from assay.fep.outputs.part_manifest import CheckColumn, PartManifest, read_manifest
from assay.fep.outputs.resume import StoredResult, count_result
from assay.fep.outputs.run_result import metadata_of
from assay.fep.outputs.sinks import Sink, sink_for
from assay.inputs.input_digests import InputDigests, other_input
from assay.ports import SystemClock
from assay.results.run_end import RunEnd, RunFooter, without_end
from assay.results.tally import Tally
from assay.runs.intake import new_id


class _TestCase(Struct):
    id: str
    input: Any


class _Context(Struct):
    test_case: _TestCase


class _PartResult(StoredResult, kw_only=True):
    execution_context: _Context


_read = msgspec.json.Decoder(_PartResult).decode


class Part(NamedTuple):
    name: str
    manifest: PartManifest

    @property
    def number(self) -> int:
        return self.manifest.shard[0]


def main(names: Sequence[str], options: EvaluateOptions) -> int:
    """Read the manifests, refuse parts that are not all of one run, and write what they are together."""
    began = time.perf_counter()
    parts = _complete_run([Part(name, read_manifest(name)) for name in names])
    merged = MergedParts(options, parts)
    outcome = merged.merge()
    outcome = outcome._replace(seconds=time.perf_counter() - began)
    report(merged, outcome)
    return exit_code_of(merged, outcome)


def _complete_run(parts: Sequence[Part]) -> list[Part]:
    """The parts in their order. Raises UsageError unless they are every part of one run."""
    first = parts[0]
    for part in parts[1:]:
        for what, one, other in (
            ("checks and options", first.manifest.checks, part.manifest.checks),
            ("inputs", first.manifest.inputs, part.manifest.inputs),
            ("number of shards", first.manifest.shard[1], part.manifest.shard[1]),
        ):
            if one != other:
                raise UsageError(f"{part.name}: expected the {what} of {first.name}, got others")
    by_number: dict[int, Part] = {}
    for part in parts:
        if (earlier := by_number.setdefault(part.number, part)) is not part:
            raise UsageError(
                f"{part.name}: expected another shard than {earlier.name}, got shard {part.number} again"
            )
    count = first.manifest.shard[1]
    if missing := [number for number in range(1, count + 1) if number not in by_number]:
        listed = ", ".join(f"{number}/{count}" for number in missing[:10])
        more = f" and {len(missing) - 10:,} more" if len(missing) > 10 else ""
        raise UsageError(
            f"expected the results of {count_of(count, 'shard')}, got {len(parts):,}; there is none of {listed}{more}"
        )
    return [by_number[number] for number in sorted(by_number)]


class MergedParts:
    """The parts of a run as an evaluation that has ended: what a report reads of it."""

    agent = baseline = until = None
    targets = ()

    def __init__(self, options: EvaluateOptions, parts: Sequence[Part]) -> None:
        self.options, self._parts = options, parts
        first = parts[0].manifest
        self._labels: list[CheckColumn] = first.labels
        self._types = {one.label: one.type for one in first.labels}
        self.inputs = Inputs(iter(()), None)
        self.tally, self.failing, self.bad_lines = Tally(), FailingCases(), BadLines()
        self.bad_lines.count = sum(part.manifest.bad_lines for part in parts)
        self.bars = with_check_names(read_bars(options.bars, options.by), self._types, options.by)
        self._slices = slice_sink(self.bars, first.columns)
        _check_distinct(options.to, parts)
        self._sinks: list[Sink] = [sink_for(name, first.columns) for name in options.to]

    def merge(self) -> Outcome:
        """Copy every result, count it, and close every file."""
        started = SystemClock().now()
        try:
            self._count_all()
        except (EnvironmentFailure, InvalidRequest) as refusal:
            return self._close(started, refusal)
        return self._close(started, None)

    def _count_all(self) -> None:
        sinks = [*self._sinks, self.failing, *([self._slices] if self._slices else [])]
        labels = tuple(one.label for one in self._labels)
        answers = self.tally.answers(labels)
        answers.declare([one.ranges for one in self._labels])
        inputs, places = InputDigests(), _Places()
        for name, number, line in self._lines(places):
            case = _read(line)
            about = case.execution_context.test_case
            at = self.tally.cases
            if (earlier := inputs.add(about.id, about.input, at)) is not None:
                raise InvalidRequest(other_input(about.id, f"{name}:{number} and {places.place_of(earlier)}"))
            count_result(case, about.id, answers, self.tally, at)
            for sink in sinks:
                sink.write(line)

    def _lines(self, places: "_Places") -> Iterator[tuple[str, int, bytes]]:
        """The results of all parts, without what the last one of a part says of its end."""
        for part in self._parts:
            places.begin(part.name, self.tally.cases)
            with Path(part.name).open("rb") as file:
                for number, line in enumerate(file, 1):
                    text = line.rstrip(b"\n")
                    yield part.name, number, without_end(text) if number == part.manifest.results else text

    def _close(self, started: Any, error: Refusal | None) -> Outcome:
        tally, bad_lines = self.tally, self.bad_lines.count
        planned = sum(part.manifest.results for part in self._parts)
        footer = RunFooter(
            evaluation_id=new_id("eval_"),
            started_at=started,
            completed_at=SystemClock().now(),
            status="error" if error or bad_lines else tally.status,
            summary=tally.summary(),
            metadata=metadata_of(tally) or None,
            error=str(error or ""),
            end=RunEnd(planned=planned + bad_lines, results=tally.cases, complete=not (error or bad_lines)),
        )
        for sink in self._sinks:
            try:
                sink.close(footer)
            except EnvironmentFailure as failure:
                error = error or failure
        slices = list(self._slices.rates()) if self._slices else []
        bars = results_of(self.bars, tally, self._types, slices)
        if error is not None:
            bars = [one._replace(share=None, problem="the merge stopped before its end") for one in bars]
        return Outcome(footer, error, 0.0, slices, bars, partial=error is not None)


class _Places:
    """Where a result stands, from its number in the run."""

    def __init__(self) -> None:
        self._starts: list[tuple[int, str]] = []

    def begin(self, name: str, start: int) -> None:
        self._starts.append((start, name))

    def place_of(self, number: int) -> str:
        start, name = max(one for one in self._starts if one[0] <= number)
        return f"{name}:{number - start + 1}"


def _check_distinct(outputs: Sequence[str], parts: Sequence[Part]) -> None:
    inputs = {Path(part.name).resolve() for part in parts}
    for at, name in enumerate(outputs):
        if Path(name).resolve() in inputs:
            raise UsageError(
                f"-o {name}: expected another file than the parts, because one would destroy the other"
            )
        if name in outputs[:at]:
            raise UsageError(f"-o {name}: expected another file, got it twice")
