"""The state machine of deployments (openwop-contract §9.3): what is possible, and what it changes. Pure functions."""

from collections.abc import Collection
from hashlib import blake2s

import msgspec
from msgspec import UNSET, Struct

from assay.errors import InvalidRequest, Problem
from assay.promotion.records import FULL, MAX_VERSIONS, AgentRecords, VersionRecord, shares, version_order
from assay.protocol.deployments import (
    CanaryAdjusted,
    Promoted,
    RolledBack,
    State,
    StateChanged,
    TransitionName,
    TransitionRequest,
)
from assay.protocol.events import Payload

LATEST = "latest"  # always the highest active version; no request can bind it
CHANNELS = ("stable", "canary", LATEST)
STATES: tuple[State, ...] = ("draft", "test", "staged", "active", "paused", "deprecated", "rolled-back")
NEXT: dict[State, State] = {"draft": "test", "test": "staged", "staged": "active", "paused": "active"}
TARGETS: dict[TransitionName, State] = {  # of the transitions that need an active version
    "pause": "paused",
    "deprecate": "deprecated",
    "rollback": "rolled-back",
    "adjust-canary": "active",
}
DEPLOY_SCOPES: dict[TransitionName, str] = {
    "promote": "deploy:promote",
    "adjust-canary": "deploy:promote",
    "pause": "deploy:pause",
    "deprecate": "deploy:pause",
    "rollback": "deploy:rollback",
}


class Planned(Struct, frozen=True, kw_only=True):
    """A possible transition. `follows` is the version that the new one replaces, or the target of a rollback."""

    request: TransitionRequest
    from_state: State
    to_state: State
    follows: str = ""

    @property
    def is_promotion(self) -> bool:
        """Whether a version advances to another state; a paused version that is active again counts too."""
        return self.request.transition == "promote"


class Applied(Struct, frozen=True, kw_only=True):
    """The records after a transition, and its event."""

    records: AgentRecords
    type: str
    payload: Payload


def plan_transition(records: AgentRecords, request: TransitionRequest, installed: Collection[str]) -> Planned:
    """The transition, or an InvalidRequest with every reason why it is not possible."""
    version, record = request.version, records.of(request.version)
    if version not in installed and version not in records.versions:
        there = ", ".join(sorted(installed, key=version_order)) or "none"
        message = f"agent {records.agent_id} has no version {version!r}; there are {there}"
        raise InvalidRequest(Problem("version", message))
    if request.transition == "promote":
        target, problems = _promotion_target(request, record, installed)
    else:
        target, problems = TARGETS[request.transition], _operation_problems(request, record)
    problems += _member_problems(request, target)
    if version not in records.versions and len(records.versions) >= MAX_VERSIONS:
        problems.append(Problem("version", f"{MAX_VERSIONS} versions have a record, which is the limit"))
    follows = ""
    if request.transition == "rollback" and not problems:
        follows = _rollback_target(records, version, installed)
        if not follows:
            message = (
                f"there is no earlier version to roll {version} back to, active or paused, and installed"
            )
            before = records.of(version).replaces
            if before and before not in installed:
                message = (
                    f"expected an earlier version that is installed, got {before}, which is not; an agent of assay.toml"
                    " has one version, a pack keeps several: install a pack of it, or set assay.toml back and promote"
                    " it again"
                )
            problems.append(Problem("version", message))
    elif target == "active" and request.transition == "promote":
        follows = _predecessor(records, request)
    if problems:
        raise InvalidRequest(problems)
    return Planned(request=request, from_state=record.state, to_state=target, follows=follows)


def apply_transition(records: AgentRecords, planned: Planned, gate: str = "") -> Applied:
    """The records after the transition, and its event. `gate` is the id of the approval gate that it passed."""
    request, record = planned.request, records.of(planned.request.version)
    version, agent_id = request.version, records.agent_id
    changed = msgspec.structs.replace(record, state=planned.to_state, gate=gate)
    match request.transition:
        case "promote":
            return _promote(records, planned, changed)
        case "rollback":
            changed = msgspec.structs.replace(changed, rollback_pointer=planned.follows)
            restored = msgspec.structs.replace(records.of(planned.follows), state="active")
            return Applied(
                records=records.replace(version, changed).replace(planned.follows, restored),
                type="deployment.rolled-back",
                payload=RolledBack(
                    agent_id=agent_id,
                    from_version=version,
                    to_version=planned.follows,
                    rollback_pointer=planned.follows,
                    reason=request.reason,
                ),
            )
        case "adjust-canary":
            percent = FULL if request.canary_percent is UNSET else request.canary_percent
            return Applied(
                records=records.replace(version, msgspec.structs.replace(changed, canary=percent)),
                type="deployment.canary.adjusted",
                payload=CanaryAdjusted(
                    agent_id=agent_id, version=version, from_percent=record.canary, to_percent=percent
                ),
            )
        case _:
            return Applied(
                records=records.replace(version, changed),
                type="deployment.state.changed",
                payload=_state_changed(agent_id, planned),
            )


