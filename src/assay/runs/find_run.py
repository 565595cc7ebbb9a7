"""Finds a stored run: by its id, its name, a prefix that no other id has, or by the words `latest` and `previous`."""

from difflib import get_close_matches

from assay.errors import UsageError
from assay.ports import LOCAL_TENANT, Run, RunQuery, Store
from assay.runs.run_names import name_of, named_run

RECENT = 1000  # newest runs that are searched for a prefix
LIST_HINT = "`assay list` shows the stored runs"
NO_RUNS = "no runs are stored here; `assay run` and `assay evaluate --save` store one"


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
    The run; a UsageError says why there is none or more than one.

    `latest_of` are the kinds of runs that `latest` and `previous` mean; None: all.
    """
    word, _, of = reference.partition(":")
    if word in ("latest", "previous"):
        query = RunQuery(tenant=tenant, kind=kind, kinds=latest_of, name=of or name, limit=1)
        return await (_latest(store, query) if word == "latest" else _previous(store, query))
    run = await store.run(reference, tenant=tenant) or await named_run(
        store, tenant or LOCAL_TENANT, reference
    )
    if run is not None and kind in (None, run.kind):
        return run
    recent = await store.runs(RunQuery(tenant=tenant, kind=kind, limit=RECENT))
    matches = [run for run in recent if run.id.startswith(reference)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(f"{reference!r} is the beginning of {len(matches)} run ids: give more characters")
    names = {name for run in recent if (name := name_of(run.metadata))}
    near = get_close_matches(reference, sorted(names), 1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    raise UsageError(f"there is no run {reference!r}; {meant}{LIST_HINT}")


async def _latest(store: Store, query: RunQuery) -> Run:
    runs = await store.runs(query)
    if not runs:
        raise UsageError(NO_RUNS if query.tenant is query.kind is query.name is None else _no_match(query))
    return runs[0]


async def _previous(store: Store, query: RunQuery) -> Run:
    """The run before the latest one, of the same suite or experiment."""
    latest = await _latest(store, query)
    same = RunQuery(
        tenant=latest.tenant,
        kind=latest.kind,
        name=latest.name,
        before=(latest.created, latest.id),
        limit=1,
    )
    runs = await store.runs(same)
    if not runs:
        of = f"of {latest.name!r} " if latest.name else ""
        raise UsageError(f"previous: no run {of}is stored before {latest.id}; {LIST_HINT}")
    return runs[0]


def _no_match(query: RunQuery) -> str:
    of_name = f" of {query.name!r}" if query.name else ""
    of_tenant = f" of tenant {query.tenant!r}" if query.tenant else ""
    kind = f"{query.kind} run" if query.kind else "run"
    return f"no {kind}{of_name}{of_tenant} is stored here; {LIST_HINT}"
