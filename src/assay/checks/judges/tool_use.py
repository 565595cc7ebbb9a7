"""
tool_use: a judge says whether an agent called the tools that a request needs, with the right arguments. Agreement with
people: not measured.
"""

from typing import Any

from assay.checks.judges.ready_judge import INPUT, OUTPUT, ReadyJudge


class ToolUse(ReadyJudge):
    type = "tool_use"
    default_paths = {  # noqa: RUF012  # declared a ClassVar in Checker
        "input": INPUT,
        "output": OUTPUT,
        "tool_calls": "$.output.metadata.tool_calls",
    }
    verdict = "true if the tool calls are those that the request needs"
    question = """You judge the `tool_calls` of an agent that worked on `request` and answered with `output`. \
`tools`, if it is there, lists the tools that the agent had.
- It passes if the agent called every tool that the request needs, with arguments that follow from the request or from \
earlier results, and used the results in its output.
- It fails if a call is missing, is not needed, repeats an earlier one without a reason, has a wrong, missing or \
invented argument, comes in an order that cannot work, or if the output contradicts a result.
- A request that needs no tool passes without a call.

First weigh in `reason` which calls the request needs and how each call that was made serves it. Then give `passed`."""

    input: Any
    output: Any
    tool_calls: list[Any]
    tools: Any = None

    def material(self) -> dict[str, Any]:
        parts = {"request": self.input, "tool_calls": self.tool_calls, "output": self.output}
        return parts if self.tools is None else {"tools": self.tools, **parts}
