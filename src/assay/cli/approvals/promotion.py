"""`assay deploy promote`, `rollback` and `list`: transitions of agent versions, here or on another host."""

import asyncio
import secrets
import shlex
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import msgspec
import typer
from msgspec import UNSET, Struct

from assay import settings
from assay.agenteval.planning.run_header import KIND as EVAL
from assay.auth.local_key import PRINCIPAL
from assay.cli.console.client import HostClient, HostRefusal
from assay.cli.console.console import echo, echo_err, echo_json
from assay.cli.console.console_table import Page, Table, cell
from assay.errors import InvalidRequest, NotFound, UsageError
from assay.errors.exit_codes import ERROR, NOT_PASSED, PASSED
from assay.host import parts
from assay.ports import Store
from assay.promotion.records import EvalGateUnmet
from assay.promotion.service import PromotionService
from assay.promotion.states import all_deployments
from assay.promotion.transitions import NEXT, STATES
from assay.protocol.deployments import (
    AgentDeployment,
    Condition,
    TransitionName,
    TransitionPending,
    TransitionRequest,
)
from assay.protocol.validation_messages import problems_in
from assay.runs.find_run import find_run
from assay.settings import Settings

# Conditions that say that nothing was measured, or not by this run: exit code 1.
UNMEASURED = frozenset(
    {
        "eval_run_required",
        "eval_run_unknown",
        "eval_run_not_completed",
        "eval_run_not_ended",
        "eval_regression_undecided",
        "eval_regression_unknown",
    }
)
TRANSITIONS: dict[str, TransitionName] = {
    "test": "promote",
    "staged": "promote",
    "active": "promote",
    "paused": "pause",
    "deprecated": "deprecate",
}
_records = msgspec.json.Decoder(list[AgentDeployment]).decode
_record = msgspec.json.Decoder(AgentDeployment).decode
_pending = msgspec.json.Decoder(TransitionPending).decode
_conditions = msgspec.json.Decoder(list[Condition]).decode


class Target(Struct, frozen=True, kw_only=True):
    """Where the deployments are: this machine, or a server."""

    server: str | None = None
    key_file: str | None = None

    def options(self) -> str:
        """The options of a command that answers there."""
        key = f" --key-file {shlex.quote(self.key_file)}" if self.key_file is not None else ""
        return "" if self.server is None else f" --server {shlex.quote(self.server)}{key}"


class Outcome(Struct, frozen=True, kw_only=True):
    """A record after a transition. `waits` is the management run that waits for an approval."""

    record: AgentDeployment
    waits: str | None = None


def promote(
    *,
    subject: str,
    to: str,
    eval_run: str | None,
    channel: str | None,
    canary: int | None,
    target: Target,
    json: bool,
) -> None:
    """Take one step, and exit with its code."""
    agent, version = split_subject(subject)
    if to not in TRANSITIONS:
        other = f"; `assay deploy rollback {subject}` leads to rolled-back" if to == "rolled-back" else ""
        raise UsageError(f"--to {to}: expected one of {', '.join(TRANSITIONS)}{other}")
    current = _find(_list(target, agent), version)
    if current is not None:
        _check_step(subject, current.state, to, target)
    adjusts = current is not None and current.state == to == "active" and canary is not None
    request = TransitionRequest(
        version=version,
        transition="adjust-canary" if adjusts else TRANSITIONS[to],
        to_state=to,  # pyright: ignore[reportArgumentType]  # one of the states
        channel=UNSET if channel is None else channel,
        canary_percent=UNSET if canary is None else canary,
        eval_run_id=UNSET if eval_run is None else _eval_run(target, eval_run),
    )
    _finish(agent, request, subject, target, json=json)


def rollback(*, subject: str, reason: str | None, target: Target, json: bool) -> None:
    """Roll a version back, and exit with its code. Without a version, it is the active one."""
    agent, _, version = subject.partition("@")
    if not version:
        version = _active_version(_list(target, agent), agent)
    request = TransitionRequest(
        version=version, transition="rollback", reason=UNSET if reason is None else reason
    )
    _finish(agent, request, f"{agent}@{version}", target, json=json)


