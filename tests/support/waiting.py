"""Waits for facts. The upper bound is for what never comes: it costs nothing when things work, on a busy machine too."""

import asyncio
import time

PATIENCE = 120.0  # seconds
PAUSE = 0.02


def wait_until(fact, told=lambda: ""):
    """The first true value of `fact()`. `told()` is what a failure says."""
    until = time.monotonic() + PATIENCE
    while not (value := fact()):
        assert time.monotonic() < until, f"not within {PATIENCE:g} s: {told()}"
        time.sleep(PAUSE)
    return value


async def until(fact, told=lambda: ""):
    """The same for a loop that must go on meanwhile."""
    end = time.monotonic() + PATIENCE
    while not (value := fact()):
        assert time.monotonic() < end, f"not within {PATIENCE:g} s: {told()}"
        await asyncio.sleep(PAUSE)
    return value
