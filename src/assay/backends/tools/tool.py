"""What a live tool is to the box that holds it."""

from typing import Any, Protocol

from assay.protocol.agents import ToolSpec


class Tool(Protocol):
    """One live tool. A failure is a ToolFailure, whatever it was."""

    @property
    def static_spec(self) -> ToolSpec:
        """What can be said of it without asking anybody."""
        ...

    async def spec(self) -> ToolSpec:
        """All that can be said of it; a ForeignFault where it cannot be asked."""
        ...

    async def call(self, arguments: dict[str, Any]) -> Any: ...
