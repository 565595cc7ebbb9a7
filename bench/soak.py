"""
`make soak`: mixed load on a server for minutes or hours. Memory, handles and threads must not grow, and no run may be lost.

    make soak ARGS="--minutes 60"
    python -m bench.soak --minutes 5 --clients 4

The mix has evaluations, lines, agent evals, workflows, streams, routes of the page, comparisons, packs, sign-ins, errors and gRPC.
Memory is level if it does not grow in the second half: the median of the last fifth is at most 10 % and 10 MB above that of the middle fifth.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import aiohttp

from bench.attacking import work
from bench.attacking.mix import send_mix
from bench.attacking.target import Target
from bench.attacks import start_command
from bench.service import ServerProcess

CLIENTS = 16
GROWTH, SLACK = 1.10, 10.0  # of memory in the second half: a part, and MB


class Level(NamedTuple):
    """The resources of a server at one time; memory in MB, with its worker processes."""

    memory: float
    handles: int
    threads: int


async def soak(
    host: ServerProcess, target: Target, seconds: float, clients: int, pair: str
) -> tuple[list[str], list[Level], Counter[str]]:
    """The started runs, the resources of the server over time, and what was asked how often."""
    runs, levels = list[str](), list[Level]()
    until = time.monotonic() + seconds
    sending = asyncio.create_task(send_mix(target, until, clients, pair, runs))
    while time.monotonic() < until:
        await asyncio.sleep(min(5.0, seconds / 60))
        levels.append(Level(host.tree_memory, host.handles, host.threads))
    return runs, levels, await sending


async def lost_runs(host: ServerProcess, runs: list[str]) -> list[str]:
    """Return accepted runs that do not exist or have not ended."""
    missing = list[str]()
    waiting = iter(runs)

    async def look(session: aiohttp.ClientSession) -> None:
        for run in waiting:
            status, tries = "pending", 0
            while status in ("pending", "running") and tries < 100:
                async with session.get(f"{host.url}/v1/operations/{run}") as got:
                    status = (await got.json()).get("status")
                tries += 1
                if status in ("pending", "running"):
                    await asyncio.sleep(0.1)
            if status not in ("completed", "cancelled"):
                missing.append(run)

    async with aiohttp.ClientSession(headers=host.headers) as session:
        await asyncio.gather(*(look(session) for _ in range(CLIENTS)))
    return missing


def is_level(levels: list[Level]) -> bool:
    """Whether the resources do not grow in the second half."""
    fifth = max(1, len(levels) // 5)
    middle, last = levels[2 * fifth : 3 * fifth], levels[-fifth:]
    memory = [statistics.median(one.memory for one in part) for part in (middle, last)]
    handles, threads = (
        [max(getattr(one, name) for one in part) for part in (middle, last)]
        for name in ("handles", "threads")
    )
    return (
        memory[1] <= memory[0] * GROWTH + SLACK
        and handles[1] <= handles[0] + 16
        and threads[1] <= threads[0] + 4
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assay-soak-") as folder, start_command(Path(folder)) as host:
        target = Target(host.url, host.grpc, host.headers["X-API-Key"])
        pair = ",".join(work.run_of(target, passing) for passing in (0.8, 0.6))
        runs, levels, done = asyncio.run(soak(host, target, given.minutes * 60, given.clients, pair))
        missing = asyncio.run(lost_runs(host, runs))
    print(f"{done.total():,} steps in {given.minutes:g} minutes, {len(runs):,} runs, {len(missing)} lost")
    print(", ".join(f"{name} {many:,}" for name, many in done.most_common()))
    step = max(1, len(levels) // 10)
    print("memory in MB:", " ".join(f"{one.memory:.0f}" for one in levels[::step]))
    print(
        f"handles {levels[0].handles} → {levels[-1].handles}, threads {levels[0].threads} → {levels[-1].threads}"
    )
    level = is_level(levels)
    print("level" if level and not missing else "NOT LEVEL" if not level else "RUNS WERE LOST")
    return 0 if level and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
