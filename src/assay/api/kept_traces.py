"""Spans that a server keeps after it has scored them (`retention` of `[traces.NAME]`), as a source of traces."""

from collections.abc import Callable, Iterable

from assay import settings
from assay.concurrency.event_loop import run_to_end
from assay.errors import UsageError
from assay.fep.trace_windows.trace_units import KEPT
from assay.host import parts
from assay.ports import LOCAL_TENANT, Store, Transaction
from assay.ports.audit import audit_entry
from assay.runs.log_reader import read_documents
from assay.traces.otlp import Item
from assay.traces.span_inbox import read_items


def read_kept(name: str, add: Callable[[Iterable[Item]], None]) -> None:
    """Add the kept spans and log records of a project, `NAME` or `TENANT/NAME`. UsageError: there are none."""
    tenant, slash, project = name.rpartition("/")
    run_to_end(lambda: _read(tenant if slash else LOCAL_TENANT, project, add))


async def _read(tenant: str, project: str, add: Callable[[Iterable[Item]], None]) -> None:
    async with parts.store(settings.load(), light=True) as store:
        if not await _add_all(store, tenant, project, add):
            raise UsageError(
                f"kept:{project[:100]}: expected spans of this project that a server keeps, got none for the tenant"
                f" {tenant[:100]}; `retention` of [traces.NAME] says for how long it keeps them"
            )


async def _add_all(store: Store, tenant: str, project: str, add: Callable[[Iterable[Item]], None]) -> bool:
    found = False
    async for document in read_documents(store, tenant, f"{KEPT}{project}"):
        if not found:
            await store.commit(Transaction(lines=[audit_entry(tenant, "traces.read", project)]))
            found = True
        items = read_items([document.data])
        add([*items.spans, *items.logs])
    return found
