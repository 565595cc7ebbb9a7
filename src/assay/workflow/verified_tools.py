"""Tools whose answers critics verify before the agent gets them (RFC 0090: the `target` is a tool call)."""

from collections.abc import Sequence
from typing import Any

from assay.ports.agents import ToolBox, ToolFailure
from assay.protocol.agents import ToolSpec
from assay.workflow.critics import Critics
from assay.workflow.effects import Invoke
from assay.workflow.gating import combine
from assay.workflow.turns import CriticResult


class VerifiedTools:
    """Wraps a ToolBox. `verdicts` has the verdicts on each answer, by call id."""

    def __init__(self, toolbox: ToolBox | None, critics: Critics, effect: Invoke) -> None:
        self._toolbox, self._critics, self._effect = toolbox, critics, effect
        self.verdicts: dict[str, list[CriticResult]] = {}
        self._calls = 0

    def static_specs(self, tools: Sequence[str]) -> list[ToolSpec]:
        return [] if self._toolbox is None else self._toolbox.static_specs(tools)

    async def specs(self, tools: Sequence[str]) -> list[ToolSpec]:
        return [] if self._toolbox is None else await self._toolbox.specs(tools)

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """The answer, if its verdict is `pass`; else a ToolFailure without the answer."""
        if self._toolbox is None:
            raise ToolFailure("unknown_tool", f"this host has no tool {tool!r}")
        self._calls += 1
        call = f"call-{self._calls}"  # the same ids as in Invocation
        outcome = await self._toolbox.call(tool, arguments)
        about = {"tool": tool, "arguments": arguments}
        found = [
            await self._critics.judge(critic, about, outcome, call, self._effect.criteria)
            for critic in self._effect.critics
        ]
        self.verdicts[call] = found
        verdict = combine(one.verdict for one in found)
        if self._effect.gating and verdict != "pass":
            raise ToolFailure("withheld", f"the answer of {tool} was withheld: the verdict is {verdict}")
        return outcome

    async def close(self) -> None: ...
