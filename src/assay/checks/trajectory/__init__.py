"""
Checks of what an agent did, by type. To add one, write its file and a line of the table.

The table holds names: a registry imports a class when a request first uses it.
"""

TRAJECTORY_CHECKS: dict[str, str] = {
    "tool_calls": "assay.checks.trajectory.tool_calls:ToolCalls",
    "max_steps": "assay.checks.trajectory.max_steps:MaxSteps",
    "called_tools": "assay.checks.trajectory.called_tools:CalledTools",
    "no_repeated_calls": "assay.checks.trajectory.no_repeated_calls:NoRepeatedCalls",
}
