"""Other frameworks on the first workload: their CPU time divided by that of assay."""

import time
from collections.abc import Callable
from pathlib import Path

from bench import neighbours
from bench.child import Sample, Task
from bench.files import Bench
from bench.measure import Row, agree, last_line, ratios, run, side_by_side

LONG = 60.0  # seconds: a slower contestant runs one round only
ABSENT = "not measured: it could not be installed here"


def flex(bench: Bench) -> list[Row]:
    """Compare flex-evals from file to file with the command, and its `evaluate` in memory with ours."""
    task = bench.task(bench.size(10_000))
    many = f"{bench.size(10_000):,}"
    names = (
        f"flex-evals at {many}, file to file: its CPU to that of the command",
        f"flex-evals at {many}, in memory: its CPU to that of `evaluate_sync`",
    )
    memory = Task(work="library", contexts=task.contexts, checks=task.checks)
    taken, note = _rounds("flex", bench, task, {"library": lambda: run(memory)})
    alone = [one["flex"].inner / one["library"].cpu for one in taken]
    return [
        Row(names[0], "at least", 80.0, values=ratios(taken, "flex", "assay"), note=note),
        Row(names[1], "at least", 60.0, values=alone, note=note),
    ]


def pydantic(bench: Bench) -> list[Row]:
    task = bench.task(bench.size(10_000))
    name = f"pydantic-evals at {bench.size(10_000):,}, file to file: its CPU to that of the command"
    taken, note = _rounds("pydantic", bench, task, {})
    return [Row(name, "at least", 25.0, values=ratios(taken, "pydantic", "assay"), note=note)]


def _rounds(
    name: str, bench: Bench, task: Task, more: dict[str, Callable[[], Sample]]
) -> tuple[list[dict[str, Sample]], str]:
    """Return the rounds and a note; no rounds if the framework cannot be installed."""
    python = neighbours.python_of(name)
    if python is None:
        return [], ABSENT
    contestants = {"assay": lambda: run(task), **more, name: lambda: _neighbour(name, python, task)}
    began = time.monotonic()
    taken = side_by_side(contestants, 1)
    long = time.monotonic() - began > LONG
    taken += side_by_side(contestants, 0 if long else bench.rounds() - 1)
    agree(taken)
    return taken, "one round: it takes over a minute" if long else ""


def _neighbour(name: str, python: Path, task: Task) -> Sample:
    results = task.to.replace(".jsonl", f"-{name}.json")
    sample = last_line(
        [str(python), neighbours.script_of(name), task.contexts, task.checks or "", results], Sample
    )
    Path(results).unlink()
    return sample
