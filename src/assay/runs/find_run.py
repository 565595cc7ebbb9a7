"""Finds a run: by its id, its name, a prefix that no other id has, or by the words `latest` and `previous`."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Protocol, TypeVar

from msgspec.structs import replace

from assay.errors import UsageError
from assay.ports import LOCAL_TENANT, Run, RunQuery, Store
from assay.runs.run_names import name_of, named_run

R = TypeVar("R")
RECENT = 1000  # newest runs that are searched for a prefix
LIST_HINT = "`assay list` shows the stored runs"
NO_RUNS = "no runs are stored here; `assay run` and `assay evaluate --save` store one"


class RunLookup(Protocol[R]):
    """Runs of one place: a store, or a server. A method raises UsageError where there is no run."""

    async def latest(self, name: str | None) -> R:
        """The latest run; with `name`, of this suite or experiment."""
        ...

    async def previous(self, run: R) -> R:
        """The run before this one, of the same kind, suite or experiment."""
        ...

    async def named(self, reference: str) -> R | None:
        """The run with this id, or the newest with this name."""
        ...

    async def beginning(self, text: str) -> Sequence[R]:
        """The runs whose ids begin with this text."""
        ...

    async def unknown(self, reference: str) -> R:
        """What a reference stands for that no run has."""
        ...


async def resolve(source: RunLookup[R], reference: str) -> R:
    """The run that a reference names. UsageError: there is none or more than one."""
    word, _, of = reference.partition(":")
    if word in ("latest", "previous"):
        latest = await source.latest(of or None)
        return latest if word == "latest" else await source.previous(latest)
    run = await source.named(reference)
    if run is not None:
        return run
    matches = await source.beginning(reference)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(
            f"{reference!r}: expected the beginning of one run id, got that of {len(matches)}; give more characters"
        )
    return await source.unknown(reference)


async def find_run(
    store: Store,
    reference: str,
    kind: str | None = None,
    *,
    tenant: str | None = None,
    name: str | None = None,
    latest_of: frozenset[str] | None = None,
) -> Run:
    """
    The run of the store; a UsageError says why there is none or more than one.

    `latest_of` are the kinds of runs that `latest` and `previous` mean; None: all.
    """
    latest = RunQuery(tenant=tenant, kind=kind, kinds=latest_of, name=name, limit=1)
    return await resolve(_StoredRuns(store, latest), reference)


class _StoredRuns:
    """The runs of a store. `query` finds the latest one."""

    def __init__(self, store: Store, query: RunQuery) -> None:
        self._store, self._query = store, query

    async def latest(self, name: str | None) -> Run:
        """Without a tenant, those of this machine come before those of a server with the same store."""
        query = self._query if name is None else replace(self._query, name=name)
        runs = await self._store.runs(replace(query, tenant=query.tenant or LOCAL_TENANT))
        if not runs and query.tenant is None:
            runs = await self._store.runs(query)
        if not runs:
            raise UsageError(
                NO_RUNS if query.tenant is query.kind is query.name is None else _no_match(query)
            )
        return runs[0]

    async def previous(self, run: Run) -> Run:
        before = (run.created, run.id)
        query = RunQuery(tenant=run.tenant, kind=run.kind, name=run.name, before=before, limit=1)
        runs = await self._store.runs(query)
        if not runs:
            of = f"of {run.name!r} " if run.name else ""
            raise UsageError(f"previous: no run {of}is stored before {run.id}; {LIST_HINT}")
        return runs[0]

    async def named(self, reference: str) -> Run | None:
        tenant, kind = self._query.tenant, self._query.kind
        run = await self._store.run(reference, tenant=tenant)
        run = run or await named_run(self._store, tenant or LOCAL_TENANT, reference)
        return run if run is not None and kind in (None, run.kind) else None

    async def beginning(self, text: str) -> list[Run]:
        return [run for run in await self._recent() if run.id.startswith(text)]

    async def unknown(self, reference: str) -> Run:
        names = {name for run in await self._recent() if (name := name_of(run.metadata))}
        near = get_close_matches(reference, sorted(names), 1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError(f"there is no run {reference!r}; {meant}{LIST_HINT}")

    async def _recent(self) -> list[Run]:
        return await self._store.runs(
            RunQuery(tenant=self._query.tenant, kind=self._query.kind, limit=RECENT)
        )


def _no_match(query: RunQuery) -> str:
    of_name = f" of {query.name!r}" if query.name else ""
    of_tenant = f" of tenant {query.tenant!r}" if query.tenant else ""
    kind = f"{query.kind} run" if query.kind else "run"
    return f"no {kind}{of_name}{of_tenant} is stored here; {LIST_HINT}"
