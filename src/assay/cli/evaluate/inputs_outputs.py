"""Input and output of `assay evaluate`: its options, the source of its cases, and the files its results go to."""

import shlex
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from assay.cli.console.console import count_of, echo_err
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.errors import BadLine, EnvironmentFailure, Problem, Refusal, UsageError
from assay.fep.outputs import resume
from assay.fep.outputs.sinks import TABLES, JsonlSink, Sink, sink_for
from assay.fep.planning.plan import Plan
from assay.fep.planning.request import RequestContexts
from assay.fep.planning.sources import (
    OnBad,
    Source,
    checks_in,
    from_cases,
    from_contexts,
    from_pair,
    from_request,
)
from assay.inputs.context import Context
from assay.inputs.files import format_of
from assay.inputs.places import NO_PLACES, Places
from assay.inputs.rows import ROW_KINDS, read_map
from assay.protocol.evaluation import ExperimentMetadata
from assay.results.run_end import RunEnd
from assay.results.run_part import RunPart
from assay.results.tally import Tally
from assay.settings import Settings

if TYPE_CHECKING:
    from assay.cli.evaluate.case_choice import CaseChoice

LISTED = 10  # bad lines that are printed one by one


class BadLines:
    """Counts the lines that are not contexts, and prints the first of them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, line: BadLine) -> None:
        self.count += 1
        if self.count <= LISTED:
            for problem in line.problems:
                echo_err(f"skipped {problem}")


class Inputs(Struct):
    """The cases, their number if it is known, and the checks."""

    contexts: Iterator[Context]
    checks: Any  # as in the file; a Plan's after planning
    experiment: ExperimentMetadata | None = None
    total: int | None = None
    source: Source | None = None
    size: int = 0  # bytes of the input, if reading it shows the progress
    request_contexts: RequestContexts | None = (
        None  # a request file is read whole, to refuse it before anything runs
    )
    problems: list[Problem] = []  # of a request file
    choice: "CaseChoice | None" = None  # of --only

    def columns(self, options: EvaluateOptions) -> Places:
        """
        The columns of the table that is the input, if the results keep them or slices may be by one. Where an agent
        answers, those of the outputs are gone.
        """
        answered = options.agent is not None
        kept = (
            answered
            or options.save
            or options.by
            or options.shard
            or any(name.endswith(TABLES) for name in options.to)
        )
        if self.source is None or not kept:
            return NO_PLACES
        if self.source.streamed and not self.source.columns:
            self.contexts = read_ahead(self.contexts)
        columns = self.source.columns
        return {name: place for name, place in columns.items() if not answered or place[0] != "output"}

    @property
    def part(self) -> float | None:
        """The fraction of the input that was read."""
        return self.source.read / self.size if self.source and self.size else None


def open_inputs(options: EvaluateOptions, settings: Settings, bad_lines: BadLines) -> Inputs:
    """Open the one source of cases that the options name."""
    _check_sources(options)
    limits = settings.limits
    checks = checks_in(options.checks, limits) if options.checks else None
    if options.experiment and not options.experiment.isprintable():
        raise UsageError("--experiment: expected a name of printable characters")
    experiment = ExperimentMetadata(name=options.experiment) if options.experiment else None
    columns = read_map(options.columns)
    if options.traces:
        return _from_traces(options, checks, experiment, settings, bad_lines)
    if options.request and columns:
        raise UsageError(
            "--map: expected --contexts, --cases or --outputs, whose columns it names; got a request file"
        )
    if options.request:
        return _from_request(options.request, checks, experiment, options, settings)

    def open_source(on_bad: OnBad | None) -> Source:
        if options.contexts:
            return from_contexts(options.contexts, limits, on_bad, columns, options.shard)
        if options.outputs is None:
            return from_cases(str(options.cases), limits, on_bad, columns)
        return from_pair(str(options.cases), str(options.outputs), limits, on_bad, columns)

    choice = _choice(options, settings, open_source)
    source = open_source(bad_lines if options.skip_bad_lines else None)
    size = 0 if options.limit or options.shard or choice else _size(options.contexts or str(options.cases))
    contexts = _chosen(source, choice, options)
    return Inputs(contexts, checks, experiment, source=source, size=size, choice=choice)


def _choice(
    options: EvaluateOptions, settings: Settings, open_source: Callable[[OnBad | None], Iterable[Context]]
) -> "CaseChoice | None":
    """The cases of --only. The input is read once for their ids, if it is a file."""
    if not options.only:
        return None
    if options.resume:
        raise UsageError("--only and --resume: expected one of them, got both; --resume has cases of its own")
    from assay.cli.evaluate.case_choice import (  # deferred import: most runs choose nothing
        CaseChoice,
        case_id,
    )

    known = None
    if "-" not in options.inputs:
        known = dict.fromkeys(case_id(one) for one in open_source(lambda _: None))
    return CaseChoice(options, options.only, settings, known)


def _chosen(
    contexts: Iterable[Context], choice: "CaseChoice | None", options: EvaluateOptions
) -> Iterator[Context]:
    if choice is None:
        return islice(iter(contexts), options.limit)
    from assay.cli.evaluate.case_choice import case_id  # deferred import: most runs choose nothing

    return choice.select(contexts, options.limit, case_id)


def _check_sources(options: EvaluateOptions) -> None:
    """Refuse several sources of cases, and half of one."""
    sources = {
        "FILE": options.request,
        "--contexts": options.contexts,
        "--cases and --outputs": options.cases or options.outputs,
        "--traces": options.traces,
    }
    names = [name for name, value in sources.items() if value]
    if len(names) != 1:
        raise UsageError(f"expected one of {', '.join(sources)}; got {' and '.join(names) or 'none'}")
    if [*options.inputs, options.checks].count("-") > 1:
        raise UsageError("expected at most one '-' (standard input), got several")
    if options.agent is None and options.outputs is None and options.cases is not None:
        checks = f" --checks {shlex.quote(options.checks)}" if options.checks else ""
        hint = f"if it has the outputs too: assay evaluate {shlex.quote(options.cases)}{checks}"
        table = format_of(options.cases, "jsonl")[0] in ROW_KINDS
        raise UsageError(
            f"--cases {options.cases}: expected --outputs or --agent with it", *([hint] if table else [])
        )
    if options.outputs is not None and options.cases is None:
        raise UsageError(f"--outputs {options.outputs}: expected --cases with it")


def _from_traces(
    options: EvaluateOptions,
    checks: Any,
    experiment: ExperimentMetadata | None,
    settings: Settings,
    bad_lines: BadLines,
) -> Inputs:
    if options.columns:
        raise UsageError(
            "--map: expected --contexts, --cases or --outputs, whose columns it names; got traces"
        )
    from assay.api.kept_traces import read_kept  # deferred imports: most runs read no traces
    from assay.backends.models.prices import published_cost
    from assay.fep.planning.sources import from_traces

    def open_source(on_bad: OnBad | None) -> Source:
        return from_traces(options.traces, settings.limits, on_bad, published_cost, read_kept)

    choice = _choice(options, settings, open_source)
    source = open_source(bad_lines if options.skip_bad_lines else None)
    return Inputs(_chosen(source, choice, options), checks, experiment, source=source, choice=choice)


def _from_request(
    name: str,
    checks: Any,
    experiment: ExperimentMetadata | None,
    options: EvaluateOptions,
    settings: Settings,
) -> Inputs:
    parsed, own_checks, own_experiment, problems = from_request(name, settings.limits)
    if checks is not None and own_checks is not None:
        raise UsageError(f"--checks {options.checks}: expected checks there or in {name}, got both")
    choice = None if problems else _choice(options, settings, lambda _: parsed.contexts)
    contexts = list(_chosen(parsed.contexts, choice, options))
    return Inputs(
        iter(contexts),
        own_checks if checks is None else checks,
        experiment or own_experiment,
        len(contexts),
        request_contexts=parsed,
        problems=problems,
        choice=choice,
    )


def _size(name: str) -> int:
    path = Path(name)
    return path.stat().st_size if name != "-" and path.suffix != ".gz" and path.is_file() else 0


def open_sinks(
    options: EvaluateOptions,
    plan: Plan,
    inputs: Inputs,
    tally: Tally,
    counters: Sequence[Sink] = (),
) -> list[Sink]:
    """
    Open the files for results. `counters` receive every result too. With --resume one `.jsonl` is continued, and the
    others are written again from it.
    """
    _check_distinct(options)
    columns = inputs.columns(options)
    if options.agent is not None:
        return [
            *(sink_for(name, columns) for name in options.to),
            *counters,
        ]  # written from the run, also with --resume
    if options.save and options.resume:
        asked = "--to, which stores the run," if options.send else "--save"
        raise UsageError(f"{asked} and --resume: expected one of them, got both")
    names = [name for name in options.to if name.endswith((".jsonl", ".ndjson"))]
    regular = [name for name in names if not Path(name).exists() or Path(name).is_file()]
    if not options.resume:
        sinks = [*(sink_for(name, columns) for name in options.to), *counters]
        for name in regular:
            resume.write_fingerprint(name, resume.fingerprint(plan, options.inputs))
        return sinks
    if len(regular) != 1:
        raise UsageError(f"--resume: expected one .jsonl file that -o names, got {len(regular)}")
    (name,) = regular
    fingerprint = resume.fingerprint(plan, options.inputs)
    if Path(name).exists() and Path(name).stat().st_size:
        resume.check_fingerprint(name, fingerprint)
    others = [*(sink_for(other, columns) for other in options.to if other != name), *counters]
    for line in resume.read_existing(name, inputs.contexts, plan, tally):
        for sink in others:
            sink.write(line)
    if tally.cases:
        echo_err(f"{name} already has {count_of(tally.cases, 'result')}")
    sink = JsonlSink(name, append=True)
    resume.write_fingerprint(name, fingerprint)
    return [sink, *others]


def read_ahead(contexts: Iterator[Context]) -> Iterator[Context]:
    """The contexts, the first of which is read now. What is wrong with it is raised when it is asked for."""
    try:
        first = next(contexts, None)
    except UsageError:  # the columns are unclear: nothing is opened for it
        raise
    except Refusal as refusal:
        return _refused(refusal)
    return contexts if first is None else chain([first], contexts)


def _refused(refusal: Refusal) -> Iterator[Context]:
    raise refusal
    yield  # a generator: it raises when the first context is asked for


def run_end(
    results: int,
    chosen: RunPart | None,
    bad_lines: int,
    inputs: Inputs,
    options: EvaluateOptions,
    of_agent: int | None,
    *,
    ended: bool,
) -> RunEnd:
    """Whether the results are all that were planned. `of_agent`: the results that were planned for an agent."""
    part = chosen or UNSET
    if ended:
        complete = not bad_lines and part is UNSET
        return RunEnd(planned=results + bad_lines, results=results, complete=complete, part=part)
    planned = of_agent if of_agent is not None else inputs.total
    if planned is None and part is UNSET and options.agent is None and options.contexts is not None:
        planned = _count_lines(options.contexts, options.limit)
    return RunEnd(planned=planned, results=results, complete=False, part=part)


def _count_lines(name: str, limit: int | None) -> int | None:
    """The lines of a file of contexts; None for anything else."""
    if name == "-" or not Path(name).is_file() or format_of(name, "jsonl") != ("jsonl", False):
        return None
    with Path(name).open("rb") as file:
        lines = sum(bool(line.strip()) for line in file)
    return lines if limit is None else min(limit, lines)


def _check_distinct(options: EvaluateOptions) -> None:
    """Refuse an output that is also an input or another output: writing it would destroy the other."""
    files = {
        Path(name).resolve(): f"-o {{}} is the input {name}"
        for name in (*options.inputs, options.checks)
        if name and name != "-"
    }
    for name in options.to:
        path = Path(name).resolve()
        if not (path.exists() and not path.is_file()):  # a device can be written twice
            if path in files:
                raise UsageError(
                    f"expected other files, because one would destroy the other: {files[path].format(name)}"
                )
            files[path] = f"-o {{}} is given twice, also as {name}"


def flush(sinks: list[Sink]) -> None:
    for sink in sinks:
        sink.flush()


@contextmanager
def flush_on_error(sinks: list[Sink]) -> Generator[None]:
    """Write the results that are done before the exception is raised again."""
    try:
        yield
    except BaseException:  # raised again: only the results come first
        with suppress(EnvironmentFailure):
            flush(sinks)
        raise
