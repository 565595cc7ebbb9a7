"""The stored deployments of an agent: one document for all its versions, so that two transitions at once conflict."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET, Struct

from assay.errors import EnvironmentFailure, Forbidden, Refusal
from assay.ports import Document, Store
from assay.protocol.deployments import AgentDeployment, Condition, State
from assay.protocol.versions import Precedence, precedence

KIND = "deployment"
FULL = 100  # percent
MAX_VERSIONS = 1_000  # of one agent with a record
_encode = msgspec.json.Encoder(order="deterministic").encode


class VersionRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    The record of one version. `channels` has the serial number of each binding: the newest version of a channel comes
    first.
    """

    state: State = "draft"
    canary: int = FULL
    channels: dict[str, int] = {}
    replaces: str = ""  # the version that it followed as the active one
    rollback_pointer: str = ""
    eval_run: str = ""
    gate: str = ""


DRAFT = VersionRecord()


class AgentRecords(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The records of one agent by version. `serial` counts bindings of channels."""

    agent_id: str
    serial: int = 0
    versions: dict[str, VersionRecord] = {}

    def of(self, version: str) -> VersionRecord:
        """The record of a version; a version without one is a draft."""
        return self.versions.get(version, DRAFT)

    def replace(self, version: str, record: VersionRecord, serial: int | None = None) -> "AgentRecords":
        versions = self.versions | {version: record}
        return msgspec.structs.replace(
            self, versions=versions, serial=self.serial if serial is None else serial
        )


class StoredRecords(Struct, frozen=True, kw_only=True):
    """The records of an agent and the version of their document; 0: there is no document yet."""

    records: AgentRecords
    revision: int = 0


async def read_records(store: Store, tenant: str, agent_id: str) -> StoredRecords:
    document = await store.document(tenant, KIND, agent_id)
    if document is None:
        return StoredRecords(records=AgentRecords(agent_id=agent_id))
    return StoredRecords(records=decode(document), revision=document.version)


def decode(document: Document) -> AgentRecords:
    """EnvironmentFailure: another program has changed the document, and it has no records any more."""
    try:
        return _decode(document.data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        message = (
            f"the stored deployments of {document.key} are damaged: `assay admin audit verify` says whether "
            "they were changed"
        )
        raise EnvironmentFailure(message) from None


def encode(records: AgentRecords) -> bytes:
    return _encode(records)


def digest(data: bytes) -> str:
    """The digest of a document, as the audit log has it."""
    return hashlib.sha256(data).hexdigest()


def shares(records: AgentRecords, channel: str) -> dict[str, int]:
    """
    The percentage of runs that each active version of a channel gets; the newest binding comes first.

    Each takes its canary percentage of all runs, as far as that is left. The oldest takes the rest.
    """
    bound = [
        (record.channels[channel], version, record)
        for version, record in records.versions.items()
        if record.state == "active" and channel in record.channels
    ]
    bound.sort(key=lambda one: one[0], reverse=True)
    left, found = FULL, dict[str, int]()
    for at, (_, version, record) in enumerate(bound, 1):
        found[version] = left if at == len(bound) else min(record.canary, left)
        left -= found[version]
    return found


def wire_record(records: AgentRecords, version: str) -> AgentDeployment:
    """The record on the wire. Its channels are those that resolve to this version."""
    (record,) = wire_records(records, [version])
    return record


def wire_records(records: AgentRecords, versions: Iterable[str]) -> list[AgentDeployment]:
    """The records of these versions by version. The shares of each channel are computed once."""
    chosen = sorted(versions, key=version_order)
    names = sorted({channel for version in chosen for channel in records.of(version).channels})
    split = {channel: shares(records, channel) for channel in names}
    return [_wire_record(records, version, split) for version in chosen]


def _wire_record(
    records: AgentRecords, version: str, split: Mapping[str, Mapping[str, int]]
) -> AgentDeployment:
    record = records.of(version)
    channels = tuple(channel for channel in sorted(record.channels) if split[channel].get(version, 0) > 0)
    return AgentDeployment(
        agent_id=records.agent_id,
        version=version,
        state=record.state,
        canary_percent=record.canary if record.canary < FULL else UNSET,
        rollback_pointer=record.rollback_pointer or UNSET,
        channels=channels or UNSET,
        eval_run_id=record.eval_run or UNSET,
        approval_gate_id=record.gate or UNSET,
    )


def version_order(version: str) -> tuple[bool, Precedence | tuple[()], str]:
    """A key to sort versions by. A text that is not a semantic version comes before all that are."""
    try:
        return True, precedence(version), version
    except ValueError:
        return False, (), version


_decode = msgspec.json.Decoder(AgentRecords).decode


# The refusals of deployments.


class EvalGateUnmet(Refusal):
    """The evidence does not meet the policy; nothing was promoted. It has every unmet condition."""

    code = "eval_gate_unmet"

    def __init__(self, conditions: Sequence[Condition], *, run: str) -> None:
        self.conditions, self.run = tuple(conditions), run
        super().__init__("\n".join(condition.message for condition in conditions))

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(condition.message for condition in self.conditions)

    @property
    def details(self) -> dict[str, object]:
        return {"conditions": msgspec.to_builtins(self.conditions), "runId": self.run}


class TransitionForbidden(Forbidden):
    """A key without the scope of the transition. The management run has the refusal."""

    def __init__(self, scope: str, *, run: str) -> None:
        super().__init__(scope)
        self._details = {"scopeRequired": scope, "runId": run}


class NoActiveDeployment(Refusal):
    """A channel that resolves to no active version."""

    code = "no_active_deployment"

    def __init__(self, agent_id: str, channel: str, message: str) -> None:
        self._details = {"agentId": agent_id, "channel": channel}
        super().__init__(f"agent {agent_id}, channel {channel!r}: {message}")


class ApprovalDenied(Refusal):
    """The reason why a management run ended: no approval."""

    code = "decision_rejected"

    def __init__(self, gate: str, reason: str) -> None:
        super().__init__(f"gate {gate}: {reason}")
