"""Finds a stored run by its id, by a prefix that no other id has, or by the word `latest`."""

from assay.errors import UsageError
from assay.ports import Run, RunQuery, Store

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
) -> Run:
    """The run; a UsageError says why there is none or more than one."""
    if reference == "latest":
        runs = await store.runs(RunQuery(tenant=tenant, kind=kind, name=name, limit=1))
        if not runs:
            raise UsageError(NO_RUNS if tenant is kind is name is None else _no_match(tenant, kind, name))
        return runs[0]
    run = await store.run(reference, tenant=tenant)
    if run is not None and kind in (None, run.kind):
        return run
    recent = await store.runs(RunQuery(tenant=tenant, kind=kind, limit=RECENT))
    matches = [run for run in recent if run.id.startswith(reference)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(f"{reference!r} is the beginning of {len(matches)} run ids: give more characters")
    raise UsageError(f"there is no run {reference!r}; {LIST_HINT}")


def _no_match(tenant: str | None, kind: str | None, name: str | None) -> str:
    of_name = f" of {name!r}" if name else ""
    of_tenant = f" of tenant {tenant!r}" if tenant else ""
    return f"no {kind or 'run'}{' run' if kind else ''}{of_name}{of_tenant} is stored here; {LIST_HINT}"
