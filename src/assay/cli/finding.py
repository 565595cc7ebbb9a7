"""Which kept run somebody means: by its id, by the beginning of one that no other has, or the latest."""

from assay.errors import UsageError
from assay.ports import Run, RunQuery, Store

MANY = 1000
THERE = "`assay list` shows those there are"
NONE = "no runs are kept here; `assay run` keeps one, and `assay evaluate --save` does"


async def find_run(
    store: Store, which: str, kind: str | None = None, *, tenant: str | None = None, name: str | None = None
) -> Run:
    if which == "latest":
        runs = await store.runs(RunQuery(tenant=tenant, kind=kind, name=name, limit=1))
        if not runs:
            raise UsageError(NONE if tenant is kind is name is None else _none_of(tenant, kind, name))
        return runs[0]
    run = await store.run(which, tenant=tenant)
    if run is not None and kind in (None, run.kind):
        return run
    recent = await store.runs(RunQuery(tenant=tenant, kind=kind, limit=MANY))
    fitting = [run for run in recent if run.id.startswith(which)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UsageError(f"{which!r} is the beginning of {len(fitting)} runs: give more of it")
    raise UsageError(f"there is no run {which!r}; {THERE}")


def _none_of(tenant: str | None, kind: str | None, name: str | None) -> str:
    named = f" of {name!r}" if name else ""
    whose = f" of tenant {tenant!r}" if tenant else ""
    return f"no {kind or 'run'}{' run' if kind else ''}{named}{whose} is kept here; {THERE}"
