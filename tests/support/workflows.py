"""A host for workflows in this process, with agents that do what a test says."""

import asyncio
from contextlib import asynccontextmanager

from assay.backends.engines.local import LocalEngine
from assay.backends.stores.memory import MemoryStore
from assay.checks import STANDARD
from assay.ports import Principal, Services
from assay.ports.config import VerifierLoopConfig
from assay.protocol.agents import AgentCard, InvocationResult
from assay.protocol.event_record import envelope
from assay.runs.executor import RunExecutor
from assay.seams.sample_workflows import SEAM_NODES, samples
from assay.workflow.activities import ActivityRunner
from assay.workflow.critics import Critics
from assay.workflow.interpreter import ExecutionEnvironment
from assay.workflow.kind import WorkflowKind
from assay.workflow.library import Library
from assay.workflow.loop_settings import workflow_of
from assay.workflow.nodes import NODES
from assay.workflow.service import WorkflowService
from assay.workflow.state.execution_state import ExecutionLimits
from support.evals import AgentTable, Judges

EVERYTHING = frozenset({"runs:create", "runs:read", "runs:cancel", "approvals:respond", "manifest:read"})
ME = Principal(tenant="t", id="key-me", scopes=EVERYTHING)
OTHER = Principal(tenant="other", id="key-other", scopes=EVERYTHING)


class ScriptedAgent:
    """An agent whose turns are a list, or a function of the task and the scene."""

    def __init__(self, id, turns, **card):
        self.card = AgentCard(agent_id=id, **card)
        self._turns = turns
        self.tasks = []

    async def invoke(self, task, scene):
        self.tasks.append(task)
        if callable(self._turns):
            answer = self._turns(task, scene)
            if asyncio.iscoroutine(answer):
                answer = await answer
        else:
            answer = self._turns[min(len(self.tasks), len(self._turns)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return (
            answer
            if isinstance(answer, InvocationResult)
            else InvocationResult(outcome="completed", result=answer)
        )

    async def close(self): ...


class WorkflowHost:
    """`async with WorkflowHost(...) as host:`; its store may be one that an earlier host filled."""

    def __init__(
        self, *agents, loops=None, workflows=(), store=None, tools=None, bounds=None, seconds=5.0, lease=1.0, judge=None
    ):  # fmt: skip
        self.store = store or MemoryStore()
        services = Services(providers=Judges(judge) if judge is not None else None)
        self.agents = AgentTable(*agents)
        self.critics = Critics(self.agents, STANDARD, services, seconds=seconds)
        self.library = Library(samples().values(), NODES | SEAM_NODES)
        for workflow in workflows:
            self.library.add(workflow)
        for id, loop in (loops or {}).items():
            self.library.add(workflow_of(id, loop))
        environment = ExecutionEnvironment(bounds or ExecutionLimits(), NODES | SEAM_NODES)
        performer = ActivityRunner(
            self.store,
            self.library,
            self.agents,
            self.critics,
            services,
            tools,
            environment=environment,
            seconds=seconds,
        )
        self.kind = WorkflowKind(performer, environment, services.clock)
        engine = LocalEngine(lambda _, unit: self.kind.perform(unit), 4)
        self.executor = RunExecutor(self.store, engine, {self.kind.name: self.kind}, lease=lease)
        performer.executor = self.executor
        self.workflows = WorkflowService(
            self.store, self.executor, self.kind, self.library, self.critics, services.clock
        )

    async def __aenter__(self):
        await self.executor.open()
        return self

    async def __aexit__(self, *_):
        await self.executor.close(seconds=0.2)

    async def run(self, workflow, inputs=None, configurable=None, who=ME):
        """Started, and gone as far as it goes."""
        run = await self.workflows.start(who, workflow, inputs, configurable)
        return await self.executor.wait(run.id)

    async def answer(self, run, node, value, who=ME):
        await self.workflows.respond(who, run.id, node, value)
        return await self.executor.wait(run.id)

    async def events(self, run, type=None):
        found = []
        for event in await self.store.events(run.id, limit=10_000):
            document = envelope(run.id, event.type, event.at, event.sequence, event.data)
            pieces = await self.store.chunks(run.id, "content", key=document["eventId"])
            if pieces:
                import json

                document["payload"] |= json.loads(pieces[0].data)
            if type is None or event.type == type:
                found.append(document)
        return found

    async def until(self, run, type):
        """Those of a type, once there are any."""
        async for event in self.executor.follow(run.id, run.tenant):
            if event is not None and event.type == type:
                break
        return await self.events(run, type)

    async def types(self, run):
        return [event.type for event in await self.store.events(run.id, limit=10_000)]


def loop(actor="test.actor", critics=("test.critic",), **more):
    return VerifierLoopConfig(actor=actor, critics=list(critics), **more)


@asynccontextmanager
async def verifier_host(actor, *critics, **more):
    """A host with one verified loop, `loop`."""
    named = [critic for critic in critics if isinstance(critic, ScriptedAgent)]
    names = [critic.card.agent_id for critic in named]
    declared = loop(actor.card.agent_id, names, **more)
    async with WorkflowHost(actor, *named, loops={"loop": declared}) as house:
        yield house
