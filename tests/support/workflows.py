"""A room for workflows in this process, with agents that do what a test says."""

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
from assay.workflow.nodes import NODES
from assay.workflow.service import WorkflowService
from assay.workflow.state.execution_state import ExecutionLimits
from assay.workflow.verifier_loop import workflow_of
from support.evals import Judges

EVERYTHING = frozenset({"runs:create", "runs:read", "runs:cancel", "approvals:respond", "manifest:read"})
ME = Principal(tenant="t", id="key-me", scopes=EVERYTHING)
OTHER = Principal(tenant="other", id="key-other", scopes=EVERYTHING)


class Played:
    """An agent whose turns are a list, or a function of the task and the scene."""

    def __init__(self, id, turns, **card):
        self.card = AgentCard(agent_id=id, **card)
        self._turns = turns
        self.tasks = []

    async def invoke(self, task, scene):
        self.tasks.append(task)
        if callable(self._turns):
            said = self._turns(task, scene)
            if asyncio.iscoroutine(said):
                said = await said
        else:
            said = self._turns[min(len(self.tasks), len(self._turns)) - 1]
        if isinstance(said, BaseException):
            raise said
        return (
            said if isinstance(said, InvocationResult) else InvocationResult(outcome="completed", result=said)
        )

    async def close(self): ...


class Cast:
    def __init__(self, *agents):
        self._agents = {agent.card.agent_id: agent for agent in agents}

    def cards(self):
        return [agent.card for agent in self._agents.values()]

    def get(self, agent_id):
        return self._agents.get(agent_id)

    async def close(self): ...


class House:
    """`async with House(...) as house:`; what it stands on may be a store of before."""

    def __init__(
        self, *agents, loops=None, workflows=(), store=None, tools=None, bounds=None, seconds=5.0, lease=1.0, judge=None
    ):  # fmt: skip
        self.store = store or MemoryStore()
        services = Services(providers=Judges(judge) if judge is not None else None)
        self.agents = Cast(*agents)
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
        self.desk = RunExecutor(self.store, engine, {self.kind.name: self.kind}, lease=lease)
        performer.executor = self.desk
        self.room = WorkflowService(
            self.store, self.desk, self.kind, self.library, self.critics, services.clock
        )

    async def __aenter__(self):
        await self.desk.open()
        return self

    async def __aexit__(self, *_):
        await self.desk.close(seconds=0.2)

    async def run(self, workflow, inputs=None, configurable=None, who=ME):
        """Started, and gone as far as it goes."""
        run = await self.room.start(who, workflow, inputs, configurable)
        return await self.desk.wait(run.id)

    async def answer(self, run, node, value, who=ME):
        await self.room.respond(who, run.id, node, value)
        return await self.desk.wait(run.id)

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
        async for event in self.desk.follow(run.id, run.tenant):
            if event is not None and event.type == type:
                break
        return await self.events(run, type)

    async def types(self, run):
        return [event.type for event in await self.store.events(run.id, limit=10_000)]


def loop(actor="test.actor", critics=("test.critic",), **more):
    return VerifierLoopConfig(actor=actor, critics=list(critics), **more)


@asynccontextmanager
async def verified(actor, *critics, **more):
    """A house with one verified loop, `loop`."""
    named = [critic for critic in critics if isinstance(critic, Played)]
    names = [critic.card.agent_id for critic in named]
    declared = loop(actor.card.agent_id, names, **more)
    async with House(actor, *named, loops={"loop": declared}) as house:
        yield house
