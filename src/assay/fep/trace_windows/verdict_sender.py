"""
Sends the verdicts of the windows of a project back to where its traces are (`to` of `[traces.NAME]`), while a window is
open and after it has ended.

The stored results are what waits, and a document has how far a receiver has acknowledged them (ADR-0199). One process
of a deployment sends for a project, a tenant and a receiver: it holds a document with a time. When it stops, another
one goes on where it was, and when it dies, after that time.
"""

import asyncio
import hashlib
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import Struct

from assay.cases.outcomes import RESULTS
from assay.concurrency.event_loop import run_guarded
from assay.errors import Conflict, EnvironmentFailure
from assay.fep.records.run_header import KIND
from assay.fep.records.send_verdicts import send_verdicts
from assay.fep.trace_windows.registry import HOST, ProjectEntry, read_entries
from assay.fep.trace_windows.window import Window, window_in
from assay.ports import Clock, Document, PutDocument, RunQuery, Store, Transaction
from assay.ports.verdicts import VerdictReceiver

SENDER = "verdict-sender"  # the kind of documents that say who sends
TICK = 1.0  # seconds between two looks at what was scored
LEASE = timedelta(seconds=30)
SOON, LATE = 5.0, 300.0  # seconds after a failure, doubled after each further one
KEPT = timedelta(days=7)  # after its end, in which the verdicts of a window are sent
PAGE = 200
END = 1 << 62
log = logging.getLogger("assay.traces")

Receivers = Mapping[str, Mapping[str, VerdictReceiver]]  # by project, and by what `to` says


class SenderEntry(Struct, frozen=True, kw_only=True):
    """Who sends until when, and when the oldest window was created that is not sent to its end."""

    holder: str
    until: datetime
    since: datetime | None = None


_decode = msgspec.json.Decoder(SenderEntry).decode


