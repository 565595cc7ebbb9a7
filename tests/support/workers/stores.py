"""
A process that writes to a store until it is killed, and prints what the store has confirmed: `stores_worker.py ADDRESS [STEPS]`.

Step n of run `r` is one batch: event n, piece n, version n + 1 of a document. It goes on where it finds the run.
`whole` writes run after run instead, each opened and ended in one batch: `r0`, `r1`, …
"""

import asyncio
import contextlib
import sys
from datetime import UTC, datetime

from assay.backends.stores.open import open_store
from assay.errors import Conflict
from assay.ports import CreateRun, Event, EvidenceChunk, PutDocument, RunUpdate, Transaction
from assay.ports.audit import audit_entry


async def main(address: str, steps: int) -> None:
    store = await open_store(address)
    with contextlib.suppress(Conflict):  # a process before this one opened it
        await store.commit(Transaction(entries=[RunUpdate(run="r", opens=CreateRun(tenant="t", kind="k"))]))
    run = await store.run("r")
    assert run
    gate = asyncio.Semaphore(8)

    async def step(n: int) -> None:
        entry = RunUpdate(
            run="r",
            expected=n,
            events=[Event("step", b"%d" % n, datetime.now(UTC))],
            evidence=[EvidenceChunk(kind="result", first=n, last=n, data=b"%d" % n)],
        )
        document = PutDocument(tenant="t", kind="k", key="steps", data=b"%d" % n, version=n)
        await store.commit(Transaction(entries=[entry], documents=[document]))
        print(n, flush=True)  # noqa: T201
        gate.release()

    async with asyncio.TaskGroup() as group:
        for n in range(run.events, run.events + steps):
            await gate.acquire()
            group.create_task(step(n))
    await store.close()


async def whole(address: str) -> None:
    store = await open_store(address)
    gate = asyncio.Semaphore(8)

    async def run(n: int) -> None:
        entry = RunUpdate(
            run=f"r{n}",
            opens=CreateRun(tenant="t", kind="k"),
            status="completed",
            events=[Event("ended", b"%d" % n, datetime.now(UTC))],
            evidence=[EvidenceChunk(kind="result", data=b"%d" % n)],
        )
        await store.commit(Transaction(entries=[entry], lines=[audit_entry("t", "run.start", f"r{n}")]))
        print(n, flush=True)  # noqa: T201
        gate.release()

    async with asyncio.TaskGroup() as group:
        for n in range(1_000_000):
            await gate.acquire()
            group.create_task(run(n))


def work() -> None:
    if sys.argv[2:] == ["whole"]:
        asyncio.run(whole(sys.argv[1]))
    else:
        asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000))
