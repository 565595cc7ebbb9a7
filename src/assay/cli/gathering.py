"""What an evaluation is about: the one way in that was chosen, its contexts and its checks."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.cli.asked import EvaluateOptions
from assay.cli.say import say
from assay.errors import BadLine, Problem, UsageError
from assay.fep.context import Context
from assay.fep.request import RequestContexts
from assay.fep.sources import Source, checks_in, from_contexts, from_pair, from_request
from assay.protocol.evaluation import ExperimentMetadata
from assay.settings import Settings

LISTED = 10  # bad lines named one by one


class BadLines:
    """Lines that were no contexts: counted, and the first of them named."""

    def __init__(self) -> None:
        self.many = 0

    def __call__(self, bad: BadLine) -> None:
        self.many += 1
        if self.many <= LISTED:
            for problem in bad.problems:
                say(f"skipped {problem}")


class Inputs(Struct):
    """The cases, how many if that is known, and the checks."""

    contexts: Iterator[Context]
    checks: Any  # as they were given, until they are planned
    experiment: ExperimentMetadata | None = None
    total: int | None = None
    source: Source | None = None
    size: int = 0  # of the input, where reading it shows how far the run is
    found: RequestContexts | None = None  # all there, so that everything can be refused before it runs
    problems: list[Problem] = []  # of a request file

    @property
    def part(self) -> float | None:
        return self.source.read / self.size if self.source and self.size else None


def open_inputs(asked: EvaluateOptions, settings: Settings, bad: BadLines) -> Inputs:
    """The other ways in must be absent."""
    ways = {
        "REQUEST": asked.request,
        "--contexts": asked.contexts,
        "--cases and --outputs": asked.cases or asked.outputs,
    }
    given = [name for name, value in ways.items() if value]
    if len(given) != 1:
        raise UsageError(f"expected one of {', '.join(ways)}; got {' and '.join(given) or 'none'}")
    if [*asked.inputs, asked.checks].count("-") > 1:
        raise UsageError("only one file can come from standard input ('-')")
    if (asked.cases is None) != (asked.outputs is None):
        raise UsageError("--cases and --outputs go together, and one is missing")
    limits = settings.limits
    checks = checks_in(asked.checks, limits) if asked.checks else None
    if asked.experiment and not asked.experiment.isprintable():
        raise UsageError("--experiment: expected a name of printable characters")
    named = ExperimentMetadata(name=asked.experiment) if asked.experiment else None
    if asked.request:
        return _from_request(asked.request, checks, named, asked, settings)
    on_bad = bad if asked.skip_bad_lines else None
    if asked.contexts:
        source = from_contexts(asked.contexts, limits, on_bad)
    else:
        source = from_pair(str(asked.cases), str(asked.outputs), limits, on_bad)
    size = 0 if asked.limit else _size(asked.contexts or str(asked.cases))
    return Inputs(islice(iter(source), asked.limit), checks, named, source=source, size=size)


def _from_request(
    name: str, checks: Any, named: ExperimentMetadata | None, asked: EvaluateOptions, settings: Settings
) -> Inputs:
    found, theirs, experiment, problems = from_request(name, settings.limits)
    if checks is not None and theirs is not None:
        raise UsageError(f"{name} has checks, and so has --checks {asked.checks}: give one of them")
    some = found.contexts[: asked.limit]
    checks = theirs if checks is None else checks
    return Inputs(iter(some), checks, named or experiment, len(some), found=found, problems=problems)


def _size(name: str) -> int:
    path = Path(name)
    return path.stat().st_size if name != "-" and path.suffix != ".gz" and path.is_file() else 0
