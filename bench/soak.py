"""
`make soak`: mixed load on a server for minutes or hours. Memory, handles and threads must not grow, and no run may be lost.

    make soak ARGS="--minutes 60"
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from bench import workload
from bench.service import ServerProcess, small_body, start_server

CLIENTS = 16
GROWTH = 1.25  # of memory, after the first part


async def soak(host: ServerProcess, seconds: float) -> tuple[list[str], list[tuple[float, int, int]]]:
    """The started runs, and the resources of the process over time."""
    runs = list[str]()
    levels = list[tuple[float, int, int]]()
    until = time.monotonic() + seconds
    async with aiohttp.ClientSession(
        headers=host.headers, connector=aiohttp.TCPConnector(limit=0)
    ) as session:
        clients = [asyncio.create_task(_client(session, host.url, until, runs, n)) for n in range(CLIENTS)]
        while time.monotonic() < until:
            await asyncio.sleep(min(5.0, seconds / 12))
            levels.append((host.memory("VmRSS"), host.handles, host.threads))
        await asyncio.gather(*clients)
    return runs, levels


async def _client(session: aiohttp.ClientSession, url: str, until: float, runs: list[str], seed: int) -> None:
    dice = random.Random(seed)
    body = small_body()
    lines = b"\n".join(
        [
            msgspec.json.encode({"checks": workload.CHECKS}),
            *(line.encode().strip() for line in workload.lines(2_000)),
        ]
    )
    while time.monotonic() < until:
        what = dice.random()
        if what < 0.7:
            got = await _json(session, "POST", f"{url}/v1/evaluate", data=body)
            runs.append(got["evaluation_id"])
        elif what < 0.85:
            headers = {"Content-Type": "application/x-ndjson"}
            got = await _json(session, "POST", f"{url}/v1/evaluations", data=lines, headers=headers)
            runs.append(run := got["operation_id"])
            if dice.random() < 0.3:
                await _drop(session, f"{url}/v1/evaluations/{run}:cancel", b"")
            else:
                await _follow(session, f"{url}/v1/evaluations/{run}/events")
        elif what < 0.95:
            await _json(session, "GET", f"{url}/v1/evaluations?page_size=20")
        else:
            await _drop(session, f"{url}/v1/evaluate", b"{nonsense")


async def _drop(session: aiohttp.ClientSession, url: str, body: bytes) -> None:
    """Send a request; fail only on a server error."""
    async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as got:
        await got.read()
        assert got.status < 500, (got.status, await got.text())


async def _json(session: aiohttp.ClientSession, method: str, url: str, **more: Any) -> dict[str, Any]:
    more.setdefault("headers", {"Content-Type": "application/json"})
    while True:
        async with session.request(method, url, **more) as got:
            if got.status != 429:
                assert got.status < 300, (got.status, await got.text())
                return await got.json()
            await asyncio.sleep(float(got.headers["Retry-After"]))


async def _follow(session: aiohttp.ClientSession, url: str) -> None:
    async with session.get(url, headers={"Accept": "text/event-stream"}) as got:
        async for _ in got.content.iter_any():
            pass


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


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory(prefix="assay-soak-") as folder, start_server(Path(folder)) as host:
        runs, levels = asyncio.run(soak(host, minutes * 60))
        missing = asyncio.run(lost_runs(host, runs))
    settled, late = levels[len(levels) // 3], levels[-1]
    print(f"{len(runs):,} runs in {minutes:g} minutes, {len(missing)} lost")
    print(
        f"memory {settled[0]:.0f} → {late[0]:.0f} MB, handles {settled[1]} → {late[1]}, threads {settled[2]} → {late[2]}"
    )
    level = late[0] <= settled[0] * GROWTH and late[1] <= settled[1] + 8 and late[2] <= settled[2] + 4
    print("level" if level and not missing else "NOT LEVEL" if not level else "RUNS WERE LOST")
    return 0 if level and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
