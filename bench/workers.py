"""`assay serve --processes 2` compared with one process: the same small evaluations, by the CPU time of the server and on the wall."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.client import Load, post
from bench.files import Bench
from bench.measure import Row
from bench.service import small_body

SECONDS, TURNS = 1.0, 3  # of one turn, and turns in a round
CORES = 2


class Command:
    """`assay serve` with some workers. The parent of several does not serve."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        assert process.stdout is not None
        host, _, port = process.stdout.readline().split()[2].removeprefix("http://").partition(":")
        self._process, self.address = process, (host, int(port))
        self.headers = {
            "content-type": "application/json",
            "x-api-key": (folder / "local-key").read_text().strip(),
        }

    def cpus(self) -> list[float]:
        """The CPU seconds of each process that serves."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [_cpu(one) for one in children or [str(pid)]]


def _cpu(pid: str) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serve(folder: Path, workers: int) -> Generator[Command]:
    folder.mkdir()
    command = Path(sys.executable).parent / "assay"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    process = subprocess.Popen(
        [command, "serve", "--port", "0", "--processes", str(workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**environ, "ASSAY_HOME": str(folder), "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield Command(process, folder)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def busy_seconds() -> float:
    """The CPU seconds of all processes of the machine."""
    user, nice, system, _, _, *interrupts = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    return sum(map(int, (user, nice, system, *interrupts))) / os.sysconf("SC_CLK_TCK")


class Turn(NamedTuple):
    """The sums of the turns of one server in one round."""

    load: Load
    cpus: list[float]
    busy: float  # CPU seconds of the whole machine

    @property
    def other_cores(self) -> float:
        """The cores that other programs took."""
        return max(0.0, self.busy - sum(self.cpus) - self.load.cpu) / self.load.wall

    @property
    def rate(self) -> float:
        return self.load.requests / self.load.wall

    @property
    def server_cpu(self) -> float:
        return sum(self.cpus) / self.load.requests

    @property
    def client_cpu(self) -> float:
        return self.load.cpu / self.load.requests

    @property
    def capacity(self) -> float:
        """Requests per CPU second of the busiest worker: the rate when each worker has a core."""
        return self.load.requests / max(self.cpus)


def workers(bench: Bench) -> list[Row]:
    rounds = list[tuple[Turn, Turn]]()
    with serve(bench.folder / "one", 1) as one, serve(bench.folder / "two", 2) as two:
        for server in (one, two):
            _turn(server)
        for _ in range(bench.rounds()):
            turns = list[tuple[Turn, Turn]]()
            for at in range(TURNS):
                pair = [_turn(server) for server in ((one, two) if at % 2 == 0 else (two, one))]
                turns.append((pair[0], pair[1]) if at % 2 == 0 else (pair[1], pair[0]))
            rounds.append((_sum([single for single, _ in turns]), _sum([double for _, double in turns])))
    last, other = rounds[-1]
    share = median(double.client_cpu * double.rate for _, double in rounds)
    others = median(turn.other_cores for pair in rounds for turn in pair)
    alone = median(
        double.rate * CORES / (CORES - double.client_cpu * double.rate) / single.rate
        for single, double in rounds
    )
    name = "POST /v1/evaluate with 2 processes to 1 process"
    return [
        Row(
            f"{name}: requests per CPU second of the busiest process",
            "at least",
            1.5,
            values=[double.capacity / single.capacity for single, double in rounds],
            note=f"the last round: {last.server_cpu * 1e6:.0f} µs of server CPU a request with 1 process,"
            f" {other.server_cpu * 1e6:.0f} µs with 2; client {other.client_cpu * 1e6:.0f} µs",
        ),
        Row(
            f"{name}: requests a second",
            "at least",
            1.5,
            values=[double.rate / single.rate for single, double in rounds],
            note=f"the client took {share:.2f} of {CORES} cores; without its share {alone:.2f}x;"
            f" other programs took {others:.2f} cores;"
            f" the last round: {last.rate:,.0f} and {other.rate:,.0f} a second",
        ),
    ]


def _turn(server: Command) -> Turn:
    before, busy = server.cpus(), busy_seconds()
    load = post(server.address, "/v1/evaluate", server.headers, small_body(), SECONDS)
    cpus = [after - one for after, one in zip(server.cpus(), before, strict=True)]
    return Turn(load, cpus, busy_seconds() - busy)


def _sum(turns: list[Turn]) -> Turn:
    load = Load(
        sum(turn.load.requests for turn in turns),
        sum(turn.load.wall for turn in turns),
        sum(turn.load.cpu for turn in turns),
    )
    cpus: list[float] = [sum(one) for one in zip(*(turn.cpus for turn in turns), strict=True)]
    return Turn(load, cpus, sum(turn.busy for turn in turns))
