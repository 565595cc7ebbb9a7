"""Judges with a local provider: the time compared with the waiting itself."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from statistics import median

from bench.child import Sample, Task
from bench.files import Bench
from bench.measure import HOME, Failed, Row, run

TRIES = 3


def judges(bench: Bench) -> list[Row]:
    """Measure complete judges: prompts, schemas, prices, results."""
    many, concurrency, seconds = 500, 64, 0.05
    ideal = -(-many // concurrency) * seconds
    with provider() as address:
        task = Task(work="judging", contexts=address, many=many, concurrency=concurrency, seconds=seconds)
        samples = [_quickest(task) for _ in range(bench.rounds())]
    name = "500 judges of 50 ms, 64 at a time, over HTTP: wall to the ideal"
    values = [sample.wall / ideal for sample in samples]
    cpu = median(sample.cpu for sample in samples)
    return [Row(name, "at most", 1.15, values=values, note=f"each the best of {TRIES}; {cpu:.2f} s of CPU")]


def _quickest(task: Task) -> Sample:
    """Alternate two processes, so that other load on the machine affects both."""
    return min((run(task) for _ in range(TRIES)), key=lambda sample: sample.wall)


@contextmanager
def provider() -> Generator[str]:
    """Start the provider of the tests in its own process; return its address."""
    with subprocess.Popen(
        [sys.executable, str(HOME / "tests" / "support" / "provider_server.py")],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            if not (address := process.stdout.readline().strip()):
                raise Failed("the provider of the tests did not start")
            yield address
        finally:
            process.kill()
