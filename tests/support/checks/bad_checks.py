"""Checks that do what a check should not, to every output that is "bad", for the tests of bad input."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from assay import Checker


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


class Beyond(BaseException):
    pass


def spins() -> Any:
    while True:
        pass


def raises(what: BaseException) -> Any:
    raise what


def itself() -> Any:
    answer: dict[str, Any] = {"passed": True}
    return answer | {"again": [answer, answer.setdefault("again", answer)]}


async def stubborn() -> Any:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


async def cancels_itself() -> Any:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(60)


WAYS: dict[str, Callable[[], Any]] = {
    "spins": spins,
    "sleeps": lambda: time.sleep(60),
    "waits": lambda: asyncio.sleep(60),
    "stubborn": stubborn,
    "cancels itself": cancels_itself,
    "raises": lambda: raises(ValueError("boom")),
    "raises mute": lambda: raises(Mute()),
    "raises beyond": lambda: raises(Beyond("boom")),
    "exits": lambda: sys.exit(0),
    "dies": lambda: os._exit(7),
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "nothing": lambda: None,
    "a list": lambda: [1],
    "nan": lambda: {"passed": True, "score": float("nan")},
    "yes": lambda: {"passed": "yes"},
    "no json": lambda: {"passed": True, "why": object()},
    "surrogate": lambda: {"passed": True, "why": "\ud800"},
    "itself": itself,
    "huge": lambda: {"score": 10**400},
}


class Sync(Checker):
    type = "mine"
    how: str
    text: str
    after: float = 0  # seconds: what spins until its time is up need not do so from the beginning

    def run(self, services: Any) -> Any:
        if self.text != "bad":
            return {"passed": True}
        time.sleep(self.after)
        return WAYS[self.how]()


class Async(Sync):
    async def run(self, services: Any) -> Any:
        await asyncio.sleep(0.01)
        answer = super().run(services)
        return await answer if asyncio.iscoroutine(answer) else answer


class Quick(Sync):
    waits = False


class Apart(Sync):
    isolate = True
