"""`--agent` of `assay evaluate`: which options go with it, and what it reports."""

from typing import Any, Protocol

from assay.cli.evaluate.inputs_outputs import EvaluateOptions
from assay.cli.render.repeats import validate_ks
from assay.errors import UsageError


class AgentReport(Protocol):
    """What a run with an agent adds to the report."""

    def summary(self) -> dict[str, Any]: ...
    def lines(self) -> list[str]: ...


def validate_agent(options: EvaluateOptions) -> None:
    """Refuse options that contradict --agent, or that need it."""
    if options.agent is None:
        if options.trials != 1:
            raise UsageError("--trials needs --agent: without an agent there is nothing to repeat")
        return
    validate_ks(options.ks, options.trials)
    if options.request is not None:
        raise UsageError(
            f"--agent answers the cases of --cases, and {options.request} is a request with outputs:"
            f" use --cases {options.request}, with --checks"
        )
    if options.outputs is not None:
        raise UsageError("--agent and --outputs are two sources of outputs: use one of them")
    if (options.cases is None) == (options.contexts is None):
        got = "both" if options.cases else "none"
        raise UsageError(f"--agent expects --cases F, or --contexts F whose outputs it replaces; got {got}")
    if (options.jobs or 1) > 1:
        raise UsageError("--jobs divides outputs among processes; with --agent use --concurrency")
