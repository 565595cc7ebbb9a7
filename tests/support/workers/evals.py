"""
A host that puts one agent to one suite, to be killed: `work ADDRESS`, in the zygote's process.

It takes up the run there is, or starts it; it ends with it. Every invocation leaves a line in the file named by RUNS_LOG.
"""

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

from assay.backends.stores.open import open_store
from assay.ports import RunQuery
from assay.ports.agents import ToolFailure
from support.evals import EvalHost, FunctionAgent, golden, rubric, suite_of

TASKS, TRIALS = 12, 2
FIXTURES = {
    "toolResponses": [{"tool": "shop:orders", "response": 7}],
    "memorySeed": [{"id": "m", "content": "x"}],
}


def suite():
    tasks = [
        golden(f"t-{at}", 7 + at % 3, at, fixtures=FIXTURES) if at % 4 else rubric(f"t-{at}", ("odd", 0.5), ("even", 0.5), input=at)
        for at in range(TASKS)
    ]  # fmt: skip
    return suite_of(*tasks, modes=["golden", "rubric", "adversarial"])


def log(task_id):
    with Path(os.environ["RUNS_LOG"]).open("a") as file:
        file.write(f"{task_id}\n")


async def agent(task, scene):
    log(scene.task_id)
    scene.reason("thinking")
    scene.usage(provider="p", model="m", input_tokens=1, output_tokens=task, cost_usd=0.25)
    await asyncio.sleep(0.002)
    if task % 4 == 3 and scene.trial == 0:  # a finding of one trial counts for its task, also after a crash
        with suppress(ToolFailure):
            await scene.tool("no name of a tool")
    if task % 5 == 4:
        raise ValueError("no")
    return 7 if task % 4 == 0 else await scene.tool("shop:orders", n=task)


def judge(_):
    return {f"criterion_{at}": {"reason": "so", "met": at == 1} for at in (1, 2)}


def open_host(store):
    return EvalHost(store, FunctionAgent(agent, free=False), judge=judge, concurrency=4)


async def main(address):
    store = await open_store(address)
    host = open_host(store)
    await host.executor.open()
    if not await store.runs(RunQuery()):
        await host.begin(suite(), trials=TRIALS)
    for run in await store.runs(RunQuery()):
        await host.executor.wait(run.id)
    await host.executor.close()
    await store.close()


def work():
    asyncio.run(main(sys.argv[1]))
