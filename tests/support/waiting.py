"""Waits for facts. The upper bound is for what never comes: it costs nothing when things work, on a busy machine too."""

import asyncio
import time

PATIENCE = 120.0  # seconds
PAUSES = 0.02, 0.1  # seconds between two looks: the first, and after many; a look may be a request


def wait_until(fact, message=lambda: ""):
    """The first true value of `fact()`. `message()` is what a failure says."""
    until, pauses = time.monotonic() + PATIENCE, growing()
    while not (value := fact()):
        assert time.monotonic() < until, f"not within {PATIENCE:g} s: {message()}"
        time.sleep(next(pauses))
    return value


async def heartbeat(executor):
    """What an executor does at its next heartbeat, now."""
    await executor._renew_leases()
    await executor._adopt()


async def until(fact, message=lambda: ""):
    """The same for a loop that must go on meanwhile."""
    end, pauses = time.monotonic() + PATIENCE, growing()
    while not (value := fact()):
        assert time.monotonic() < end, f"not within {PATIENCE:g} s: {message()}"
        await asyncio.sleep(next(pauses))
    return value


def growing():
    pause, longest = PAUSES
    while True:
        yield pause
        pause = min(1.1 * pause, longest)
