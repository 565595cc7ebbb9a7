"""A server of our own on loopback, in a thread with its own loop, and clients for it."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec
import pytest

from assay.agenteval.kind import AgentEvalKind, EvalDependencies
from assay.agenteval.planning.request import EvalLimits as EvalHost
from assay.agenteval.service import AgentEvalService
from assay.agents.registered import TenantAgents
from assay.auth import keys
from assay.auth.authenticator import Authenticator
from assay.auth.jwt_settings import JwtSettings
from assay.auth.keys import DEPLOY, SCOPES
from assay.auth.oidc_settings import OidcSettings, validate_oidc
from assay.backends.agents.endpoints import AllowedEndpoints
from assay.backends.agents.from_settings import ConfiguredAgents
from assay.backends.engines.local import LocalEngine
from assay.backends.stores.open import open_store
from assay.checks import STANDARD
from assay.checks.checker import Checker, Text, verdict
from assay.comparison.policy import PromotionPolicy
from assay.concurrency.event_loop import run, supervise
from assay.fep.execution.execute import ExecutionOptions
from assay.fep.records.service import EvaluationService
from assay.fep.trace_windows.kind import TraceWindowKind
from assay.fep.trace_windows.projects import trace_projects
from assay.fep.trace_windows.supervisor import TraceIntake
from assay.host.host import open_sign_in, tokens
from assay.packs.store import InstalledAgents, PackStore
from assay.ports import Limits, Services, SystemClock
from assay.ports.config import TraceProjectConfig
from assay.promotion.kind import ManagementKind
from assay.promotion.service import InstalledVersions, PromotionService
from assay.runs.executor import RunExecutor
from assay.seams.actions import SAMPLE_AGENTS
from assay.seams.deployments import INITIAL_RECORDS
from assay.seams.sample_workflows import SEAM_NODES, samples
from assay.serve.application import ROUTES, http_app
from assay.serve.openwop.build_host import build_host
from assay.serve.openwop.features import OpenWopFeatures
from assay.serve.web.limit_settings import ServerLimits
from assay.serve.web.server import server
from assay.workflow.activities import ActivityRunner
from assay.workflow.critics import Critics
from assay.workflow.interpreter import ExecutionEnvironment
from assay.workflow.kind import WorkflowKind
from assay.workflow.loop_settings import library
from assay.workflow.nodes import NODES
from assay.workflow.service import WorkflowService
from support.evals import AgentTable, FunctionAgent, Judges
from support.waiting import PATIENCE


class Slow(Checker):
    """Takes its time, and says whether the text is long enough."""

    type = "slow"
    text: Text
    seconds: float = 0.05

    async def run(self, services):
        await asyncio.sleep(self.seconds)
        return verdict(len(self.text) > 2)


async def answer_task(task):
    """An agent of ours: after `wait` seconds it answers with `say`."""
    instruction = task if isinstance(task, dict) else {"say": task}
    await asyncio.sleep(instruction.get("wait", 0))
    return instruction.get("say")


TRUST = httpx.create_ssl_context()  # to make it takes a third of the time of a client
LOOPS = [pytest.param(asyncio.run, id="asyncio"), pytest.param(run, id="libuv")]


class Server:
    """`with Server(address) as server:`; what happens inside is on a loop of its own."""

    def beside(self, host):
        """Another transport on the same host, if there is one: something to wait for."""
        return asyncio.sleep(0)

    def __init__(
        self, address, *, serving=None, limits=None, checks=(), patience=30.0, keys_known_for=3.0, routes=None,
        cipher=None, jwt=None, oidc=None, tls=None, agents=(), judge=None, tools=None, offer=None,
        policy=None, clock=None, loops=None, seeded=False, host=None, critic_seconds=60.0, run=run, pack_model=None, pack_keys=None, traces=None,
    ):  # fmt: skip
        self.address, self.serving, self.patience = address, serving or ServerLimits(), patience
        self.limits, self.known_for = limits or Limits(), keys_known_for
        self.registry = STANDARD.with_checks([Slow, *checks])
        self.routes, self.cipher, self.jwt, self.tls = routes, cipher, jwt or JwtSettings(), tls
        self.oidc = oidc or (lambda url: OidcSettings())  # the settings name the address of this server
        self.agents, self.judge, self.tools = (FunctionAgent(answer_task), *agents), judge, tools
        self.offering, self.host_limits = offer or OpenWopFeatures(), host or EvalHost()
        self.loops, self.seeded, self.critic_seconds = loops or {}, seeded, critic_seconds
        self._run = run
        self.policy, self.clock = policy or PromotionPolicy(), clock or SystemClock()
        self.pack_model, self.pack_keys = pack_model, pack_keys or {}
        self.projects = traces or {}  # of `[traces.NAME]`
        self._ready = threading.Event()
        self._trouble = None

    def __enter__(self):
        self._thread = threading.Thread(target=lambda: self._run(self._main()), daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        if self._trouble:
            raise self._trouble
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the server does not stop"

    async def _main(self):
        try:
            self.store = await open_store(self.address, patience=self.patience, cipher=self.cipher)
        except BaseException as trouble:
            self._trouble = trouble
            self._ready.set()
            raise
        self.loop = asyncio.get_running_loop()
        services = Services(limits=self.limits, persists_requests=True)
        kind = TraceWindowKind(self.store, self.registry, services, ExecutionOptions(concurrency=16))
        means = EvalDependencies(
            agents=AgentTable(*self.agents),
            packs=TenantAgents(
                self.store,
                InstalledAgents(PackStore(self.store), self._pack_agents().from_definition),
                lambda: AllowedEndpoints(["127.0.0.1"]),
            ),
            pack_tools=False,
            registry=self.registry,
            services=Services(limits=self.limits, providers=Judges(self.judge) if self.judge else None),
            tools=self.tools,
            limits=self.host_limits,
        )
        evals = AgentEvalKind(self.store, means)
        environment = ExecutionEnvironment(nodes=NODES | SEAM_NODES)
        there = library(self.loops, samples().values() if self.seeded else (), environment.nodes)
        cast = AgentTable(*self.agents, *(SAMPLE_AGENTS if self.seeded else ()))
        critics = Critics(cast, self.registry, services, seconds=self.critic_seconds)
        performer = ActivityRunner(
            self.store, there, cast, critics, services, self.tools, environment=environment
        )
        flows = WorkflowKind(performer, environment, services.clock)
        management = ManagementKind(services.clock)
        kinds = {one.name: one for one in (kind, evals, flows, management)}
        versions = InstalledVersions(cast, means.packs)
        self.promotions = PromotionService(
            self.store, self.policy, self.clock, versions, INITIAL_RECORDS if self.seeded else {}
        )
        self.executor = RunExecutor(
            self.store, LocalEngine(lambda work, unit: kinds[work].perform(unit), 16), kinds
        )
        performer.executor = self.executor
        self.workflows = WorkflowService(self.store, self.executor, flows, there, critics, services.clock)
        self.workflows.channels = self.promotions if self.offering.offer_deployments else None
        self.service = EvaluationService(self.store, self.registry, services)
        self.openwop = build_host(
            self.store,
            AgentEvalService(self.store, means),
            self.offering,
            self.serving,
            self.limits,
            self.workflows,
            pack_keys=self.pack_keys,
            promotions=self.promotions,
        )
        gate = Authenticator(self.store, seconds=self.known_for, tokens=await tokens(self.jwt))
        routes = ROUTES if self.routes is None else self.routes
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        self.app = http_app(
            self.executor, self.service, self.openwop, gate.authenticate, self.serving, routes,
            traces=self._intake(services),
            sign_in=await open_sign_in(validate_oidc(self.oidc(self.url)), self.store, self.clock),
        )  # fmt: skip
        await self.executor.open()
        windows = supervise("trace windows", self.intake.run) if self.intake else None
        self.server = server(self.app, self.serving, host="127.0.0.1", port=self.port, tls=self.tls)
        started = asyncio.create_task(self.server.serve(sockets=[listening]))
        beside = asyncio.create_task(self.beside(self.app.state.server))
        while not self.server.started and not started.done():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        self._ready.set()
        await started
        await beside
        if windows:
            windows.cancel()
        await self.executor.close(5)
        await means.packs.close()
        await self.store.close()

    def _intake(self, services):
        self.intake = None
        if self.projects:
            projects = trace_projects(
                msgspec.convert(self.projects, dict[str, TraceProjectConfig]), self.registry, services
            )
            self.intake = TraceIntake(
                projects, self.store, self.executor, services.clock, self.serving.max_trace_bytes
            )
        return self.intake

    def _pack_agents(self):
        """Agents of packs; their model of the class `general` is scripted."""
        providers = Judges(self.pack_model) if self.pack_model else None
        return ConfiguredAgents({}, providers=providers, models={"general": "scripted:one"})

    def do(self, work):
        """Run a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def key(self, tenant="acme", scopes=frozenset(SCOPES) - DEPLOY, expires=None, *, revoked=False):
        now = datetime.now(UTC)

        async def make():
            made, text = await keys.create(
                self.store, tenant=tenant, scopes=scopes, now=now - timedelta(hours=1), expires=expires
            )
            if revoked:
                await keys.revoke(self.store, made.id, now=now)
            return text.reveal()

        return self.do(make())

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def client(self, key=None, **key_of):
        """An httpx client with a key of its own."""
        headers = {} if key == "" else {"Authorization": f"Bearer {key or self.key(**key_of)}"}
        with httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE, verify=TRUST) as client:
            yield client

    def raw(self, data, *, seconds=PATIENCE, close=False):
        """Bytes out, bytes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(data)
            if close:
                connection.shutdown(socket.SHUT_WR)
            answer = b""
            with contextlib.suppress(TimeoutError, ConnectionResetError):
                while part := connection.recv(65536):
                    answer += part
            return answer


CONTAINS = {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["Paris"]}}
SLOW = {"type": "slow", "arguments": {"text": "$.output.value"}}


def request_of(many=3, checks=(CONTAINS,), **more):
    return {
        "test_cases": [{"id": f"c{at}", "input": f"question {at}"} for at in range(many)],
        "outputs": [{"value": f"Paris {at}"} for at in range(many)],
        "checks": list(checks),
        **more,
    }


def slow(seconds):
    return {"type": "slow", "arguments": {"text": "$.output.value", "seconds": seconds}}


def lines_of(request):
    """The same request as lines."""
    head = {name: request[name] for name in ("checks", "experiment_metadata") if name in request}
    contexts = [
        {"test_case": case, "output": output}
        for case, output in zip(request["test_cases"], request["outputs"], strict=True)
    ]
    return "".join(json.dumps(line) + "\n" for line in (head, *contexts)).encode()


def sqlite(folder: Path) -> str:
    return f"sqlite:///{folder}/runs.db"


class Frame(NamedTuple):
    id: str
    name: str
    data: dict


def events_of(client, id, after=None, most=None):
    """The server-sent events of a run, to the end or up to so many."""
    headers = {"last-event-id": after} if after else {}
    frames: list[Frame] = []
    with client.stream("GET", f"/v1/evaluations/{id}/events", headers=headers) as response:
        if response.status_code == 204:
            return frames
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        held: dict[str, str] = {}
        for line in response.iter_lines():
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(": ")
                held[name] = value
            elif held:
                frames.append(Frame(held["id"], held["event"], json.loads(held["data"])))
                held = {}
                if most is not None and len(frames) >= most:
                    break
    return frames


def invalid_keys(host):
    """Keys that open nothing, by what is wrong with them. An expired one has expired."""
    soon = datetime.now(UTC) + timedelta(seconds=1)
    keys = {
        "none": "",
        "invented": "assay_abcdefgh_" + "x" * 43,
        "no key at all": "hunter2",
        "expired": host.key(expires=soon),
        "revoked": host.key(revoked=True),
        "cut off": host.key()[:-1],
    }
    time.sleep(max(0.0, (soon - datetime.now(UTC)).total_seconds()) + 0.05)
    return keys
