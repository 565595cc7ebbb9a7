"""Runs contestants in fresh processes, round by round, and computes the ratios."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from bench.child import Sample, Task

HOME = Path(__file__).resolve().parent.parent
FIXED = HOME.parent / "shared" / "bench" / "limit.py"
Unit = Literal["x", "ms", "MB"]
T = TypeVar("T")
Contestants = Mapping[str, Callable[[], Sample]]


class Row(Struct, frozen=True):
    """One row of the table: the values of all rounds, and the expected value. Without values, `note` gives the reason."""

    name: str
    sense: Literal["at most", "at least"]
    bar: float
    unit: Unit = "x"
    values: list[float] = []
    note: str = ""

    @property
    def measured(self) -> float:
        return median(self.values)

    @property
    def met(self) -> bool:
        return self.measured <= self.bar if self.sense == "at most" else self.measured >= self.bar


class Failed(Exception):
    """A measured process failed, or has other results than the others."""


def side_by_side(contestants: Contestants, rounds: int) -> list[dict[str, Sample]]:
    """Run every contestant once a round. Every other round runs in reverse order."""
    taken = list[dict[str, Sample]]()
    for at in range(rounds):
        names = list(contestants) if at % 2 == 0 else list(contestants)[::-1]
        taken.append({name: contestants[name]() for name in names})
    return taken


def ratios(taken: list[dict[str, Sample]], one: str, other: str) -> list[float]:
    return [samples[one].cpu / samples[other].cpu for samples in taken]


def agree(taken: list[dict[str, Sample]]) -> None:
    """Raise Failed unless all contestants have the same results."""
    found = {name: sample.passed for samples in taken for name, sample in samples.items()}
    if len(set(found.values())) != 1:
        raise Failed(f"the contestants have different numbers of passed checks: {found}")


def run(task: Task) -> Sample:
    """Run a task in a child process."""
    return last_line(
        [sys.executable, "-m", "bench.child", msgspec.json.encode(task).decode()],
        Sample,
    )


def straight(task: Task) -> Sample:
    """Run the anchor: the fixed loop if it exists, else `bench/straight.py`."""
    if not FIXED.exists():
        return run(msgspec.structs.replace(task, work="anchor"))
    Path(task.to).unlink(missing_ok=True)
    line = last_line([sys.executable, str(FIXED), task.contexts, task.to, "straight"], dict[str, Any])
    return Sample(line["cpu_s"], peak_mb=line["rss_mb"], passed=line["passed"])


def last_line(command: list[str], kind: type[T]) -> T:
    done = subprocess.run(command, cwd=HOME, env=environment(), capture_output=True, text=True, check=False)
    try:
        return msgspec.json.decode(done.stdout.strip().rpartition("\n")[2], type=kind)
    except msgspec.DecodeError:
        raise Failed(f"{' '.join(command[:3])}: {done.stderr.strip()[-2000:]}") from None


def cpu_of(command: list[str], rounds: int, folder: Path = HOME) -> list[float]:
    """Return the CPU milliseconds of fresh processes. The first process may write bytecode and does not count."""
    spent = list[float]()
    for _ in range(rounds + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=folder, env=environment(), stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return spent[1:]


def environment() -> dict[str, str]:
    """Return the environment without variables that change the work: settings, and PYTHONDONTWRITEBYTECODE."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("ASSAY_") and name != "PYTHONDONTWRITEBYTECODE"
    }
