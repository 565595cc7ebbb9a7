"""Deployments in the audit log: each transition has a line with the digest of the records that it wrote."""

import re

import msgspec

from assay.auth.audit import AuditProblem
from assay.errors import EnvironmentFailure
from assay.errors.storage import DatabaseUnavailable
from assay.ports import PutDocument, Store
from assay.ports.audit import AuditEntry, AuditPayload, AuditRecord, audit_entry
from assay.promotion.records import KIND, digest
from assay.runs.log_reader import read_documents

ACTION = "deployment."
_LINE = re.compile(
    r"(?P<agent>.+)@[^@]* revision (?P<revision>[0-9]{1,18}) sha256:(?P<digest>[0-9a-f]{64})", re.DOTALL
)
_decode = msgspec.json.Decoder(AuditPayload).decode
_Place = tuple[str, str]  # tenant, agent


def deployment_line(changed: PutDocument, transition: str, version: str) -> AuditEntry:
    """The line of a transition that writes these records."""
    assert changed.version is not None
    entry = audit_entry(changed.tenant, f"{ACTION}{transition}")
    what = f"{changed.key}@{version} revision {changed.version + 1} sha256:{digest(changed.data)}"
    return msgspec.structs.replace(entry, what=what)


class DeploymentVerifier:
    """
    Compares the stored records with the last line of each agent.

    Add all lines of the log, then call `problems`. Transitions meanwhile are no problem.
    """

    def __init__(self) -> None:
        self._last: dict[_Place, tuple[int, str, AuditRecord]] = {}

    def add(self, record: AuditRecord) -> None:
        if ACTION.encode() not in record.data:
            return
        try:
            payload = _decode(record.data)
        except msgspec.DecodeError:
            return  # the chain reports it
        found = _LINE.fullmatch(payload.what)
        if not payload.action.startswith(ACTION) or found is None:
            return
        place, revision = (payload.tenant, found["agent"]), int(found["revision"])
        if place not in self._last or self._last[place][0] <= revision:
            self._last[place] = revision, found["digest"], record

    async def problems(self, store: Store, tenants: set[str]) -> list[AuditProblem]:
        """What does not agree. `tenants` are those with an audit log."""
        problems: list[AuditProblem] = []
        for (tenant, agent), (revision, expected, line) in self._last.items():
            try:
                document = await store.document(tenant, KIND, agent)
            except DatabaseUnavailable:
                raise
            except EnvironmentFailure as damage:  # it cannot be decrypted, or decompressed
                message = f"the deployments of {agent} cannot be read: {damage}"
                problems.append(AuditProblem(tenant, line.lane, line.number, message))
                tenants = tenants - {tenant}  # a list of its documents cannot be read either
                continue
            if document is None:
                message = f"the deployments of {agent} are missing"
            elif document.version < revision:
                message = f"the deployments of {agent} were set back to revision {document.version}, from {revision}"
            elif (document.version == revision and digest(document.data) != expected) or (
                document.version > revision
                and not await self._has_line(store, tenant, agent, document.version)
            ):
                message = f"the deployments of {agent} were changed without a transition"
            else:
                continue
            problems.append(AuditProblem(tenant, line.lane, line.number, message))
        for tenant in sorted(tenants):
            async for document in read_documents(store, tenant, KIND):
                if (tenant, document.key) not in self._last and not await self._has_line(
                    store, tenant, document.key, document.version
                ):
                    message = f"the deployments of {document.key} have no line in the audit log"
                    problems.append(AuditProblem(tenant, 0, 0, message))
        return problems

    async def _has_line(self, store: Store, tenant: str, agent: str, revision: int) -> bool:
        """Whether a transition wrote this revision while the log was read."""
        following = None
        marker = f"{agent}@"
        while page := await store.audit(tenant, following=following, limit=1_000):
            for record in page:
                found = _LINE.fullmatch(_subject(record)) if ACTION.encode() in record.data else None
                if found and found["agent"] == marker[:-1] and int(found["revision"]) == revision:
                    return True
            following = page[-1]
        return False


def _subject(record: AuditRecord) -> str:
    try:
        return _decode(record.data).what
    except msgspec.DecodeError:
        return ""