class VerdictSender:
    """The sender of one process. `explanations`: whether reasons may leave the host; they quote content."""

    def __init__(self, receivers: Receivers, store: Store, clock: Clock, *, explanations: bool) -> None:
        self._receivers, self._store, self._clock = receivers, store, clock
        self._explanations = explanations
        self._holder = secrets.token_hex(16)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._due: dict[
            str, tuple[float, float]
        ] = {}  # by key: when to try again, and the pause after the next failure

    async def run(self) -> None:
        """Send as long as this host runs."""
        try:
            while True:
                await run_guarded("verdicts", self._look(), EnvironmentFailure)
                await asyncio.sleep(TICK)
        finally:
            for task in self._tasks.values():
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks.values())
            for key in self._tasks:
                await run_guarded("verdicts", self._give_back(key), Conflict, EnvironmentFailure)

    async def _look(self) -> None:
        """Begin to send for each project, tenant and receiver for which nothing is being sent."""
        now = asyncio.get_running_loop().time()
        async for _, entry in read_entries(self._store):
            for spec, receiver in self._receivers.get(entry.project, {}).items():
                address = hashlib.sha256(receiver.address.encode()).hexdigest()[:16]
                key = f"{entry.tenant}/{entry.project}/{address}"
                task = self._tasks.get(key)
                if (task is None or task.done()) and self._due.get(key, (0.0, SOON))[0] <= now:
                    self._tasks[key] = asyncio.create_task(self._send(entry, spec, receiver, key))

    async def _send(self, entry: ProjectEntry, spec: str, receiver: VerdictReceiver, key: str) -> None:
        trouble = await run_guarded(
            "verdicts", self._send_windows(entry, spec, receiver, key), Conflict, EnvironmentFailure
        )
        if trouble is None or isinstance(trouble, Conflict):  # another process sends
            self._due.pop(key, None)
            return
        pause = self._due.get(key, (0.0, SOON))[1]
        self._due[key] = asyncio.get_running_loop().time() + pause, min(LATE, 2 * pause)
        log.warning(
            "verdicts of the project %s are not sent, again in %g s: %s", entry.project, pause, trouble
        )

    async def _send_windows(
        self, entry: ProjectEntry, spec: str, receiver: VerdictReceiver, key: str
    ) -> None:
        held = await self._hold(key)
        if held is None:
            return
        heartbeat = asyncio.create_task(self._keep(held))
        try:
            since = held.entry.since or datetime.fromtimestamp(0, UTC)
            oldest = self._clock.now() - KEPT
            for window in await self._windows(entry, since):
                if spec in window.plan.to and not window.run.erased and window.plan.end > oldest:
                    await send_verdicts(
                        self._store,
                        window.run,
                        _results(self._store, window),
                        receiver,
                        explanations=self._explanations,
                    )
                if window.is_open:
                    break  # it is the newest: only one is open
                held.entry = msgspec.structs.replace(
                    held.entry, since=window.run.created + timedelta(microseconds=1)
                )
            if held.entry.since not in (None, since):
                await held.write(self._store, self._clock.now() + LEASE)
        finally:
            heartbeat.cancel()
            with suppress(asyncio.CancelledError):
                await heartbeat

    async def _windows(self, entry: ProjectEntry, since: datetime) -> list[Window]:
        """The windows that are not sent to their end, the oldest first, as they are stored now."""
        found: list[Window] = []
        query = RunQuery(tenant=entry.tenant, kind=KIND, name=entry.project, since=since, limit=PAGE)
        while page := await self._store.runs(query):
            found += [window for run in page if (window := window_in(run)) is not None]
            query = msgspec.structs.replace(query, before=(page[-1].created, page[-1].id))
        return found[::-1]

    async def _hold(self, key: str) -> "_Held | None":
        """The document, if this process holds it now. None: another one does."""
        document: Document | None = await self._store.document(HOST, SENDER, key)
        entry = SenderEntry(holder=self._holder, until=self._clock.now())
        version = 0
        if document is not None:
            entry, version = _decode(document.data), document.version
            if entry.holder != self._holder and entry.until > self._clock.now():
                return None
        held = _Held(key, msgspec.structs.replace(entry, holder=self._holder), version)
        if document is None or entry.holder != self._holder or entry.until - self._clock.now() < LEASE / 2:
            await held.write(self._store, self._clock.now() + LEASE)
        return held

    async def _give_back(self, key: str) -> None:
        """Let another process send at once, if this one holds the document."""
        document: Document | None = await self._store.document(HOST, SENDER, key)
        if document is None:
            return
        entry = _decode(document.data)
        if entry.holder == self._holder:
            await _Held(key, entry, document.version).write(self._store, self._clock.now())

    async def _keep(self, held: "_Held") -> None:
        """Hold the document while a receiver is slow."""
        while True:
            await asyncio.sleep(LEASE.total_seconds() / 3)
            await held.write(self._store, self._clock.now() + LEASE)


class _Held:
    """The document of a sender that holds it. Its version shows that no other one has taken it."""

    def __init__(self, key: str, entry: SenderEntry, version: int) -> None:
        self.entry, self._key, self._version = entry, key, version

    async def write(self, store: Store, until: datetime) -> None:
        """Hold it until then. Conflict: another process has it."""
        self.entry = msgspec.structs.replace(self.entry, until=until)
        data = msgspec.json.encode(self.entry)
        put = PutDocument(tenant=HOST, kind=SENDER, key=self._key, data=data, version=self._version)
        await store.commit(Transaction(documents=[put]))
        self._version += 1


def _results(store: Store, window: Window) -> Callable[[int], AsyncIterator[bytes]]:
    """A reader of the results of a window from an ordinal on, as far as they are stored."""

    async def read(start: int) -> AsyncIterator[bytes]:
        at = start
        while chunks := await store.chunks(window.run.id, RESULTS, start=at, stop=END, limit=2):
            for chunk in chunks:
                for line in chunk.lines(at, END):
                    yield line
                at = chunk.last + 1

    return read
