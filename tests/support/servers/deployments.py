"""The ways to deploy assay, each as real processes with the same settings: one server, a group of two, workers; on both databases."""

import contextlib
import json
import os

import httpx

from support.servers.server_group import serve_group
from support.stores.postgres import server as postgres

CANARY = "plant-a-bug"  # a unit with this text meets a bug, whose message has it
PARTS = """
import asyncio
from assay.agenteval.kind import AgentEvalKind
from assay.checks.checker import Checker
from assay.fep.records.kind import EvaluationKind
from assay.workflow.kind import WorkflowKind

def plant(kind):
    perform = kind.perform

    async def broken(self, unit):
        if b"plant-a-bug" in unit:
            raise RuntimeError(unit)
        return await perform(self, unit)

    kind.perform = broken

for kind in (AgentEvalKind, EvaluationKind, WorkflowKind):
    plant(kind)

class Patient(Checker):
    type = "patient"
    text: str

    async def run(self, services):
        await asyncio.sleep(0)
        return {"passed": self.text == "Paris"}

async def answer(task, ctx):
    if task == "wait":
        await asyncio.sleep(600)
    return await ctx.tool("shop:capital") if task == "look it up" else task

def write(task):
    return "with sources" if isinstance(task, dict) and task.get("notes") else "a draft"

def read(about):
    if about["task"] == "impossible":
        return {"verdict": "fail"}
    return {"verdict": "pass" if "sources" in about["result"] else "revise", "notes": "name the sources"}
"""
# the tool of `assay conform`: the number of its calls, of all processes together
COUNTING = """
import fcntl
from pathlib import Path

def count():
    with (Path(__file__).parent / "count").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("x")
        file.flush()
        return file.tell()
"""
# a module of its own: each process for isolated checks loads it
APART = """
from assay.checks.checker import Checker

class Apart(Checker):
    type = "apart"
    isolate = True
    text: str

    def run(self, services):
        return {"passed": self.text == "Paris"}
"""
SETTINGS = """
check_modules = ["parts:Patient", "apart:Apart"]
promotion_policy = "policy.yaml"
[traces.support]
checks = [{contains = "degrees"}]
settle = "0s"
[providers.demo]
kind = "scripted"
script = "script.json"
[models]
judge = "demo:judge"
[agents."local.parts.answer"]
kind = "callable"
target = "parts:answer"
version = "1.0.0"
free = true
tools = ["shop:capital"]
[agents."local.parts.write"]
kind = "callable"
target = "parts:write"
free = true
[agents."local.parts.read"]
kind = "callable"
target = "parts:read"
free = true
[tools."conform:counter"]
kind = "python"
target = "counting:count"
[workflows.note]
actor = "local.parts.write"
critics = ["local.parts.read"]
criteria = ["names-sources"]
max_turns = 3
"""
MET = {
    "criterion_1": {"reason": "so it is", "met": True},
    "criterion_2": {"reason": "it is not", "met": False},
}
FIRST = {f"criterion_{at}": {"reason": "so it is", "met": at == 1} for at in (1, 2, 3)}
SCRIPT = {
    "replies": [
        {"when": "names a month", "say": json.dumps(FIRST)},
        {"when": "<criteria>", "say": json.dumps(MET)},
        {"say": '{"passed": true}'},
    ]
}
POLICY = """
agents:
  local.parts.*:
    states: [staged, active]
    approval: {states: [active], author_may_approve: true}
  local.assay.conform:
    approval: {states: [active]}
"""
SCOPES = ["approvals:respond", "deploy:promote", "evaluations:create", "evaluations:read", "manifest:read", "runs:create",
          "runs:read", "suites:read", "suites:write", "traces:write"]  # fmt: skip
DEPLOYMENTS = ["sqlite", "postgres", "sqlite-two", "postgres-two", "postgres-workers"]


class Deployment:
    """One of them, with a client."""

    def __init__(self, client, grpc, key, make_key, processes):
        """`make_key(tenant, *scopes)` returns a new key."""
        self.client, self.grpc, self.key, self.make_key = client, grpc, key, make_key
        self._processes = processes

    def mark(self):
        """The place in each log, for `log_text`."""
        return [os.fstat(process._err.fileno()).st_size for process in self._processes]

    def log_text(self, since=None):
        """What its processes have logged since a mark. It is read without moving the place where they write."""
        logs = [process._err.fileno() for process in self._processes]
        return "".join(
            os.pread(log, os.fstat(log).st_size, first).decode()
            for log, first in zip(logs, since or [0] * len(logs), strict=True)
        )


@contextlib.contextmanager
def deployed(zygote, folder, name):
    database, _, form = name.partition("-")
    for file, text in {
        "parts.py": PARTS, "apart.py": APART, "counting.py": COUNTING, "assay.toml": SETTINGS, "script.json": json.dumps(SCRIPT), "policy.yaml": POLICY,
    }.items():  # fmt: skip
        (folder / file).write_text(text)
    environ = {"OPENWOP_CONFORMANCE_SEED": "true", "OPENWOP_TEST_SEAM_ENABLED": "true"}
    with contextlib.ExitStack() as stack:
        if database == "postgres":
            store = postgres().database() if form == "workers" else postgres().store_database()
            environ["ASSAY_DATABASE_URL"] = stack.enter_context(store)
        if form == "workers":
            environ["ASSAY_ENGINE"] = "workers"
        options = ("--processes", "2") if form == "two" else ()
        python = zygote.bin / "python"  # processes for checks are forked: their own start is shown elsewhere
        group = stack.enter_context(serve_group(zygote, folder, *options, python=python, **environ))
        whole = {**os.environ, "PYTHONUNBUFFERED": "1", **environ}
        workers = []
        for _ in range(2 if form == "workers" else 0):
            workers.append(
                zygote.start(
                    "worker", "--log-level", "info", folder=folder, pipe=True, environ=whole, python=python
                )
            )
            stack.callback(workers[-1].close)
        for worker in workers:
            assert "has started" in worker.stdout.readline(), worker.communicate()

        def make_key(tenant, *scopes):
            words = [word for scope in scopes for word in ("--scope", scope)]
            made = zygote.start(
                "admin", "key", "create", "--tenant", tenant, *words, folder=folder, environ=whole
            )
            return next(word for word in made.communicate()[0].split() if word.startswith("assay_"))

        key = make_key("acme", *SCOPES)
        # a connection for every request: both processes of a group answer
        limits = httpx.Limits(max_keepalive_connections=0)
        client = stack.enter_context(
            httpx.Client(base_url=group.address, headers={"X-API-Key": key}, timeout=60, limits=limits)
        )
        yield Deployment(client, group.calls, key, make_key, [group.process, *workers])
