"""
What a conductor tells an engine about its units: for which tenant, how urgent, and who watches those that this process
executes.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import NamedTuple, Protocol

PRIORITY = "priority"  # in the metadata of a run
USUAL = 5  # the priority of units whose run names none
PRIORITIES = range(1, 10)  # units of a lower number start first


class UnitScope(NamedTuple):
    """What a conductor says about all units of its run. It is not part of the unit: equal units stay equal."""

    tenant: str = ""
    priority: int = USUAL


_UNSCOPED = UnitScope()
unit_scope: ContextVar[UnitScope] = ContextVar("unit_scope", default=_UNSCOPED)


class UnitWatch(Protocol):
    """Is told which units of a run this process executes."""

    async def begin(self, unit: bytes) -> None: ...

    def end(self, unit: bytes) -> None: ...


unit_watch: ContextVar[UnitWatch | None] = ContextVar("unit_watch", default=None)
Perform = Callable[[str, bytes], Awaitable[bytes]]


def watched(perform: Perform) -> Perform:
    """`perform` of an engine that executes units in the process of their conductor."""

    async def execute(work: str, unit: bytes) -> bytes:
        watch = unit_watch.get()
        if watch is None:
            return await perform(work, unit)
        await watch.begin(unit)
        try:
            return await perform(work, unit)
        finally:
            watch.end(unit)

    return execute
