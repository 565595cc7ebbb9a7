"""Writes one transition: its management run, the records and the audit log in one transaction."""

from collections.abc import Sequence

from msgspec import UNSET

from assay.comparison.policy import ApprovalRules, PromotionRules
from assay.errors import Refusal
from assay.ports import Clock, Principal, PutDocument, Run, Store, Transaction
from assay.ports.audit import AuditEntry, audit_entry
from assay.promotion.audit_lines import deployment_line
from assay.promotion.evidence import EvidenceRequest, GateResult, check_evidence
from assay.promotion.management import ManagementLog, ManagementRequest, waiting
from assay.promotion.records import KIND as RECORDS
from assay.promotion.records import StoredRecords, encode, wire_record
from assay.promotion.transitions import LATEST, Planned, apply_transition, version_of
from assay.protocol.deployments import TransitionRequest
from assay.protocol.event_record import new_event_id


class TransitionWriter:
    """One transition on its way to the store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        run: str,
        tenant: str,
        agent_id: str,
        author: str,
        request: TransitionRequest,
        documents: Sequence[PutDocument] = (),
    ) -> None:
        self.run, self._store, self._clock = run, store, clock
        self._tenant, self._documents = tenant, documents
        self._request = ManagementRequest(agent_id=agent_id, author=author, transition=request)
        self.log = ManagementLog(run, tenant, self._request)

    @classmethod
    def of(
        cls,
        store: Store,
        clock: Clock,
        run: Run,
        pending: ManagementRequest,
        documents: Sequence[PutDocument] = (),
    ) -> "TransitionWriter":
        """The writer for a run that waits."""
        return cls(
            store,
            clock,
            run.id,
            run.tenant,
            pending.agent_id,
            pending.author,
            pending.transition,
            documents,
        )

    async def check(self, planned: Planned, stored: StoredRecords, rules: PromotionRules) -> GateResult:
        """Check the evidence, if this transition needs any, or if the request names a run: that is recorded."""
        request, record = planned.request, stored.records.of(planned.request.version)
        needed = planned.to_state in rules.eval_states or request.eval_run_id is not UNSET
        if not planned.is_promotion or not needed:
            return GateResult([], [])
        named = None if request.eval_run_id is UNSET else request.eval_run_id
        if named is None and planned.from_state == "paused":
            named = record.eval_run or None  # the evidence that made it active must still hold
        active = version_of(stored.records, LATEST, self.run) if planned.to_state != "test" else None
        replaced = planned.follows or active
        evidence = EvidenceRequest(
            tenant=self._tenant,
            agent_id=self._request.agent_id,
            version=request.version,
            run_id=named,
            active_version=replaced,
            active_run=stored.records.of(replaced).eval_run if replaced else "",
        )
        return await check_evidence(self._store, evidence, rules, self._clock.now())

    async def refuse(self, principal: Principal, refusal: Refusal, *, allowed: bool) -> None:
        """Record a refused request as a failed run. It changes no record."""
        log = ManagementLog(self.run, self._tenant, self._request)
        log.start(principal, allowed=allowed)
        log.fail(refusal)
        entry = log.open("failed", {"code": refusal.code}, self._clock.now())
        request = self._request
        subject = f"{request.agent_id}@{request.transition.version}"[:400]
        line = audit_entry(self._tenant, f"deployment.{request.transition.transition}", subject, refusal.code)
        await self._store.commit(Transaction(entries=[entry], lines=[self._started(), line]))

    async def suspend(self, principal: Principal, planned: Planned, rules: ApprovalRules) -> None:
        now, interrupt = self._clock.now(), new_event_id().replace("ev-", "int-")
        log = ManagementLog(self.run, self._tenant, self._request)
        log.start(principal, allowed=True)
        log.suspend(interrupt, rules, planned)
        entry = log.open(
            "waiting-approval", {"toState": planned.to_state} | waiting(interrupt, rules, now), now
        )
        await self._store.commit(
            Transaction(entries=[entry], documents=list(self._documents), lines=[self._started()])
        )

    async def apply_now(
        self, principal: Principal, stored: StoredRecords, planned: Planned, gate: GateResult
    ) -> None:
        log = ManagementLog(self.run, self._tenant, self._request)
        log.start(principal, allowed=True)
        changed = self._apply(log, stored, planned, "")
        entry = log.open("completed", {"toState": planned.to_state}, self._clock.now())
        await self._store.commit(
            Transaction(
                entries=[entry],
                documents=[changed, *self._documents],
                lines=[self._started(), self._line(changed)],
                requires=gate.requires,
            )
        )

    async def apply_waiting(
        self,
        run: Run,
        stored: StoredRecords,
        planned: Planned,
        gate: GateResult,
        gate_id: str,
        line: AuditEntry,
    ) -> None:
        log = self.log.copy()
        log.resume(run.metadata["waiting"]["interruptId"])
        changed = self._apply(log, stored, planned, gate_id)
        entry = log.advance(run, "completed", {"toState": planned.to_state}, self._clock.now())
        await self._store.commit(
            Transaction(
                entries=[entry],
                documents=[changed, *self._documents],
                lines=[line, self._line(changed)],
                requires=gate.requires,
            )
        )

    async def keep_waiting(self, run: Run, grants: Sequence[str], line: AuditEntry) -> None:
        """One grant of several."""
        metadata = {name: run.metadata[name] for name in ("toState", "waiting") if name in run.metadata}
        entry = self.log.advance(run, run.status, metadata | {"grants": list(grants)}, self._clock.now())
        await self._store.commit(Transaction(entries=[entry], documents=list(self._documents), lines=[line]))

    async def reject(self, run: Run, refusal: Refusal, line: AuditEntry) -> None:
        """End a run that waits; the record stays as it is."""
        log = self.log.copy()
        log.resume(run.metadata["waiting"]["interruptId"])
        log.fail(refusal)
        entry = log.advance(run, "failed", {"code": refusal.code}, self._clock.now())
        await self._store.commit(Transaction(entries=[entry], documents=list(self._documents), lines=[line]))

    def _apply(
        self, log: ManagementLog, stored: StoredRecords, planned: Planned, gate_id: str
    ) -> PutDocument:
        applied = apply_transition(stored.records, planned, gate_id)
        log.add(applied.type, applied.payload)
        log.complete(wire_record(applied.records, planned.request.version))
        return PutDocument(
            tenant=self._tenant,
            kind=RECORDS,
            key=self._request.agent_id,
            data=encode(applied.records),
            version=stored.revision,
        )

    def _line(self, changed: PutDocument) -> AuditEntry:
        transition = self._request.transition
        return deployment_line(changed, transition.transition, transition.version)

    def _started(self) -> AuditEntry:
        return audit_entry(self._tenant, "run.start", self.run)