def deployments(*, agent: str | None, target: Target, json: bool) -> None:
    """Print the deployments of one agent, or of all."""
    records = _list_all(target) if agent is None else _list(target, agent)
    if records is None:
        raise UsageError(
            f"there is no agent {agent!r}: `assay pack list` shows the packs, assay.toml has the others"
        )
    if json:
        echo_json(msgspec.json.encode(records))
    elif not records:
        echo("no version is deployed; `assay deploy promote AGENT@VERSION --to test` begins")
    else:
        _show(records)


def split_subject(subject: str) -> tuple[str, str]:
    """`AGENT@VERSION` in its two parts."""
    agent, at, version = subject.rpartition("@")
    if not at or not agent or not version:
        raise UsageError(f"AGENT@VERSION: expected a name such as local.shop.bot@1.2.0, got {subject!r}")
    return agent, version


def _check_step(subject: str, state: str, to: str, target: Target) -> None:
    """Refuse a step that skips a state, and name the next command."""
    if TRANSITIONS[to] != "promote" or state not in NEXT:
        return
    following = NEXT[state]  # pyright: ignore[reportArgumentType]  # one of its keys
    if following != to:
        raise UsageError(
            f"{subject} is {state}: expected --to {following}, the next state, got --to {to}",
            f"next: assay deploy promote {subject} --to {following}{target.options()}",
        )


def _finish(agent: str, request: TransitionRequest, subject: str, target: Target, *, json: bool) -> None:
    """Do it, and print the record, or every condition that is not met."""
    try:
        outcome = _transition(target, agent, request)
    except EvalGateUnmet as unmet:
        raise typer.Exit(_show_unmet(unmet.conditions, subject, request, target, json=json)) from None
    if json:
        document: dict[str, Any] = {"record": outcome.record}
        document |= {} if outcome.waits is None else {"runId": outcome.waits, "status": "waiting-approval"}
        echo_json(msgspec.json.encode(document))
    elif outcome.waits is None:
        echo(_record_line(outcome.record))
    if outcome.waits is not None:
        echo_err(
            f"{subject} stays {outcome.record.state} until the transition is approved (run {outcome.waits})"
        )
        echo_err(_respond_hint(outcome.waits, target))
        raise typer.Exit(NOT_PASSED)
    raise typer.Exit(PASSED)


def _respond_hint(run: str, target: Target) -> str:
    if target.server is None:
        return f"assay respond {run} --accept approves it, --reject rejects it"
    path = f"{target.server.rstrip('/')}/v1/runs/{run}/interrupts/approval"
    return f'an approver answers with POST {path} and {{"resumeValue": {{"action": "accept"}}}}'


def _show_unmet(
    conditions: Sequence[Condition], subject: str, request: TransitionRequest, target: Target, *, json: bool
) -> int:
    if json:
        document = {"error": "eval_gate_unmet", "conditions": conditions}
        echo_json(msgspec.json.encode(document))
    else:
        echo(f"{subject} is not promoted: {len(conditions)} unmet")
        for condition in conditions:
            echo(f"  {condition.message}")
        commands = dict.fromkeys(str(one.command) for one in conditions if one.command is not UNSET)
        for command in commands:
            echo(f"measure it again: {command}")
        to = "" if request.to_state is UNSET else f" --to {request.to_state}"
        echo(f"then: assay deploy promote {subject}{to} --eval latest{target.options()}")
    return ERROR if all(one.code in UNMEASURED for one in conditions) else NOT_PASSED


def _transition(target: Target, agent: str, request: TransitionRequest) -> Outcome:
    if target.server is None:
        return asyncio.run(_transition_local(agent, request))
    host = HostClient(target.server, target.key_file)
    headers = {"Idempotency-Key": secrets.token_hex(16)}
    try:
        body = host.request("POST", _path(agent), request, **headers)
    except HostRefusal as refusal:
        if refusal.remote_code != "eval_gate_unmet":
            raise
        found = _conditions(msgspec.json.encode(refusal.remote_details.get("conditions", [])))
        raise EvalGateUnmet(found, run=str(refusal.remote_details.get("runId", ""))) from None
    if b'"runId"' in body:
        pending = _pending(body)
        return Outcome(record=pending.record, waits=pending.run_id)
    return Outcome(record=_record(body))


