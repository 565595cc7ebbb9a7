"""
Keeps a window open for each project that has spans to score, on every server process with the settings.

It opens a window as a run and leaves the rest to the executor. It also measures how many spans wait, so that a sender
who floods a project is refused, and removes what has become too old.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec

from assay.concurrency.event_loop import run_guarded
from assay.errors import Conflict, EnvironmentFailure, RateLimited, Unavailable
from assay.fep.records.run_header import KIND, request_chunk
from assay.fep.trace_windows.projects import TraceProject
from assay.fep.trace_windows.registry import (
    HOST,
    ProjectEntry,
    entry_key,
    put_entry,
    read_entries,
    write_entry,
)
from assay.fep.trace_windows.registry import KIND as ENTRY
from assay.fep.trace_windows.trace_units import KEPT, SCORED
from assay.fep.trace_windows.window import WindowCounts, plan_in, title_of, window_metadata
from assay.ports import ACTIVE, Clock, Document, PutDocument, Run, Store, Transaction
from assay.ports.kinds import STANDING
from assay.runs.executor import RunExecutor
from assay.runs.intake import NewRun, new_id, submit
from assay.runs.run_names import TAG
from assay.traces import span_inbox
from assay.traces.span_inbox import prefix_of

TICK = 1.0  # seconds between two looks at the projects to which this process has added spans
ALL = 5.0  # and at all projects
SWEEP = 300.0  # seconds between two removals of what is too old
LATE = timedelta(days=1)  # for which spans of a scored trace are known to be late
RETRY = 5.0  # seconds


class TraceIntake:
    """The projects of this server. `max_bytes`: of the spans of a project and a tenant that wait to be scored."""

    def __init__(
        self,
        projects: Mapping[str, TraceProject],
        store: Store,
        executor: RunExecutor,
        clock: Clock,
        max_bytes: int,
    ) -> None:
        self.projects = projects
        self._store, self._executor, self._clock, self._max_bytes = store, executor, clock, max_bytes
        self._known: set[str] = set()  # entries that exist with the present settings
        self._added: set[str] = set()  # entries whose project got spans since the last look
        self._waiting: dict[str, int] = {}  # bytes, as of the last look and those added here since

    async def store_spans(self, tenant: str, documents: Mapping[str, Sequence[PutDocument]]) -> None:
        """Commit the spans of a request, by project. When this returns, they survive the death of this process."""
        sizes = {name: sum(len(one.data) for one in some) for name, some in documents.items() if some}
        for name, size in sizes.items():
            key = entry_key(tenant, name)
            if self._waiting.get(key, 0) + size > self._max_bytes:
                self._added.add(key)  # it is measured again soon
                message = (
                    f"{self._max_bytes} bytes of spans of the project {name!r} wait to be scored, which is the limit"
                    " (ASSAY_MAX_TRACE_BYTES)"
                )
                raise RateLimited(message, retry_after=RETRY, scope="tenant")
        for name in sizes:
            if (key := entry_key(tenant, name)) not in self._known:
                await self._register(tenant, self.projects[name])
                self._known.add(key)
        changes = [one for some in documents.values() for one in some]
        if changes:
            await self._store.commit(Transaction(documents=changes))
        for name, size in sizes.items():
            key = entry_key(tenant, name)
            self._waiting[key] = self._waiting.get(key, 0) + size
            self._added.add(key)

    async def _register(self, tenant: str, project: TraceProject) -> None:
        """Make the entry of the project, or renew its settings: an open window with other settings then ends."""
        key = entry_key(tenant, project.name)
        while True:
            found = await self._store.document(HOST, ENTRY, key)
            run = ""
            if found is not None:
                entry = msgspec.json.decode(found.data, type=ProjectEntry)
                if entry.digest == project.digest:
                    return
                run = entry.run
            new = ProjectEntry(tenant=tenant, project=project.name, digest=project.digest, run=run)
            if await write_entry(self._store, new, 0 if found is None else found.version):
                return

    async def run(self) -> None:
        """Look after the projects as long as this host runs."""
        loop = asyncio.get_running_loop()
        looked = swept = -ALL - SWEEP
        while True:
            now = loop.time()
            whole = now - looked > ALL
            if whole or self._added:
                trouble = await run_guarded("trace windows", self.look(whole=whole), EnvironmentFailure)
                looked = now if whole and trouble is None else looked
            if now - swept > SWEEP:
                await run_guarded("old traces", self._sweep(), EnvironmentFailure)
                swept = now
            await asyncio.sleep(TICK)

    async def look(self, *, whole: bool = True) -> None:
        """Open the windows that are missing, and measure what waits."""
        added, self._added = self._added, set()
        async for document, entry in read_entries(self._store):
            project = self.projects.get(entry.project)
            if project is None or not (whole or document.key in added):
                continue
            if document.key not in self._known and project.takes(entry.tenant):
                await self._register(entry.tenant, project)
                self._known.add(document.key)
            _, size = await self._store.measure_documents(
                entry.tenant, span_inbox.KIND, prefix=prefix_of(entry.project)
            )
            self._waiting[document.key] = size
            trouble = await run_guarded(
                "trace windows",
                self._open(document, entry, project),
                Conflict,
                EnvironmentFailure,
                Unavailable,
            )
            if trouble is not None:
                self._added.add(document.key)  # it is tried again

    async def _open(self, document: Document, entry: ProjectEntry, project: TraceProject) -> None:
        """Open a window if none is open and spans wait."""
        newest = await self._store.run(entry.run) if entry.run else None
        if newest is not None and (newest.status in ACTIVE or self._is_stopped(newest)):
            return
        waiting = await self._store.document_infos(
            entry.tenant, span_inbox.KIND, prefix=prefix_of(entry.project), limit=1
        )
        if not waiting:
            return
        plan = project.window(self._clock.now())
        title = title_of(project.name, plan.start, plan.end)
        new = NewRun(
            run=new_id("eval_"),
            tenant=entry.tenant,
            kind=KIND,
            name=project.name,
            metadata={
                "total": 0,
                "tags": [TAG + title],
                STANDING: True,
                **window_metadata(plan, WindowCounts(), 0),
            },
            request=request_chunk(project.request),
        )
        changed = msgspec.structs.replace(entry, run=new.run, digest=project.digest)
        executor = self._executor
        executor.check_open()
        stored = await submit(
            self._store,
            new,
            iter(()),
            executor.executor_id,
            executor.lease,
            [put_entry(changed, document.version)],
        )
        executor.start(stored)

    def _is_stopped(self, run: Run) -> bool:
        """Whether a person has cancelled the window: no other one opens before its end."""
        return run.status == "cancelled" and plan_in(run.metadata).end > self._clock.now()

    async def _sweep(self) -> None:
        """Remove the marks of traces that were scored long ago, and spans beyond their retention."""
        now = self._clock.now()
        ages = {f"{KEPT}{one.name}": timedelta(seconds=one.retention) for one in self.projects.values()}
        for kind, age in {SCORED: LATE, **ages}.items():
            while await self._store.sweep(kind, before=now - age):
                pass
