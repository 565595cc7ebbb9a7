"""`--to`: send the verdicts of a stored run to the backend of its traces."""

import os
import shlex
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from assay.agenteval.planning.run_header import KIND as EVAL
from assay.agenteval.results.report import read_results
from assay.backends.verdicts import receiver_of
from assay.cli.console.console import count_of, echo_err
from assay.cli.stored_runs.run_list import with_evaluations
from assay.errors import EnvironmentFailure, UsageError
from assay.fep.records.run_header import KIND
from assay.fep.records.send_verdicts import Sent, send_verdicts
from assay.fep.records.service import EvaluationService
from assay.ports import CLOSED, Run
from assay.ports.verdicts import VerdictReceiver


class Target(NamedTuple):
    """A receiver and the text of `--to` that names it."""

    spec: str
    receiver: VerdictReceiver


class Delivery(NamedTuple):
    """What a target has of a run. `error`: why it does not have all of it."""

    target: Target
    sent: Sent
    error: str = ""

    @property
    def line(self) -> str:
        return f"{count_of(self.sent.verdicts, 'verdict')} sent to {self.target.receiver.address}"

    @property
    def document(self) -> dict[str, Any]:
        sent = self.sent
        return {
            "to": self.target.receiver.address,
            "verdicts": sent.verdicts,
            "rejected": sent.rejected,
            "without_trace": sent.without_trace,
            **({"error": self.error} if self.error else {}),
        }


def read_targets(specs: Sequence[str]) -> list[Target]:
    """The receivers that `--to` names. A UsageError: one of them is not possible."""
    targets = [Target(spec, receiver_of(spec, os.environ)) for spec in specs]
    addresses = [target.receiver.address for target in targets]
    if twice := next((one for one in addresses if addresses.count(one) > 1), None):
        raise UsageError(f"--to: expected each address once, got {twice} twice")
    return targets


def send_stored(run: str, targets: Sequence[Target], *, explanations: bool) -> list[Delivery]:
    """The same for the id of a run in the store of the settings."""

    async def work(evaluations: EvaluationService) -> list[Delivery]:
        stored = await evaluations.store.run(run)
        assert stored is not None
        return await send_run(evaluations, stored, targets, explanations=explanations)

    return with_evaluations(work)


async def send_run(
    evaluations: EvaluationService, run: Run, targets: Sequence[Target], *, explanations: bool
) -> list[Delivery]:
    """Send the verdicts of a run that has ended to each target. One that fails does not stop the others."""
    if run.kind not in (KIND, EVAL):
        raise UsageError(f"{run.id}: expected a run with results of cases, got one of the kind {run.kind}")
    if run.status not in CLOSED:
        raise UsageError(f"{run.id}: expected a run that has ended, got one that is {run.status}")
    if run.erasure:
        raise UsageError(f"{run.id}: expected a run with its results; {run.erasure}")

    def results(start: int) -> AsyncIterator[bytes]:
        if run.kind == EVAL:
            return read_results(evaluations.store, run, start)
        return evaluations.results(run, start)

    deliveries: list[Delivery] = []
    for target in targets:
        try:
            sent = await send_verdicts(
                evaluations.store, run, results, target.receiver, explanations=explanations
            )
        except EnvironmentFailure as failure:
            deliveries.append(Delivery(target, Sent(), str(failure)))
            continue
        none = sent.results and sent.without_trace == sent.results
        error = "no result has a trace (output.metadata.trace), so nothing was sent" if none else ""
        deliveries.append(Delivery(target, sent, error))
    return deliveries


def report_problems(run: str, deliveries: Sequence[Delivery]) -> bool:
    """Print what was not sent, and how to send it. False: something that should be there is not."""
    complete = True
    for spec, sent, error in ((one.target.spec, one.sent, one.error) for one in deliveries):
        if error:
            echo_err(f"--to {spec}: {error}")
            if not sent.results:
                echo_err(
                    f"the results are stored; send the rest with: assay export {run} --to {shlex.quote(spec)}"
                )
        elif sent.without_trace:
            echo_err(f"--to {spec}: {count_of(sent.without_trace, 'result')} without a trace not sent")
        if sent.rejected:
            echo_err(f"--to {spec}: {count_of(sent.rejected, 'verdict')} rejected: {sent.reason}")
        complete = complete and not error and not sent.rejected
    return complete
