"""Faults end one check and become a CheckError in its result (FEP 2.3.4)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Literal

ErrorType = Literal["jsonpath_error", "validation_error", "timeout_error", "unknown_error"]


class Fault(Exception):
    """Ends one check; the others continue."""

    type: ClassVar[ErrorType] = "unknown_error"
    recoverable: bool = False
    metadata: Mapping[str, object] = MappingProxyType({})  # of the check's result, such as its cost


class PathFault(Fault):
    """A path that is malformed, selects nothing or too much, or exceeds a limit."""

    type = "jsonpath_error"


class ValueFault(Fault):
    """A resolved value that the check does not accept."""

    type = "validation_error"


class TimeFault(Fault):
    """A deadline passed. A retry may help."""

    type = "timeout_error"
    recoverable = True


class ForeignFault(Fault):
    """Foreign code or a foreign service failed."""

    def __init__(self, message: str, *, recoverable: bool = False) -> None:
        self.recoverable = recoverable
        super().__init__(message)


class CostReached(Fault):
    """A call that was not made, because what is under way may use up the cost limit of the run."""

    def __init__(self) -> None:
        super().__init__("the cost limit of the run leaves nothing for this call")


class NotMeasured(ForeignFault):
    """
    An agent could not be called, through no fault of its own. Its task has no score (FEP-48).

        raise assay.NotMeasured("the model is overloaded")
    """

    def __init__(self, message: str = "the agent could not be called", *, recoverable: bool = True) -> None:
        super().__init__(message, recoverable=recoverable)
