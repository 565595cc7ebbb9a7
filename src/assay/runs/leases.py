"""The leases that one process holds on runs: claim, renew, release."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sized
from typing import NamedTuple, Protocol

from assay.concurrency.event_loop import run_guarded
from assay.errors import EnvironmentFailure
from assay.ports import Run, RunStatus, Store
from assay.ports.kinds import LOCAL_ONLY, REQUIRED_VERSION, RunKind
from assay.version import __version__, is_older

log = logging.getLogger("assay.runs")

LEASE = 10.0  # seconds without a heartbeat after which another process may adopt a run
HEARTBEATS = 5  # within a lease


class Leases:
    """Every lease has one holder. When its process dies, the lease ends and another process may adopt the run."""

    def __init__(self, store: Store, holder: str, seconds: float) -> None:
        self._store, self.holder, self.seconds = store, holder, seconds
        self._orphans: set[str] = set()  # still held here, but not conducted

    async def claim(self, run: str) -> Run | None:
        """The run, if it is active and no other process holds it."""
        return await self._store.claim(run, self.holder, seconds=self.seconds)

    async def renew(self) -> dict[str, RunStatus]:
        """The heartbeat: release the orphans, renew the rest, and return the runs that are still held here."""
        await self.release_orphans()
        return await self._store.renew(self.holder, seconds=self.seconds)

    async def release(self, run: str) -> None:
        await self._store.release(run, self.holder)

    async def forgive(self, run: str) -> None:
        """This process had paused for longer than its lease. It did not die of a run that another one holds now."""
        await self._store.forgive(run, self.holder)

    def orphan(self, *runs: str) -> None:
        """Release these runs at the next heartbeat: their conductors could not write."""
        self._orphans.update(runs)

    async def release_orphans(self) -> None:
        for run in list(self._orphans):
            await self.release(run)
            await self.forgive(run)  # another process may have it by now
            self._orphans.discard(run)


# Adopts the runs of processes that died: active runs without a holder, or whose lease has ended.

PROBATION = 3.0  # leases during which the last attempt of a run has no other beside it
LIMIT = 1000  # runs adopted at one heartbeat
LEAVE = 2.0  # seconds until the next adoption, when the last one left runs to a newer version


class AdoptionPace(NamedTuple):
    """How a process adopts runs: `limit` at a time every `seconds` (0: at heartbeats), while it has under `most`."""

    seconds: float = 0.0
    limit: int = LIMIT
    most: int | None = None


AT_HEARTBEATS = AdoptionPace()


class ActiveRuns(Sized, Protocol):
    def __contains__(self, run: object, /) -> bool: ...


class Adoption:
    """
    Takes up lost runs, and bounds how often a run may lose its process.

    Runs that were lost together have their last attempts one by one, so that only the one that kills its process fails.
    """

    def __init__(
        self,
        store: Store,
        leases: Leases,
        kinds: Mapping[str, RunKind],
        attempts: int | None,
        *,
        active_runs: ActiveRuns,
        start: Callable[[Run], None],
        pace: AdoptionPace = AT_HEARTBEATS,
    ) -> None:
        """`active_runs`: the runs that this process conducts. `start` conducts one more."""
        self._store, self._leases, self._kinds = store, leases, kinds
        self._last = attempts - 1 if attempts and attempts > 1 else None
        self._active_runs, self._start, self._pace = active_runs, start, pace
        self._left, self._adopted_at = (
            0,
            0.0,
        )  # runs of a newer version that the last adoption left; when it was
        self._alone, self._alone_until = "", 0.0  # a run at its last attempt; until then no other starts one

    async def adopt(self) -> None:
        sparing = self._last if self._is_full else None
        leases, pace = self._leases, self._pace
        limit = pace.limit if pace.most is None else min(pace.limit, pace.most - len(self._active_runs))
        now = asyncio.get_running_loop().time()
        if limit <= 0 or (self._left and now < self._adopted_at + LEAVE):
            return
        limit, self._left, self._adopted_at = limit + self._left, 0, now
        runs = await self._store.adopt(
            leases.holder, seconds=leases.seconds, limit=limit, max_takeovers=sparing
        )
        final = [run for run in runs if run.takeovers == self._last]
        # Before any run begins: one that kills this process must not cost the others their last attempt.
        for run in final[1:]:
            if await run_guarded("adoption", leases.release(run.id), EnvironmentFailure) is not None:
                leases.orphan(run.id)
        for run in [*(run for run in runs if run.takeovers != self._last), *final[:1]]:
            if await run_guarded("adoption", self._take_up(run), EnvironmentFailure) is not None:
                leases.orphan(run.id)

    async def _take_up(self, run: Run) -> None:
        if run.takeovers:
            log.info("takes over run %s, whose process has ended", run.id)
        newer = is_older(__version__, run.metadata.get(REQUIRED_VERSION, ""))
        known = run.kind in self._kinds and not run.metadata.get(LOCAL_ONLY) and not newer
        if not known and run.id not in self._active_runs:
            await self._leases.release(run.id)
            if newer:
                self._left += 1
        elif run.takeovers != self._last:
            self._start(run)
        elif self._is_full:
            await self._leases.release(run.id)  # it is tried later; this does not count as an attempt
        else:
            self._alone = run.id
            self._alone_until = asyncio.get_running_loop().time() + PROBATION * self._leases.seconds
            self._start(run)

    @property
    def _is_full(self) -> bool:
        """Whether a run is at its last attempt here; other such runs wait."""
        return self._alone in self._active_runs and asyncio.get_running_loop().time() < self._alone_until
