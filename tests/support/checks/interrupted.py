"""Checks and an agent for runs in which signals arrive."""

import asyncio
import signal
from typing import Any

from assay import Checker


class Slow(Checker):
    """It waits: its case is scored on an event loop."""

    type = "slow"
    text: str

    async def run(self, services: Any) -> Any:
        await asyncio.sleep(0)
        return {"score": 1.0}


class Endless(Checker):
    """A signal arrives in a check that does not end."""

    type = "endless"
    waits = False
    text: str

    def run(self, services: Any) -> Any:
        if self.text == "3":
            signal.raise_signal(signal.SIGTERM)
            while True:
                pass
        return {"score": 1.0}


def answer(task: Any) -> str:
    return str(task)