def _promote(records: AgentRecords, planned: Planned, changed: VersionRecord) -> Applied:
    request, serial = planned.request, records.serial
    eval_run = changed.eval_run if request.eval_run_id is UNSET else request.eval_run_id
    changed = msgspec.structs.replace(changed, eval_run=eval_run)
    if planned.to_state == "active":
        percent = request.canary_percent
        if planned.from_state == "staged":
            changed = msgspec.structs.replace(
                changed, replaces=planned.follows, canary=FULL if percent is UNSET else percent
            )
        elif percent is not UNSET:
            changed = msgspec.structs.replace(changed, canary=percent)
        if request.channel is not UNSET:
            serial += 1
            channels = changed.channels | {request.channel: serial}
            changed = msgspec.structs.replace(changed, channels=channels)
    after = records.replace(request.version, changed, serial)
    if planned.from_state == "paused":
        payload = _state_changed(records.agent_id, planned)
        return Applied(records=after, type="deployment.state.changed", payload=payload)
    active = planned.to_state == "active"
    return Applied(
        records=after,
        type="deployment.promoted",
        payload=Promoted(
            agent_id=records.agent_id,
            from_version=planned.follows or UNSET,
            to_version=request.version,
            to_state=planned.to_state,
            channel=request.channel,
            canary_percent=changed.canary if active and changed.canary < FULL else UNSET,
            eval_run_id=request.eval_run_id,
            approval_gate_id=changed.gate or UNSET,
        ),
    )


def _state_changed(agent_id: str, planned: Planned) -> StateChanged:
    return StateChanged(
        agent_id=agent_id,
        version=planned.request.version,
        from_state=planned.from_state,
        to_state=planned.to_state,
    )


def _promotion_target(
    request: TransitionRequest, record: VersionRecord, installed: Collection[str]
) -> tuple[State, list[Problem]]:
    version, target = request.version, NEXT.get(record.state)
    if target is None:
        message = (
            f"{version} is {record.state}: promote leads from draft to test, staged and active, or "
            "from paused to active"
        )
        return "active", [Problem("transition", message)]
    problems: list[Problem] = []
    if request.to_state is not UNSET and request.to_state != target:
        message = f"{version} is {record.state}: expected {target}, the next state, got {request.to_state}"
        problems.append(Problem("toState", message))
    if version not in installed:
        problems.append(
            Problem("version", f"{version} is no longer installed: expected an installed version")
        )
    return target, problems


def _operation_problems(request: TransitionRequest, record: VersionRecord) -> list[Problem]:
    name, target = request.transition, TARGETS[request.transition]
    problems: list[Problem] = []
    if record.state != "active":
        problems.append(
            Problem("transition", f"{request.version} is {record.state}: {name} needs an active version")
        )
    if request.to_state is not UNSET and request.to_state != target:
        problems.append(Problem("toState", f"{name} leads to {target}, got {request.to_state}"))
    if name == "adjust-canary" and request.canary_percent is UNSET:
        problems.append(Problem("canaryPercent", "adjust-canary requires this member"))
    return problems


def _member_problems(request: TransitionRequest, target: State) -> list[Problem]:
    """Members that this transition does not have: they would have no effect."""
    promotes, problems = request.transition == "promote", list[Problem]()
    if request.channel is not UNSET:
        bindable = [channel for channel in CHANNELS if channel != LATEST]
        if not (promotes and target == "active"):
            problems.append(
                Problem("channel", "expected a promotion to active with it; nothing else binds a channel")
            )
        elif request.channel not in bindable:
            message = f"expected one of {', '.join(bindable)}, got {request.channel!r}"
            problems.append(Problem("channel", message))
    if request.canary_percent is not UNSET and not (
        request.transition == "adjust-canary" or (promotes and target == "active")
    ):
        problems.append(Problem("canaryPercent", "expected a promotion to active, or adjust-canary, with it"))
    if request.eval_run_id is not UNSET and not promotes:
        problems.append(Problem("evalRunId", "expected a promotion with it; nothing else has evidence"))
    return problems


def _predecessor(records: AgentRecords, request: TransitionRequest) -> str:
    """The version that served until now: on the channel of the request, or else the highest active one."""
    if request.channel is not UNSET:
        return next((one for one in shares(records, request.channel) if one != request.version), "")
    active = [
        one for one, record in records.versions.items() if record.state == "active" and one != request.version
    ]
    return max(active, key=version_order, default="")


def _rollback_target(records: AgentRecords, version: str, installed: Collection[str]) -> str:
    """The version that was on a channel before this one, newest binding first; else the one it replaced."""
    record = records.of(version)
    earlier = [
        (other.channels[channel], name)
        for channel, serial in record.channels.items()
        for name, other in records.versions.items()
        if other.channels.get(channel, serial) < serial
    ]
    names = [name for _, name in sorted(earlier, reverse=True)]
    for name in [*names, record.replaces]:
        if name in installed and records.of(name).state in ("active", "paused"):
            return name
    return ""


# Channels: which version a run gets (openwop-contract §9.3). The draw depends on the run alone, so that a retry
# draws the same.


def draw(run: str, agent_id: str, channel: str) -> int:
    """A number from 0 to 99 for one run, agent and channel."""
    text = "\0".join((run, agent_id, channel)).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2s(text, digest_size=8).digest()) % 100


def version_of(records: AgentRecords, channel: str, run: str) -> str | None:
    """The version that a channel means for a run; None: it has no active version."""
    if channel == LATEST:
        active = [version for version, record in records.versions.items() if record.state == "active"]
        return max(active, key=version_order, default=None)
    number, reached = draw(run, records.agent_id, channel), 0
    for version, percent in shares(records, channel).items():
        reached += percent
        if number < reached:
            return version
    return None
