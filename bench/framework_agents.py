"""
Agents of frameworks: a suite through an adapter, compared with the framework alone.

    python -m bench.framework_agents pydantic-ai 500 4 0.05      # inside the environment of the framework

The model of the agent waits, and then answers. `alone` runs the agent itself, `concurrency` at a time.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

import assay
from bench import neighbours
from bench.files import Bench
from bench.measure import HOME, Row, last_line

ROUNDS = 5
TASKS, AT_ONCE, SECONDS = 500, 4, 0.05  # more at once would measure the CPU time of the framework


class Walls(msgspec.Struct):
    """The best wall time of each, in seconds."""

    adapter: float
    alone: float


def pydantic_ai(seconds: float) -> tuple[Any, Callable[[str], Awaitable[Any]]]:
    messages = _module("pydantic_ai.messages")
    models = _module("pydantic_ai.models.function")

    async def answer(history: Any, info: Any) -> Any:
        await asyncio.sleep(seconds)
        return messages.ModelResponse(parts=[messages.TextPart("yes")])

    agent = _module("pydantic_ai").Agent(models.FunctionModel(answer))
    return agent, agent.run


def openai_agents(seconds: float) -> tuple[Any, Callable[[str], Awaitable[Any]]]:
    agents, testing = _module("agents"), _module("agents.testing")

    class Waiting(agents.Model):
        async def get_response(self, *_: Any, **__: Any) -> Any:
            await asyncio.sleep(seconds)
            message = testing.assistant_message("yes")
            return agents.ModelResponse(output=[message], usage=agents.Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    agents.set_tracing_disabled(True)
    agent = agents.Agent(name="bench", model=Waiting())
    return agent, lambda task: agents.Runner.run(agent, task)


AGENTS = {"pydantic-ai": pydantic_ai, "openai-agents": openai_agents}


def _module(name: str) -> Any:
    return __import__(name, fromlist=["*"])


async def _adapter(agent: Any, tasks: int, concurrency: int) -> None:
    expected = {"kind": "golden", "match": {"strategy": "exact", "value": "yes"}}
    suite = {
        "suiteId": "local.evals.bench",
        "version": "1.0.0",
        "modes": ["golden"],
        "tasks": [{"taskId": f"t{at}", "input": f"task {at}", "expected": expected} for at in range(tasks)],
    }
    result = await assay.run_suite(suite, agent, concurrency=concurrency)
    assert result.passed, result


async def _alone(ask: Callable[[str], Awaitable[Any]], tasks: int, concurrency: int) -> None:
    places = asyncio.Semaphore(concurrency)

    async def one(at: int) -> None:
        async with places:
            await ask(f"task {at}")

    await asyncio.gather(*(one(at) for at in range(tasks)))


async def _wall(work: Callable[[], Awaitable[None]]) -> float:
    gc.collect()
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def measure(framework: str, tasks: int, concurrency: int, seconds: float) -> Walls:
    agent, ask = AGENTS[framework](seconds)
    await _adapter(agent, concurrency, concurrency)  # both have loaded what they need
    await _alone(ask, concurrency, concurrency)
    walls = [
        Walls(
            adapter=await _wall(lambda: _adapter(agent, tasks, concurrency)),
            alone=await _wall(lambda: _alone(ask, tasks, concurrency)),
        )
        for _ in range(ROUNDS)
    ]
    return Walls(adapter=min(one.adapter for one in walls), alone=min(one.alone for one in walls))


def framework_agents(bench: Bench) -> list[Row]:
    rows = list[Row]()
    for framework in AGENTS:
        name = f"{TASKS} tasks of 50 ms through the adapter of {framework}, {AT_ONCE} at a time: wall to the framework alone"
        python = neighbours.python_of(framework)
        if python is None:
            rows.append(
                Row(name, "at most", 1.15, values=[], note="not measured: it could not be installed here")
            )
            continue
        path = f"PYTHONPATH={HOME / 'src'}:{HOME}"
        sizes = [str(one) for one in (TASKS, AT_ONCE, SECONDS)]
        command = ["env", path, str(python), "-m", "bench.framework_agents", framework, *sizes]
        walls = [last_line(command, Walls) for _ in range(bench.rounds(3))]
        ratios = [one.adapter / one.alone for one in walls]
        rows.append(Row(name, "at most", 1.15, values=ratios, note=f"each the best of {ROUNDS}"))
    return rows


if __name__ == "__main__":
    framework, tasks, concurrency, seconds = sys.argv[1:]
    walls = asyncio.run(measure(framework, int(tasks), int(concurrency), float(seconds)))
    sys.stdout.write(msgspec.json.encode(walls).decode() + "\n")
