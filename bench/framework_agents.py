"""
Agents of frameworks: a suite through an adapter, compared with the framework alone.

    python -m bench.framework_agents pydantic-ai 500 4 0.05      # inside the environment of the framework

The model of the agent waits, and then answers. `alone` runs the agent itself, `concurrency` at a time. `watched` does so
too, with a hook of the framework that does nothing: what an adapter cannot go below.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any

import msgspec

import assay
from bench import neighbours
from bench.files import Bench
from bench.measure import HOME, Row, last_line

ROUNDS = 5
TASKS, SECONDS = 500, 0.05
AT_ONCE = (4, 16, 50)  # the last measures the CPU time of the framework


Ask = Callable[[str], Awaitable[Any]]


class Taken(msgspec.Struct):
    """Seconds of all tasks: on the wall, and of CPU time."""

    wall: float
    cpu: float


class Best(msgspec.Struct):
    """The least that each took."""

    adapter: Taken
    alone: Taken
    watched: Taken


def pydantic_ai(seconds: float) -> tuple[Any, Ask, Ask]:
    messages = _module("pydantic_ai.messages")
    models = _module("pydantic_ai.models.function")

    async def answer(history: Any, info: Any) -> Any:
        await asyncio.sleep(seconds)
        return messages.ModelResponse(parts=[messages.TextPart("yes")])

    base = _module("pydantic_ai.capabilities").AbstractCapability

    class Nothing(base):
        async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
            return response

    agent = _module("pydantic_ai").Agent(models.FunctionModel(answer))
    return agent, agent.run, lambda task: agent.run(task, capabilities=[Nothing()])


def openai_agents(seconds: float) -> tuple[Any, Ask, Ask]:
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
    return (
        agent,
        lambda task: agents.Runner.run(agent, task),
        lambda task: agents.Runner.run(agent, task, hooks=agents.RunHooks()),
    )


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


async def _alone(ask: Ask, tasks: int, concurrency: int) -> None:
    places = asyncio.Semaphore(concurrency)

    async def one(at: int) -> None:
        async with places:
            await ask(f"task {at}")

    await asyncio.gather(*(one(at) for at in range(tasks)))


async def _take(work: Callable[[], Awaitable[None]]) -> Taken:
    gc.collect()
    began, spent = time.perf_counter(), time.process_time()
    await work()
    return Taken(time.perf_counter() - began, time.process_time() - spent)


def _least(taken: list[Taken]) -> Taken:
    return Taken(min(one.wall for one in taken), min(one.cpu for one in taken))


async def measure(framework: str, tasks: int, concurrency: int, seconds: float) -> Best:
    agent, ask, watched = AGENTS[framework](seconds)
    await _adapter(agent, concurrency, concurrency)  # both have loaded what they need
    await _alone(ask, concurrency, concurrency)
    await _alone(watched, concurrency, concurrency)
    works: tuple[Callable[[], Awaitable[None]], ...] = (
        lambda: _adapter(agent, tasks, concurrency),
        lambda: _alone(ask, tasks, concurrency),
        lambda: _alone(watched, tasks, concurrency),
    )
    rounds = [[await _take(work) for work in works] for _ in range(ROUNDS)]
    return Best(*(_least([one[at] for one in rounds]) for at in range(len(works))))


def framework_agents(bench: Bench) -> list[Row]:
    rows = list[Row]()
    for framework, at_once in product(AGENTS, AT_ONCE):
        name = f"{TASKS} tasks of 50 ms through the adapter of {framework}, {at_once} at a time: wall to the framework alone"
        python = neighbours.python_of(framework)
        if python is None:
            rows.append(
                Row(name, "at most", 1.15, values=[], note="not measured: it could not be installed here")
            )
            continue
        path = f"PYTHONPATH={HOME / 'src'}:{HOME}"
        sizes = [str(one) for one in (TASKS, at_once, SECONDS)]
        command = ["env", path, str(python), "-m", "bench.framework_agents", framework, *sizes]
        taken = [last_line(command, Best) for _ in range(bench.rounds(3))]
        ratios = [one.adapter.wall / one.alone.wall for one in taken]
        rows.append(
            Row(name, "at most", 1.15, values=ratios, note=f"each the best of {ROUNDS}; {_cpu(taken)}")
        )
    return rows


def _cpu(taken: list[Best]) -> str:
    """The CPU time of a task."""
    through = min(one.adapter.cpu for one in taken) / TASKS * 1000
    watched = min(one.watched.cpu for one in taken) / TASKS * 1000
    alone = min(one.alone.cpu for one in taken) / TASKS * 1000
    return (
        f"CPU of a task {through:.1f} ms, alone with an empty hook {watched:.1f} ms, without {alone:.1f} ms"
    )


if __name__ == "__main__":
    framework, tasks, concurrency, seconds = sys.argv[1:]
    best = asyncio.run(measure(framework, int(tasks), int(concurrency), float(seconds)))
    sys.stdout.write(msgspec.json.encode(best).decode() + "\n")
