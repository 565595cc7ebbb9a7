"""What ends one check and becomes data: a CheckError in its result (FEP 2.3.4)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Literal

ErrorType = Literal["jsonpath_error", "validation_error", "timeout_error", "unknown_error"]


class Fault(Exception):
    """Ends one check, and only that one."""

    type: ClassVar[ErrorType] = "unknown_error"
    recoverable: bool = False
    metadata: Mapping[str, object] = MappingProxyType({})  # of the check's result: what it cost all the same


class PathFault(Fault):
    """A path that is malformed, finds nothing, finds too much, or goes too far."""

    type = "jsonpath_error"


class ValueFault(Fault):
    """A resolved value that the check cannot take."""

    type = "validation_error"


class TimeFault(Fault):
    """A deadline passed. Trying again may help."""

    type = "timeout_error"
    recoverable = True


class ForeignFault(Fault):
    """Somebody else's code or service failed."""

    def __init__(self, message: str, *, recoverable: bool = False) -> None:
        self.recoverable = recoverable
        super().__init__(message)
