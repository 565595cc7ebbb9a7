"""
Part of `make soak`: attacks on a real server, one after the other, and the time that another tenant waits.

    python -m bench.attacks                 # all of them
    python -m bench.attacks --only NAME     # those with this in their name

Tenant A attacks from its own process, at a lower priority, so that the server is measured and not the shortage of cores.
Tenant B sends an ordinary request every 20 ms, whether or not the ones before were answered, so that one long stop of the
server is seen by all the requests that fall into it. B's wait is the 99th percentile. A process that only echoes is asked
at the same moments; what it needed is the noise of the machine, and is subtracted. Where other work keeps the machine busy,
the server's event loop waits for a core: what is left is divided by how much slower that made it ("slowed", from Linux's
/proc/PID/schedstat), which is 1 on a quiet machine. "kept" is the memory that the server and its worker processes have more than
before the attack, 15 s after it at the latest; it is at most 300 MB, and 150 MB after minutes of ordinary requests.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import aiohttp

from assay.serve.web.server import GRACE
from bench.attacking import bodies, checks, faults, heads, inputs, memory, patterns, shares, work
from bench.attacking.target import Attack, Target
from bench.service import ServerProcess, small_body, start_server

ATTACKS: dict[str, Attack] = {
    **heads.ATTACKS,
    **bodies.ATTACKS,
    **shares.ATTACKS,
    **patterns.ATTACKS,
    **checks.ATTACKS,
    **faults.ATTACKS,
    **inputs.ATTACKS,
    **work.ATTACKS,
    **memory.ATTACKS,
}
LONG: frozenset[str] = (
    frozenset({**shares.ATTACKS, **checks.LONG})
    | patterns.LONG
    | faults.LONG
    | inputs.LONG
    | work.LONG
    | memory.LONG
)  # attacks that take more than a second or two: not among the tests
SETTINGS = (
    '[traces.attacked]\nchecks = [{contains = "x"}]\nquiet = "1h"\n'  # a flood waits on slow machines too
)
BAR = 0.250  # seconds that tenant B may wait
KEPT = 300.0  # MB that the server and its worker processes may have more after an attack than before it
GIVEN_BACK = 15.0  # seconds after an attack in which the server has looked at its memory twice
KEPT_BY = {"minutes of every kind of request": 150.0}  # requests of which the server needs to keep little
PACE = 0.020  # seconds between two of B's requests
AGAIN = 0.5  # seconds of an attack after which the server gets SIGTERM
LEAST = 2.0  # seconds that B is measured, however short an attack is
LONGEST = 300.0  # seconds after which an attack is stopped
ORDINARY = (("POST", "/v1/evaluate"), ("GET", "/v1/evaluations?page_size=5"), ("GET", "/v1/health"))


class Waits(NamedTuple):
    """One attack: seconds of each answer to B and of each echo, and the memory and CPU of the server."""

    waits: list[float]
    echoes: list[float]
    refused: int
    memory: float
    kept: float
    cpu: float
    slowed: float
    trouble: str
    most_kept: float = KEPT

    @property
    def wait(self) -> float:
        own = percentile(self.waits, 0.99) - percentile(self.echoes, 0.99)
        return max(0.0, own) / self.slowed

    @property
    def within_limit(self) -> bool:
        return not self.trouble and not self.refused and self.wait <= BAR and self.kept <= self.most_kept


def percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


async def measure(
    host: ServerProcess, echo: str, key: str, attack: Sequence[str], environ: Mapping[str, str]
) -> Waits:
    """Send B's requests at a fixed pace, from the start of an attack to its end."""
    waits, echoes, refused = list[float](), list[float](), list[int]()
    body = small_body()

    async def time_request(session: aiohttp.ClientSession, method: str, url: str, into: list[float]) -> None:
        began = time.perf_counter()
        data = body if method == "POST" else None
        async with session.request(method, url, data=data) as got:
            await got.read()
            if got.status != 200:
                refused.append(got.status)
        into.append(time.perf_counter() - began)

    host.forget_memory()
    idle = host.tree_memory
    before, (ran, queued) = host.cpu, schedule_times(host)
    headers = {"X-API-Key": key, "Content-Type": "application/json"}
    limit, patience = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=LONGEST)
    async with aiohttp.ClientSession(headers=headers, connector=limit, timeout=patience) as session:
        environ = {**os.environ, **environ}
        process = await asyncio.create_subprocess_exec(*attack, stderr=asyncio.subprocess.PIPE, env=environ)
        ended = asyncio.ensure_future(asyncio.wait_for(process.communicate(), LONGEST))
        asking, began, at = list[asyncio.Task[None]](), time.monotonic(), 0
        while not ended.done() or time.monotonic() < began + LEAST:
            method, path = ORDINARY[at % len(ORDINARY)]
            asking.append(asyncio.create_task(time_request(session, method, host.url + path, waits)))
            asking.append(asyncio.create_task(time_request(session, "POST", echo, echoes)))
            at += 1
            await asyncio.sleep(PACE)
        await asyncio.gather(*asking)
        try:
            _, err = await ended
            trouble = err.decode(errors="replace").strip().splitlines()[-1:] if process.returncode else []
        except TimeoutError:
            process.kill()
            trouble = [f"the attack did not end in {LONGEST:g} s"]
    ran, queued = (after - first for after, first in zip(schedule_times(host), (ran, queued), strict=True))
    slowed = (ran + queued) / max(ran, 1)
    memory, cpu = host.memory("VmHWM"), host.cpu - before
    kept, ended_at = host.tree_memory - idle, time.monotonic()
    while kept > KEPT and time.monotonic() < ended_at + GIVEN_BACK:
        await asyncio.sleep(1.0)
        kept = host.tree_memory - idle
    return Waits(waits, echoes, len(refused), memory, kept, cpu, slowed, "".join(trouble))


