"""The service: small requests compared with a bare endpoint, and large inputs as lines."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import msgspec

from bench import workload
from bench.files import Bench
from bench.measure import Row, straight

CLIENTS = 32
SECONDS, TURNS = 0.4, 5  # of one turn, and turns in a round
LARGE_ROUNDS = 3  # a million lines take a minute
LINES = {"Content-Type": "application/x-ndjson"}


class ServerProcess:
    """The process of the server."""

    def __init__(self, process: subprocess.Popen[str], url: str, key: str, grpc: str) -> None:
        self.process, self.url, self.grpc = process, url, grpc
        self.headers = {"X-API-Key": key}

    @property
    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, line: str) -> float:
        """Return `VmHWM` (peak) or `VmRSS` (current) in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition(f"{line}:")[2].split()[0]) / 1024

    @property
    def tree_memory(self) -> float:
        """The memory of the server and of its worker processes now, in MB."""
        pid, total = self.process.pid, self.memory("VmRSS")
        for child in Path(f"/proc/{pid}/task/{pid}/children").parent.parent.glob("*/children"):
            for one in child.read_text().split():
                status = Path(f"/proc/{one}/status").read_text()
                total += int(status.partition("VmRSS:")[2].split()[0]) / 1024
        return total

    def forget_memory(self) -> None:
        """Reset `VmHWM`."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    @property
    def handles(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    @property
    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))


@contextmanager
def start_server(folder: Path, database: str = "") -> Generator[ServerProcess]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.host", str(folder), database], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield ServerProcess(process, *process.stdout.readline().split())
    finally:
        process.terminate()
        process.wait(30)


def small_body() -> bytes:
    """Ten cases of the first workload, with its four checks."""
    contexts = [msgspec.json.decode(line) for line in workload.lines(10)]
    return msgspec.json.encode(
        {
            "test_cases": [one["test_case"] for one in contexts],
            "outputs": [one["output"] for one in contexts],
            "checks": workload.CHECKS,
        }
    )


async def requests_a_second(url: str, headers: dict[str, str], body: bytes, seconds: float) -> float:
    """Return the requests a second of 32 clients, each sequential."""
    done = 0
    until = time.perf_counter() + seconds

    async def client(session: aiohttp.ClientSession) -> None:
        nonlocal done
        while time.perf_counter() < until:
            async with session.post(
                url, data=body, headers={"Content-Type": "application/json", **headers}
            ) as got:
                await got.read()
                assert got.status == 200, await got.text()
            done += 1

    began = time.perf_counter()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(client(session) for _ in range(CLIENTS)))
    return done / (time.perf_counter() - began)


async def evaluate_lines(host: ServerProcess, contexts: Path, timeout: float = 3600) -> str:
    """Submit a file as lines, wait for the run, and return its id."""

    async def body() -> AsyncGenerator[bytes]:
        yield msgspec.json.encode({"checks": workload.CHECKS}) + b"\n"
        with contexts.open("rb") as file:
            while block := file.read(1 << 18):
                yield block

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout)) as session:
        async with session.post(
            f"{host.url}/v1/evaluations", data=body(), headers={**host.headers, **LINES}
        ) as started:
            assert started.status == 202, await started.text()
            run: str = (await started.json())["operation_id"]
        while True:
            async with session.get(f"{host.url}/v1/operations/{run}", headers=host.headers) as seen:
                operation: dict[str, Any] = await seen.json()
            if operation["status"] not in ("pending", "running"):
                assert operation["status"] == "completed", operation
                return run
            await asyncio.sleep(0.2)


async def read_lines(host: ServerProcess, run: str) -> int:
    """Read the results as lines and return their number."""
    many = 0
    headers = {**host.headers, "Accept": "application/x-ndjson"}
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=3600)) as session,
        session.get(f"{host.url}/v1/evaluations/{run}", headers=headers) as got,
    ):
        async for block in got.content.iter_any():
            many += block.count(b"\n")
    return many


def service(bench: Bench) -> list[Row]:
    rows = [_small(bench)]
    for many in (bench.size(100_000), bench.size(1_000_000)):
        rows += _large(bench, many)
    return rows


def _small(bench: Bench) -> Row:
    """Alternate the contestants in short turns, because the speed of the machine varies; a round sums all turns."""
    body = small_body()
    paths = ("/bare", "/v1/evaluate", "/echo")
    rounds = list[dict[str, float]]()
    with start_server(bench.folder / "small") as host:
        for _ in range(bench.rounds()):
            had = dict.fromkeys(paths, 0.0)
            for path in paths * TURNS:
                had[path] += asyncio.run(requests_a_second(f"{host.url}{path}", host.headers, body, SECONDS))
            rounds.append({path: many / TURNS for path, many in had.items()})
    outside = median(had["/v1/evaluate"] / had["/echo"] for had in rounds)
    last = ", ".join(f"{had:,.0f}" for had in rounds[-1].values())
    return Row(
        "POST /v1/evaluate, 10 cases × 4 checks, stored, 32 clients: requests a second to a bare endpoint's",
        "at least",
        0.15,
        values=[had["/v1/evaluate"] / had["/bare"] for had in rounds],
        note=f"{outside:.2f}x of an echo in front of all routes; bare, evaluate, echo in the last round: {last}",
    )


def _large(bench: Bench, many: int) -> list[Row]:
    """Measure the straight loop beside each round, because the speed of the machine varies. Each round has a new server."""
    task = bench.task(many)
    written, read, most = list[float](), list[float](), list[float]()
    for at in range(LARGE_ROUNDS):
        with start_server(bench.folder / f"large-{many}-{at}") as host:
            before = host.cpu
            run = asyncio.run(evaluate_lines(host, Path(task.contexts)))
            done = host.cpu - before
            assert asyncio.run(read_lines(host, run)) == many
            whole = host.cpu - before
            most.append(host.memory("VmHWM"))
        anchor = straight(task).cpu
        written.append(done / anchor)
        read.append((whole - done) / anchor)
    note = f"{LARGE_ROUNDS} rounds; reading the results took another {median(read):.2f}x"
    return [
        Row(
            f"{many:,} cases as ndjson: server CPU to the straight loop's",
            "at most",
            2.5,
            values=written,
            note=note,
        ),
        Row(f"{many:,} cases as ndjson: server memory at most", "at most", 300.0, "MB", values=[max(most)]),
    ]
