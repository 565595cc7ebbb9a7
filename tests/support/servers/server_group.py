"""`assay serve --processes N` as tests use it: real processes on one port, and clients with a connection for every request."""

import asyncio
import contextlib
import functools
import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx

from support.waiting import PATIENCE

REQUEST = {
    "test_cases": [{"id": "a", "input": "q"}],
    "outputs": [{"value": "x"}],
    "checks": [{"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["x"]}}],
}
SLEEPER = """
import asyncio
from assay.checks.checker import Checker

class Rest(Checker):
    type = "rest"
    seconds: float = 30

    async def run(self, services):
        await asyncio.sleep(self.seconds)
        return {"passed": True}
"""


def slow(seconds: float) -> dict[str, Any]:
    """A request whose check waits."""
    return {**REQUEST, "checks": [{"type": "rest", "arguments": {"seconds": seconds}}]}


def awaited(test):
    @functools.wraps(test)
    def run(*arguments, **named):
        asyncio.run(test(*arguments, **named))

    return run


class ServerGroup:
    def __init__(self, process, folder, verify=True):
        self.process, self.folder, self._verify = process, folder, verify
        self.killed = 0  # workers, by tests
        self.address = self._announced()
        self.calls = self._announced().partition("://")[2]
        file = folder / ".assay" / "local-key"
        self.key = file.read_text().strip() if file.exists() else ""  # a server on PostgreSQL makes none

    @property
    def headers(self):
        return {"X-API-Key": self.key}

    def _announced(self):
        line = self.process.stdout.readline()
        assert line.startswith("assay serves "), (line, self.process._err.read())
        return line.split()[2]

    @property
    def pids(self):
        return {
            int(pid)
            for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        }

    def connect(self, **more):
        """A client with a connection of its own for every request: the workers take turns."""
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.AsyncClient(
            base_url=self.address,
            headers=self.headers,
            limits=limits,
            timeout=PATIENCE,
            verify=self._verify,
            **more,
        )


@contextlib.contextmanager
def serve_group(zygote, folder, *options, verify=True, python=None, **environ) -> Generator[ServerGroup]:
    """A group with the check `rest`. `python`: what it starts its processes for checks with. `environ`: variables of the environment."""
    (folder / "sleeper.py").write_text(SLEEPER)
    whole = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(folder), **environ}
    process = zygote.start(
        "serve", "--port", "0", "--check-module", "sleeper:Rest", *options, folder=folder, pipe=True, environ=whole, python=python
    )  # fmt: skip
    try:
        group = ServerGroup(process, folder, verify)
        if not group.key:
            made, _ = zygote.start(
                "admin", "key", "create", "--tenant", "t", folder=folder, environ=whole
            ).communicate()
            group.key = next(word for word in made.split() if word.startswith("assay_"))
        yield group
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(Exception):
            process.wait(PATIENCE)
        process.close()


def request_process(response):
    """The part of a request id that tells the processes apart."""
    return response.headers["x-request-id"].rpartition("_")[0]


async def answers_of_all(ask, workers, wave=9):
    """The answers to waves of `ask()`, until each worker has given one: the system chooses the worker of a connection."""
    answers = []
    async with asyncio.timeout(PATIENCE):
        while len({request_process(one) for one in answers}) < workers:
            answers += await asyncio.gather(*(ask() for _ in range(wave)))
    return answers


async def submit_until(stop, client, acknowledged):
    """Submit evaluations one after the other; collect the ids of the acknowledged ones."""
    while not stop.is_set():
        try:
            one = await client.post("/v1/evaluate", json=REQUEST)
        except httpx.TransportError:
            await asyncio.sleep(0.05)
            continue
        if one.status_code == 200:
            acknowledged.append(one.json()["evaluation_id"])
