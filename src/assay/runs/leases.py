"""The leases that one process holds on runs: claim, renew, release."""

from assay.ports import Run, RunStatus, Store

LEASE = 10.0  # seconds without a heartbeat after which another process may adopt a run
HEARTBEATS = 5  # within a lease


class Leases:
    """
    Every lease belongs to one holder. When its process dies, the lease ends and another process may adopt the run.
    """

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
        """
        This process had paused for longer than its lease. It did not die of the run that another process holds now.
        """
        await self._store.forgive(run, self.holder)

    def orphan(self, *runs: str) -> None:
        """Release these runs at the next heartbeat: their conductors could not write."""
        self._orphans.update(runs)

    async def release_orphans(self) -> None:
        for run in list(self._orphans):
            await self.release(run)
            await self.forgive(run)  # another process may have it by now
            self._orphans.discard(run)
