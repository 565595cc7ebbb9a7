"""The limits of one run of a query: nodes and time, also those of its filters."""

from time import monotonic
from typing import Any

from assay.errors import PathFault


class Budget:
    """The document of one run, and the nodes and time that are left for it."""

    __slots__ = ("deadline", "document", "max_nodes", "max_seconds", "nodes_left")

    def __init__(self, document: Any, max_nodes: int, max_seconds: float) -> None:
        self.document, self.max_nodes, self.max_seconds = document, max_nodes, max_seconds
        self.nodes_left, self.deadline = max_nodes, monotonic() + max_seconds

    def spend(self, nodes: int = 1) -> None:
        """Count nodes. Raises PathFault over the limits."""
        self.nodes_left -= nodes
        if self.nodes_left < 0:
            raise PathFault(
                f"the path visits more than {self.max_nodes} nodes, which is the limit (raise it with ASSAY_MAX_NODES)"
            )
        if monotonic() > self.deadline:
            raise self.too_slow()

    def seconds_left(self) -> float:
        left = self.deadline - monotonic()
        if left <= 0:
            raise self.too_slow()
        return left

    def too_slow(self) -> PathFault:
        return PathFault(f"the path takes more than {self.max_seconds:g} seconds (max_seconds)")
