"""Erases the content of an evaluation, and keeps its statistics: numbers without content."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from assay.errors import EnvironmentFailure
from assay.fep.records.evaluation_statistics import read_statistics
from assay.fep.records.run_header import KIND
from assay.fep.records.service import EvaluationService
from assay.ports import (
    CLOSED,
    DELETION,
    ERASED_BY,
    RETENTION,
    RequireCount,
    Run,
    RunQuery,
    RunUpdate,
    Store,
    Transaction,
)
from assay.ports.audit import audit_entry
from assay.runs.erasure import erase_run, erase_runs
from assay.runs.run_statistics import statistics_metadata


async def erase(evaluations: EvaluationService, run: Run) -> Run:
    """Erase the content of a run of any kind. RunNotFinished: it has not ended."""
    return await erase_run(evaluations.store, run, await stored_numbers(evaluations, run))


async def erase_by_retention(
    evaluations: EvaluationService, runs: Sequence[Run], requires: Sequence[RequireCount] = ()
) -> None:
    """Erase the content of runs that a policy has chosen, if `requires` holds. They say so afterwards."""
    chosen = [(run, await stored_numbers(evaluations, run) | {ERASED_BY: RETENTION}) for run in runs]
    await erase_runs(evaluations.store, chosen, RETENTION, requires)


async def stored_numbers(evaluations: EvaluationService, run: Run) -> dict[str, Any]:
    """The statistics of an evaluation as a member of its metadata. Its records are erased."""
    if run.kind != KIND or run.erased:
        return {}
    return statistics_metadata(await read_statistics(evaluations.store, run))


# Deletes all content of a tenant on request (ADR-0081).

ACTION = "tenant.delete"
KEPT = frozenset({"deployment"})  # kinds of documents that stay: the audit log has their digests
FREE_TEXT = ("checks", "error")  # members of the metadata of a run that may quote content
BATCH = 50  # runs in one transaction
_MICROSECOND = timedelta(microseconds=1)


class DeletionReport(Struct, rename="camel", kw_only=True):
    """
    What was deleted, or would be.

    `cutoff`: content from later stays. `more`: a limit was reached; repeat the call with `cutoff`.

    `log_emptied`: whether SQLite's log is empty; absent for another database. `compacted`: whether the file was written
    anew.
    """

    tenant: str
    dry_run: bool = False
    cutoff: datetime | None = None
    more: bool = False
    runs: int = 0
    documents: dict[str, int] = {}
    data_keys: int = 0
    deployments: int = 0
    open_runs: Sequence[str] = ()
    log_emptied: bool | UnsetType = UNSET
    compacted: bool | UnsetType = UNSET


async def survey_tenant(store: Store, tenant: str) -> DeletionReport:
    """What a deletion would delete. It changes nothing."""
    found = await store.survey(tenant)
    return DeletionReport(
        tenant=tenant,
        dry_run=True,
        runs=found.evidence,
        documents={kind: many for kind, many in sorted(found.documents.items()) if kind not in KEPT},
        data_keys=found.keys,
        deployments=sum(found.documents.get(kind, 0) for kind in KEPT),
        open_runs=found.open_runs,
    )


class TenantDeletion:
    """One deletion. `limit`: runs of one call."""

    def __init__(
        self, evaluations: EvaluationService, tenant: str, *, cutoff: datetime | None = None, limit: int = 0
    ) -> None:
        self._evaluations, self._store = evaluations, evaluations.store
        self._tenant, self._cutoff, self._limit = tenant, cutoff, limit
        self._runs = 0

    async def delete(self) -> DeletionReport:
        """
        Delete the content, and return what was deleted. RunNotFinished: a run has not ended, and nothing was deleted.
        """
        before = await self._store.survey(self._tenant)
        cutoff = self._cutoff
        if cutoff is None:
            cutoff = await self._store.retire(self._tenant, [audit_entry(self._tenant, ACTION, self._tenant)])
        report = DeletionReport(tenant=self._tenant, cutoff=cutoff)
        async for page in self._pages(cutoff, sealed=before.keys > 0):
            if self._limit and self._runs >= self._limit:
                report.more = True
                break
            await self._delete_runs(page)
        if report.more:
            report.runs = self._runs
            return report
        while await self._store.delete_documents(self._tenant, kept=KEPT, before=cutoff):
            pass
        report.data_keys, report.log_emptied = await self._destroy()
        report.runs = self._runs
        after = await self._store.survey(self._tenant)
        gone = {kind: many - after.documents.get(kind, 0) for kind, many in before.documents.items()}
        report.documents = {
            kind: many for kind, many in sorted(gone.items()) if kind not in KEPT and many > 0
        }
        report.deployments = sum(after.documents.get(kind, 0) for kind in KEPT)
        return report

    async def _pages(self, cutoff: datetime, *, sealed: bool) -> AsyncIterator[Sequence[Run]]:
        """
        The runs that need work: those that are not marked, and after a crash those that are marked and have evidence.

        In an encrypted store all runs need work: their rows get the new data key.
        """
        for evidence in (False, True):
            cursor = cutoff + _MICROSECOND, ""
            while page := await self._store.runs(
                RunQuery(tenant=self._tenant, evidence=evidence, before=cursor, limit=BATCH)
            ):
                cursor = page[-1].created, page[-1].id
                chosen = [run for run in page if evidence or sealed or run.erased_by != DELETION]
                if chosen:
                    yield chosen

    async def _delete_runs(self, runs: Sequence[Run]) -> None:
        marks = [await self._mark(run) for run in runs if run.status in CLOSED]
        lines = [
            audit_entry(self._tenant, "run.erase", run.id, DELETION)
            for run in runs
            if run.status in CLOSED and not run.erased
        ]
        await self._store.commit(Transaction(entries=marks, lines=lines))
        while await self._store.erase(*(mark.run for mark in marks)):
            pass
        self._runs += len(lines)

    async def _mark(self, run: Run) -> RunUpdate:
        """The mark of a run. The name of an evaluation is free text; other names are in the log of the run too."""
        metadata = await stored_numbers(self._evaluations, run) | dict.fromkeys(FREE_TEXT)
        metadata |= {} if run.erased else {ERASED_BY: DELETION}
        return RunUpdate(
            run=run.id, metadata=metadata, erases=True, renames="" if run.kind == KIND else run.name
        )

    async def _destroy(self) -> tuple[int, bool | UnsetType]:
        """
        Destroy the retired keys. Runs that still need one, because a clock was set back, lose their content first.
        """
        lines = [audit_entry(self._tenant, "key.destroy", self._tenant)]
        last: Sequence[str] = ()
        while True:
            done = await self._store.destroy(self._tenant, lines)
            if not done.runs:
                return done.keys, UNSET if done.emptied is None else done.emptied
            if done.runs == last:
                raise EnvironmentFailure(
                    f"tenant {self._tenant!r}: runs that have not ended are encrypted with its old data "
                    f"key: {', '.join(last[:5])}"
                )
            last = done.runs
            await self._delete_runs(await self._store.find(last, tenant=self._tenant))
