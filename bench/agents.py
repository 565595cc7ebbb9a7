"""Agent evals: the cost of a task, waiting compared with the ideal, and memory by number of tasks (RFC 0081)."""

import asyncio
import resource
import sys
import time
from statistics import median

import msgspec

from assay.agenteval.planning.request import EvalRequest
from assay.agenteval.suites.suite import read_suite
from assay.api.suites import EvalRuntime, open_evals
from assay.backends.stores.open import open_store
from assay.ports import LOCAL_TENANT, Run
from assay.protocol.agents import AgentCard, InvocationResult
from assay.settings import load
from bench.child import Sample
from bench.files import Bench
from bench.measure import Row, last_line

AGENT = "local.bench.agent"
TRIES = 3


class Waiting:
    """An agent that waits for some milliseconds, or not at all."""

    card = AgentCard(agent_id=AGENT, free=True)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def invoke(self, task: object, context: object) -> InvocationResult:
        if self._seconds:
            await asyncio.sleep(self._seconds)
        return InvocationResult(outcome="completed", result=f"answer {task}")

    async def close(self) -> None: ...


def agents(bench: Bench) -> list[Row]:
    few, many = bench.size(1_000), bench.size(10_000)
    rounds = range(bench.rounds())
    instant = [_child(bench, few, 16, 0.0) for _ in rounds]
    large = [_child(bench, many, 16, 0.0) for _ in rounds]
    waits, concurrency, seconds = 500, 64, 0.05
    ideal = -(-waits // concurrency) * seconds
    walls = [
        min(_child(bench, waits, concurrency, seconds).wall for _ in range(TRIES)) / ideal for _ in rounds
    ]
    growth = [big.peak_mb - small.peak_mb for big, small in zip(large, instant, strict=True)]
    return [
        Row(
            f"agent eval, {few:,} tasks on an instant agent, SQLite, durable: CPU",
            "at most",
            3.0 * few,
            "ms",
            [sample.cpu * 1000 for sample in instant],
            "3 ms a task",
        ),
        Row(
            f"500 agents of 50 ms, {concurrency} at a time, kept: wall to the ideal",
            "at most",
            1.2,
            values=walls,
            note=f"each the best of {TRIES}",
        ),
        Row(
            f"agent eval: peak memory at {many:,} tasks to that at {few:,}",
            "at most",
            1.3,
            values=[big.peak_mb / small.peak_mb for big, small in zip(large, instant, strict=True)],
            note=f"{median(growth) * 1024 / (many - few):.1f} kB a task, the suite itself included",
        ),
    ]


def _child(bench: Bench, many: int, concurrency: int, seconds: float) -> Sample:
    database = bench.folder / "evals.db"
    for file in bench.folder.glob("evals.db*"):
        file.unlink()
    arguments = [str(many), str(concurrency), str(seconds), str(database)]
    return last_line([sys.executable, "-m", "bench.agents", *arguments], Sample)


async def evaluate(many: int, concurrency: int, seconds: float, database: str) -> Sample:
    """A complete run: read, plan and store the suite, run and record every task. One task runs first, to load everything."""
    store = await open_store(f"sqlite:///{database}")
    async with open_evals(load(concurrency=concurrency), store, [Waiting(seconds)]) as evals:
        await _run(evals, 1)
        cpu, wall = time.process_time(), time.perf_counter()
        await _run(evals, many)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    await store.close()
    return Sample(cpu, wall, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


async def _run(evals: EvalRuntime, many: int) -> None:
    run = await _start(evals, many)
    ended = await evals.executor.wait(run.id)
    assert ended.metadata["passedCount"] == many, ended.metadata


async def _start(evals: EvalRuntime, many: int) -> Run:
    tasks = [
        {
            "taskId": f"t-{at}",
            "input": at,
            "expected": {"kind": "golden", "match": {"strategy": "exact", "value": f"answer {at}"}},
        }
        for at in range(many)
    ]
    suite = read_suite(
        {"suiteId": "local.bench.evals.one", "version": "1.0.0", "modes": ["golden"], "tasks": tasks}
    )
    plan = await evals.service.plan(
        EvalRequest(suite_ref=suite.suite_id, agent_id=AGENT), LOCAL_TENANT, suite
    )
    run = await evals.service.submit(plan, LOCAL_TENANT, evals.executor.executor_id)
    evals.executor.start(run)
    return run


def main() -> None:
    many, concurrency, seconds, database = sys.argv[1:]
    sample = asyncio.run(evaluate(int(many), int(concurrency), float(seconds), database))
    print(msgspec.json.encode(sample).decode())


if __name__ == "__main__":
    main()
