"""
A host without a transport, to be killed: `work` with ADDRESS CASES TYPE NAME.

It takes in the evaluation NAME if the store does not have it, says its id, and ends when every run has. Every check it runs
leaves a line in the file named by RUNS_LOG; the process ends at the check number RUNS_FATAL of type `fated`; what it holds is another's after RUNS_LEASE seconds without a sign of life. A run that
loses RUNS_ATTEMPTS processes in a row is set aside, after RUNS_GRACE seconds. With RUNS_PREPARING the process ends (`killed`)
or stands still (`paused`, until the file RUNS_LOG.go is there) while it prepares a run.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from assay.backends.engines.local import LocalEngine
from assay.backends.stores.open import open_store
from assay.checks import STANDARD
from assay.checks.checker import Checker
from assay.fep.execution.execute import ExecutionOptions
from assay.fep.planning.request import contexts_of
from assay.fep.records.kind import EvaluationKind
from assay.fep.records.service import EvaluationService, PlannedEvaluation
from assay.ports import Limits, PutDocument, RunQuery, Services
from assay.protocol.evaluation import Check, ExperimentMetadata
from assay.runs.executor import RunExecutor
from assay.runs.intake import new_id


def log(at):
    with Path(os.environ["RUNS_LOG"]).open("a") as file:
        file.write(f"{at}\n")


class Logged(Checker):
    """Waits a moment, and says that it was run."""

    type = "logged"
    at: int

    async def run(self, services):
        await asyncio.sleep(0.002)
        log(self.at)
        return {"passed": self.at % 3 == 0}


class Prompt(Checker):
    """Says that it was run, at once."""

    type = "prompt"
    waits = False
    at: int

    def run(self, services):
        log(self.at)
        return {"passed": self.at % 3 == 0}


class Killed(Checker):
    """The end of its process."""

    type = "killed"
    at: int

    async def run(self, services):
        log(self.at)
        os.kill(os.getpid(), signal.SIGKILL)
        return {}


class Fated(Checker):
    """The end of its process, if its number says so."""

    type = "fated"
    at: int

    async def run(self, services):
        if str(self.at) == os.environ["RUNS_FATAL"]:
            log(self.at)
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(0.002)
        return {"passed": True}


class Stopped(Checker):
    """The event loop of its process stands still, and the process never ends by itself."""

    type = "stopped"
    at: int

    async def run(self, services):
        log(self.at)
        time.sleep(600)  # noqa: ASYNC251  # that is the point
        return {}


class Prepared(EvaluationKind):
    """Its process ends or stands still while it prepares a run, before the first unit."""

    async def restore(self, store, run):
        match os.environ.get("RUNS_PREPARING"):
            case "killed":
                log("killed")
                os.kill(os.getpid(), signal.SIGKILL)
            case "paused":
                stand_still(Path(os.environ["RUNS_LOG"] + ".go"))
            case _:
                pass
        return await super().restore(store, run)


def stand_still(go):
    if not go.exists():
        log("paused")
    while not go.exists():
        time.sleep(0.02)


async def main(address: str, cases: int, type: str, name: str) -> None:
    store, lease = await open_store(address), float(os.environ["RUNS_LEASE"])
    services, registry = (
        Services(limits=Limits()),
        STANDARD.with_checks([Logged, Prompt, Killed, Fated, Stopped]),
    )
    kind = Prepared(store, registry, services, ExecutionOptions())
    engine = LocalEngine(lambda _, unit: kind.perform(unit), 16)
    attempts = int(os.environ.get("RUNS_ATTEMPTS", "0")) or None
    grace = float(os.environ.get("RUNS_GRACE", "0"))
    executor = RunExecutor(store, engine, {kind.name: kind}, lease=lease, attempts=attempts, grace=grace)
    service = EvaluationService(store, registry, services, lease=lease)
    await executor.open()
    if (
        await store.document("t", "key", name) is None
    ):  # as a request with a key is sent again until it is answered
        checks = [Check(type=type, arguments={"at": "$.test_case.input"})]
        contexts = contexts_of(
            [{"id": str(at), "input": at} for at in range(cases)],
            [{"value": at} for at in range(cases)],
            services.limits,
        )
        planned = PlannedEvaluation(service.plan(checks), checks, ExperimentMetadata(name=name), cases)
        key, run = PutDocument(tenant="t", kind="key", key=name, data=b""), new_id("eval_")
        executor.start(await service.submit(planned, contexts, "t", executor.executor_id, [key], run=run))
        print(run, flush=True)  # noqa: T201
    for run in await store.runs(RunQuery()):
        await executor.wait(run.id)
    await executor.close()
    await store.close()


def work() -> None:
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
