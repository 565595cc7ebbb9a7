"""The scope of units: on behalf of which tenant they run, and how urgent they are. An engine that queues units reads it."""

from contextvars import ContextVar
from typing import NamedTuple

PRIORITY = "priority"  # in the metadata of a run
USUAL = 5  # the priority of units whose run names none
PRIORITIES = range(1, 10)  # units of a lower number start first


class UnitScope(NamedTuple):
    """What a conductor says about all units of its run. It is not part of the unit: equal units stay equal."""

    tenant: str = ""
    priority: int = USUAL


_UNSCOPED = UnitScope()
unit_scope: ContextVar[UnitScope] = ContextVar("unit_scope", default=_UNSCOPED)
