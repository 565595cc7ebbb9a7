"""A host of one verified loop, to be killed: `work` with the address of its store. It starts the run if there is none, takes it up if there is one, and ends with it."""

import asyncio
import os
import sys
from pathlib import Path

LEASE = 0.4
SCRIPT = [("revise", "pass"), ("pass", "revise"), ("pass", "pass")]


def verdict_of(script, turn, at):
    return script[min(turn, len(script)) - 1][at]


async def main(address):
    from assay.backends.stores.open import open_store
    from assay.ports import RunQuery
    from support.workflows import ME, ScriptedAgent, WorkflowHost, loop

    def works(task, _):
        turn = task["turn"] if isinstance(task, dict) else 1
        with Path(os.environ["FLOWS_LOG"]).open("a") as file:
            file.write(f"{turn}\n")
        return turn

    critics = [
        ScriptedAgent(f"test.critic-{at}", lambda task, _, at=at: verdict_of(SCRIPT, task["result"], at))
        for at in (0, 1)
    ]
    declared = loop(critics=["test.critic-0", "test.critic-1"])
    store = await open_store(address)
    async with WorkflowHost(
        ScriptedAgent("test.actor", works), *critics, loops={"loop": declared}, store=store, lease=LEASE
    ) as house:
        if not await store.runs(RunQuery()):
            await house.workflows.start(ME, "loop", {"task": "t"})
        for run in await store.runs(RunQuery()):
            await house.executor.wait(run.id)
    await store.close()


def work():
    asyncio.run(main(sys.argv[1]))