def schedule_times(host: ServerProcess) -> tuple[int, int]:
    """Return the nanoseconds that the event loop thread ran, and that it waited for a core."""
    ran, queued, _ = Path(f"/proc/{host.process.pid}/schedstat").read_text().split()
    return int(ran), int(queued)


def table_row(name: str, one: Waits) -> str:
    """A row of the table."""
    middle, most, echo = (
        percentile(one.waits, 0.5),
        max(one.waits),
        percentile(one.echoes, 0.99),
    )
    cells = [
        name,
        *(f"{seconds * 1000:.0f} ms" for seconds in (middle, one.wait, most, echo)),
        f"{one.memory:.0f} MB",
        f"{one.kept:.0f} MB",
        f"{one.cpu:.1f} s",
        f"{one.slowed:.1f}x",
        "yes"
        if one.within_limit
        else f"**no** {one.trouble or (f'{one.refused} refused' if one.refused else f'{one.kept:.0f} MB kept' if one.kept > one.most_kept else '')}".strip(),
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.attacks", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="attacks whose names contain this")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)  # the attacker's process
    given = parser.parse_args()
    if given.one:
        os.nice(10)
        name, *target = given.one
        ATTACKS[name](Target(*target))
        return 0
    print(
        "| attack | B's median | B's wait | B's longest | echo | memory | kept | CPU | slowed | within limits |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|---|", flush=True)
    good = True
    with (
        tempfile.TemporaryDirectory(prefix="assay-attack-") as folder,
        start_server(Path(folder, "echo")) as echo,
    ):
        for number, name in enumerate(name for name in ATTACKS if given.only in name):
            home = Path(folder, str(number))
            home.mkdir()
            place = faults.shared_database(home) if name in faults.ATTACKS else nullcontext(dict[str, str]())
            with place as environ, start_command(home, environ) as host:
                key = faults.create_key(home, "other", environ)
                target = [name, host.url, host.grpc, host.headers["X-API-Key"]]
                attack = [sys.executable, "-m", "bench.attacks", "--one", *target]
                one = asyncio.run(measure(host, f"{echo.url}/echo", key, attack, environ))
                one = one._replace(most_kept=KEPT_BY.get(name, KEPT))
                again = subprocess.Popen(attack, stderr=subprocess.DEVNULL, env={**os.environ, **environ})
                time.sleep(AGAIN)  # SIGTERM then comes while it is attacked
            again.kill()
            again.wait()
            print(table_row(name, one), flush=True)
            good = good and one.within_limit
    return 0 if good else 1


@contextmanager
def start_command(folder: Path, environ: Mapping[str, str] | None = None) -> Generator[ServerProcess]:
    """`assay serve`, as an operator starts it; SIGTERM must end it within its grace period."""
    more = environ or {}
    with (folder / "assay.toml").open("a") as file:  # an attack may have settings of its own
        file.write(SETTINGS)
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", "serve", "--port", "0"],
        cwd=folder,
        env={**os.environ, **more, "PYTHONUNBUFFERED": "1", "OPENWOP_CONFORMANCE_SEED": "true"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        url, grpc = (process.stdout.readline().split()[2] for _ in range(2))
        local = folder / ".assay" / "local-key"  # not where a database is configured
        key = local.read_text().strip() if local.exists() else faults.create_key(folder, "attacker", more)
        yield ServerProcess(process, url, key, grpc.removeprefix("grpc://"))
        process.terminate()
        process.wait(GRACE + 15)
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
