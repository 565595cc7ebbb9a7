"""What tests of agent evals share: agents that are a function, a host in a store, a run of a suite."""

import asyncio
import inspect
from contextlib import asynccontextmanager

import msgspec

from assay.agenteval.kind import AgentEvalKind, EvalDependencies
from assay.agenteval.planning.request import EvalLimits, EvalRequest
from assay.agenteval.service import EVIDENCE, AgentEvalService, read_scored_units
from assay.agenteval.suites.suite import read_own_suite
from assay.backends.engines.local import LocalEngine
from assay.backends.stores.open import open_store
from assay.checks import STANDARD
from assay.ports import BatchBudget, CompletionRequest, Services
from assay.protocol.agents import AgentCard, InvocationResult
from assay.protocol.event_record import CONTENT, decode_event, envelope
from assay.runs.copy import CopySpec, branch, everything, replay
from assay.runs.executor import RunExecutor
from assay.runs.intake import new_id
from assay.testing import ScriptedModel

TENANT = "t-1"
AGENT = "local.tests.agent"


class FunctionAgent:
    """An agent that is a function of the task, or of the task and its scene."""

    def __init__(self, work, **card):
        self._call = work
        self._two = len(inspect.signature(work).parameters) == 2
        self.card = AgentCard(**{"agent_id": AGENT, "free": True, **card})

    async def invoke(self, task, scene):
        result = self._call(task, scene) if self._two else self._call(task)
        if inspect.isawaitable(result):
            result = await result
        return (
            result
            if isinstance(result, InvocationResult)
            else InvocationResult(outcome="completed", result=result)
        )

    async def close(self): ...


class AgentTable:
    """Agents, by their ids."""

    def __init__(self, *agents):
        self._agents = {agent.card.agent_id: agent for agent in agents}

    def cards(self):
        return [agent.card for agent in self._agents.values()]

    def get(self, agent_id):
        return self._agents.get(agent_id)

    async def close(self): ...


class Judges:
    """Providers whose one judge is scripted."""

    remote = False

    def __init__(self, script):
        self.script = ScriptedModel(script)

    def model(self, provider_config, model_config):
        return self.script, CompletionRequest(messages=(), model="scripted")

    def embedding(self, provider_config, model_config):
        raise AssertionError("nobody embeds")

    async def close(self): ...


def golden(id, value, input=None, strategy="exact", **more):
    match = {"strategy": strategy, "value": value}
    return {"taskId": id, "input": input, "expected": {"kind": "golden", "match": match}, **more}


def rubric(id, *criteria, input=None, **more):
    weighed = [{"criterion": text, "weight": weight} for text, weight in criteria]
    return {"taskId": id, "input": input, "expected": {"kind": "rubric", "rubric": weighed}, **more}


def suite_of(*tasks, modes=("golden",), **more):
    return {
        "suiteId": "local.tests.evals.one",
        "version": "1.0.0",
        "modes": list(modes),
        "tasks": list(tasks),
        **more,
    }


class EvalHost:
    """A host without a transport, and its requests."""

    def __init__(
        self,
        store,
        agent,
        *,
        judge=None,
        tools=None,
        memory=None,
        host=None,
        concurrency=8,
        registry=STANDARD,
        policy=None,
        batch=False,
    ):
        """`batch`: the judges wait, as those of `--batch`."""
        self.store = store
        providers = Judges(judge) if judge is not None else None
        services = Services(providers=providers, batch_budget=BatchBudget() if batch else None)
        self.dependencies = EvalDependencies(
            agents=AgentTable(agent),
            registry=registry,
            policy=policy,
            services=services,
            tools=tools,
            memory=memory,
            limits=host or EvalLimits(),
        )
        self.kind = AgentEvalKind(store, self.dependencies)
        engine = LocalEngine(lambda _, unit: self.kind.perform(unit), concurrency)
        self.executor = RunExecutor(store, engine, {self.kind.name: self.kind})
        self.service = AgentEvalService(store, self.dependencies)

    async def begin(self, suite, **request):
        read = read_own_suite(suite)
        plan = await self.service.plan(
            EvalRequest(suite_ref=read.suite_id, agent_id=AGENT, **request), TENANT, read
        )
        run = await self.service.submit(plan, TENANT, self.executor.executor_id)
        self.executor.start(run)
        return run

    async def run(self, suite, **request):
        run = await self.begin(suite, **request)
        return await self.executor.wait(run.id)

    async def events(self, run):
        """As its owner reads them."""
        events = []
        for event in await self.store.events(run.id, limit=100_000):
            known = decode_event(event.data)
            pieces = await self.store.chunks(run.id, CONTENT, key=known.eventId)
            content = msgspec.json.decode(pieces[0].data) if pieces else None
            events.append(envelope(run.id, event.type, event.at, event.sequence, event.data, content))
        return events

    async def results(self, run):
        return [msgspec.json.decode(line) async for line in self.service.results(run)]


@asynccontextmanager
async def eval_host(agent, address="memory:", **more):
    store = await open_store(address)
    hosted = EvalHost(store, agent if hasattr(agent, "invoke") else FunctionAgent(agent), **more)
    try:
        yield hosted
    finally:
        await hosted.executor.close()
        await store.close()


def run_suite(agent, suite, *, address="memory:", request=None, **more):
    """One run from beginning to end: it, its events, its summary, its evidence."""

    async def main():
        async with eval_host(agent, address, **more) as hosted:
            run = await hosted.run(suite, **(request or {}))
            return run, await hosted.events(run), await hosted.service.summary(run), await hosted.results(run)

    return asyncio.run(main())


async def replay_run(hosted, source):
    """A replay of a run, in the same store."""
    return await replay(hosted.store, source, everything(EVIDENCE), run=new_id("run-"))


async def resume_run(hosted, source):
    """What `assay run --resume` does: a run that copies what has a score, and does the rest."""
    scored = await read_scored_units(hosted.store, source)
    run = await branch(
        hosted.store,
        source,
        CopySpec(scored.evidence, scored.keep),
        run=new_id("run-"),
        metadata=scored.metadata,
    )
    claimed = await hosted.store.claim(run.id, hosted.executor.executor_id, seconds=10)
    hosted.executor.start(claimed)
    return await hosted.executor.wait(run.id)
