"""A run and the runs that it continues."""

from collections.abc import AsyncIterator

from assay.ports.store import Run, Store

SOURCE = "sourceRunId"  # in the metadata of a run that continues another
MOST = 100  # runs in a row that one run continues


async def with_sources(store: Store, run: Run) -> AsyncIterator[Run]:
    """The run, the one that it continues, the one that this one continues, and so on."""
    found: Run | None = run
    for _ in range(MOST):
        if found is None:
            return
        yield found
        source = found.metadata.get(SOURCE)
        found = None if source is None else await store.run(source, tenant=run.tenant)
