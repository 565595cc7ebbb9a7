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
MANY, CONCURRENCY = 500, 64
BARS = {0.05: ("50 ms", 1.4), 1.0: ("1 s", 1.03)}  # seconds of an answer: the name in the table, and the bar


def judges(bench: Bench) -> list[Row]:
    """Measure complete judges: prompts, schemas, prices, results."""
    with provider() as address:
        return [_row(bench, address, *bar) for bar in BARS.items()]


def _row(bench: Bench, address: str, seconds: float, said: tuple[str, float]) -> Row:
    latency, bar = said
    ideal = -(-MANY // CONCURRENCY) * seconds
    task = Task(work="judging", contexts=address, many=MANY, concurrency=CONCURRENCY, seconds=seconds)
    samples = [_quickest(task) for _ in range(bench.rounds())]
    name = f"{MANY} judges of {latency}, {CONCURRENCY} at a time, over HTTP: wall to the ideal"
    cpu = median(sample.cpu for sample in samples)
    values = [sample.wall / ideal for sample in samples]
    return Row(name, "at most", bar, values=values, note=f"each the best of {TRIES}; {cpu:.2f} s of CPU")


def _quickest(task: Task) -> Sample:
    """Alternate two processes, so that other load on the machine affects both."""
    return min((run(task) for _ in range(TRIES)), key=lambda sample: sample.wall)


@contextmanager
def provider() -> Generator[str]:
    """Start the provider of the tests in its own process; return its address."""
    with subprocess.Popen(
        [sys.executable, str(HOME / "tests" / "support" / "models" / "provider_server.py")],
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
