"""Units on one, two and four workers: units a second, the time of a run of one unit, and the CPU of the queue."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import Struct

from bench.database import Database, cpu_of, open_database

CHECK = '''
import asyncio
from assay.checks.checker import Checker

class Wait(Checker):
    """Waits."""
    type = "wait"
    seconds: float

    async def run(self, services):
        await asyncio.sleep(self.seconds)
        return {"passed": True}
'''
COMMAND = str(Path(sys.executable).parent / "assay")
SINGLE = 3  # runs of one unit
IDLE = 3.0  # seconds


class FleetSample(Struct, frozen=True):
    """`workers` 0: the server executes the units itself. CPU is that of all processes, also PostgreSQL's, in seconds."""

    workers: int
    seconds: float
    units: int
    wall: float
    cpu: float
    single: float  # wall seconds of a run of one unit
    idle: float  # CPU in a second without runs, of all processes


class _Fleet:
    def __init__(self, folder: Path, database: Database, engine: str) -> None:
        self._folder, self._database = folder, database
        (folder / "bench_parts.py").write_text(CHECK)
        (folder / "assay.toml").write_text('check_modules = ["bench_parts:Wait"]\n')
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
        self._environment = kept | {"ASSAY_DATABASE_URL": database.address, "ASSAY_ENGINE": engine}
        self._key = subprocess.run(
            [COMMAND, "admin", "key", "create", "--tenant", "bench"],
            cwd=folder, env=self._environment, capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        self._processes = list[subprocess.Popen[str]]()
        self._url = self._start("serve", "--port", "0").split()[2]

    def add_worker(self) -> None:
        self._start("worker")

    def _start(self, *words: str) -> str:
        process = subprocess.Popen(
            [COMMAND, *words],
            cwd=self._folder, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._processes.append(process)
        assert process.stdout is not None
        return process.stdout.readline()

    def measure(self, workers: int, units: int, seconds: float) -> FleetSample:
        idle = self._cpu
        time.sleep(IDLE)
        idle = (self._cpu - idle) / IDLE
        single = [self._evaluate(1, seconds)[0] for _ in range(SINGLE)]
        wall, cpu = self._evaluate(units, seconds)
        return FleetSample(workers, seconds, units, wall, cpu, median(single), idle)

    def _evaluate(self, units: int, seconds: float) -> tuple[float, float]:
        """Submit an evaluation and wait for it; return the wall and CPU seconds."""
        checks = [{"type": "wait", "arguments": {"seconds": seconds}}]
        cases = ({"test_case": {"id": str(at), "input": at}, "output": {"value": at}} for at in range(units))
        body = "\n".join(map(json.dumps, ({"checks": checks}, *cases))).encode()
        cpu, began = self._cpu, time.monotonic()
        run = self._request("/v1/evaluations", body)["operation_id"]
        while (status := self._request(f"/v1/operations/{run}")["status"]) in ("pending", "running"):
            time.sleep(0.02)
        assert status == "completed", status
        return time.monotonic() - began, self._cpu - cpu

    def _request(self, path: str, body: bytes | None = None) -> Any:
        headers = {"X-API-Key": self._key, "Content-Type": "application/x-ndjson"}
        request = urllib.request.Request(self._url + path, body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    @property
    def _cpu(self) -> float:
        return sum(cpu_of(process.pid) for process in self._processes) + self._database.cpu

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(30)


@contextmanager
def _fleet(folder: Path, engine: str) -> Generator[_Fleet]:
    folder.mkdir(parents=True)
    with open_database() as database:
        fleet = _Fleet(folder, database, engine)
        try:
            yield fleet
        finally:
            fleet.close()


def measure(folder: Path, units: int, counts: tuple[int, ...] = (1, 2, 4)) -> list[FleetSample]:
    samples = list[FleetSample]()
    durations = (0.0, 0.02)
    with _fleet(folder / "local", "local") as fleet:
        samples += [fleet.measure(0, units, seconds) for seconds in durations]
    with _fleet(folder / "workers", "workers") as fleet:
        started = 0
        for count in counts:
            while started < count:
                fleet.add_worker()
                started += 1
            samples += [fleet.measure(count, units, seconds) for seconds in durations]
    return samples


def fleet_table(samples: list[FleetSample]) -> str:
    lines = [
        "| units of | executed by | units a second | CPU a unit, all processes | a run of one unit, wall | idle CPU, of a core |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for sample in sorted(samples, key=lambda one: one.seconds):
        place = (
            f"{sample.workers} worker{'s' if sample.workers > 1 else ''}" if sample.workers else "the server"
        )
        lines.append(
            f"| {sample.seconds * 1000:.0f} ms | {place} | {sample.units / sample.wall:.0f} |"
            f" {sample.cpu / sample.units * 1000:.1f} ms | {sample.single * 1000:.0f} ms | {sample.idle:.0%} |"
        )
    return "\n".join(lines)
