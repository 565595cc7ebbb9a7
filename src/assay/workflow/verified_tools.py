"""Tools whose answers are verified before they are used (RFC 0090: a `target` that is a call)."""

from collections.abc import Sequence
from typing import Any

from assay.ports.agents import ToolBox, ToolFailure
from assay.protocol.agents import ToolSpec
from assay.workflow.critics import Critics
from assay.workflow.effects import Invoke
from assay.workflow.gating import combined
from assay.workflow.turns import CriticResult


class VerifiedTools:
    """A ToolBox around another; `checked` has, by the number of the call, what critics said of its answer."""

    def __init__(self, box: ToolBox | None, critics: Critics, wanted: Invoke) -> None:
        self._box, self._critics, self._wanted = box, critics, wanted
        self.checked: dict[str, list[CriticResult]] = {}
        self._calls = 0

    def static_specs(self, tools: Sequence[str]) -> list[ToolSpec]:
        return [] if self._box is None else self._box.static_specs(tools)

    async def specs(self, tools: Sequence[str]) -> list[ToolSpec]:
        return [] if self._box is None else await self._box.specs(tools)

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """The answer, unless a critic will not have it: then the actor is told so, and not what it was."""
        if self._box is None:
            raise ToolFailure("unknown_tool", f"there is no tool {tool!r} here")
        self._calls += 1
        call = f"call-{self._calls}"  # as the stage counts them
        outcome = await self._box.call(tool, arguments)
        about = {"tool": tool, "arguments": arguments}
        found = [
            await self._critics.judge(critic, about, outcome, call, self._wanted.criteria)
            for critic in self._wanted.critics
        ]
        self.checked[call] = found
        verdict = combined(one.verdict for one in found)
        if self._wanted.gating and verdict != "pass":
            raise ToolFailure("withheld", f"the answer of {tool} was withheld: the verdict is {verdict}")
        return outcome

    async def close(self) -> None: ...