async def _transition_local(agent: str, request: TransitionRequest) -> Outcome:
    if problems := problems_in(msgspec.to_builtins(request), TransitionRequest, ""):
        raise InvalidRequest(problems)  # as a server refuses it
    async with open_promotions(settings.load()) as (_, promotions):
        found = await promotions.transition(PRINCIPAL, agent, request)
        return Outcome(record=found.record, waits=found.run.id if found.waits else None)


def _list(target: Target, agent: str) -> list[AgentDeployment] | None:
    """The records of an agent; None: they cannot be read, and the transition says why."""
    if target.server is not None:
        try:
            return _records(HostClient(target.server, target.key_file).request("GET", _path(agent)))
        except HostRefusal:
            return None

    async def read() -> list[AgentDeployment] | None:
        async with open_promotions(settings.load()) as (_, promotions):
            try:
                return await promotions.deployments(PRINCIPAL.tenant, agent)
            except NotFound:
                return None

    return asyncio.run(read())


def _list_all(target: Target) -> list[AgentDeployment]:
    if target.server is None:

        async def read() -> list[AgentDeployment]:
            async with parts.store(settings.load(), light=True) as store:
                return await all_deployments(store, PRINCIPAL.tenant)

        return asyncio.run(read())
    host = HostClient(target.server, target.key_file)
    agents = msgspec.json.decode(host.request("GET", "/v1/agents"))["agents"]
    return [
        record
        for agent in agents
        for record in _records(host.request("GET", _path(agent["agentId"])))
        if record.state != "draft"
    ]


def _path(agent: str) -> str:
    return f"/v1/agents/{quote(agent, safe='')}/deployments"


def _find(records: Sequence[AgentDeployment] | None, version: str) -> AgentDeployment | None:
    return next((one for one in records or () if one.version == version), None)


def _active_version(records: Sequence[AgentDeployment] | None, agent: str) -> str:
    active = [one.version for one in records or () if one.state == "active"]
    if len(active) != 1:
        got = f"{len(active)} are active: {', '.join(active)}" if active else "no version is active"
        raise UsageError(f"expected AGENT@VERSION, or an agent with one active version; of {agent}, {got}")
    return active[0]


def _eval_run(target: Target, reference: str) -> str:
    """The id of the run that is referred to."""
    if target.server is not None:
        return HostClient(target.server, target.key_file).find_run(reference, "eval run", kind=[EVAL])

    async def find() -> str:
        async with parts.store(settings.load(), light=True) as store:
            try:
                return (await find_run(store, reference, EVAL, tenant=PRINCIPAL.tenant)).id
            except UsageError:
                if reference == "latest":
                    raise
                return reference  # the gate says that there is no such run

    return asyncio.run(find())


@asynccontextmanager
async def open_promotions(config: Settings) -> AsyncGenerator[tuple[Store, PromotionService]]:
    """The deployments of the local store, under the policy of the settings."""
    services, agents = parts.services(config), parts.agents(config)
    async with parts.store(config, light=True) as store:
        packs = parts.tenant_agents(config, store)
        try:
            yield store, parts.promotion_service(config, store, agents, services, packs)
        finally:
            await agents.close()
            await services.close()


def _show(records: Sequence[AgentDeployment]) -> None:
    order = {state: at for at, state in enumerate(STATES)}
    table = Table(header_style="bold", padding=(0, 2, 0, 0))
    for name in ("agent", "version", "state", "channels", "evidence"):
        table.add_column(name, no_wrap=True)
    for record in records:
        style = (
            "green" if record.state == "active" else "" if order[record.state] < order["active"] else "dim"
        )
        table.add_row(
            record.agent_id,
            record.version,
            cell(_state(record), style),
            "–" if record.channels is UNSET else ", ".join(record.channels),
            "–" if record.eval_run_id is UNSET else record.eval_run_id,
        )
    Page().put_table(table)


def _state(record: AgentDeployment) -> str:
    if record.state == "rolled-back" and record.rollback_pointer is not UNSET:
        return f"rolled-back to {record.rollback_pointer}"
    if record.state == "active" and record.canary_percent is not UNSET:
        return f"active, {record.canary_percent}%"
    return record.state


def _record_line(record: AgentDeployment) -> str:
    channels = "" if record.channels is UNSET else f", channels {', '.join(record.channels)}"
    evidence = "" if record.eval_run_id is UNSET else f", evidence {record.eval_run_id}"
    return f"{record.agent_id}@{record.version} is {_state(record)}{channels}{evidence}"
