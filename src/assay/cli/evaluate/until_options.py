"""Which options `assay evaluate --until decided` takes."""

from typing import Literal

from assay.cli.console.only import Only
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.errors import UsageError

DECIDED: Literal["decided"] = "decided"


def validate_until(options: EvaluateOptions, bar: float | None, *, other_bars: bool) -> None:
    """Refuse options that contradict --until, and those that need it."""
    if options.until is None:
        for name, value in (("--margin", options.margin), ("--seed", options.seed or None)):
            if value is not None:
                raise UsageError(f"{name}: expected --until decided with it")
        return
    if options.until != DECIDED:
        raise UsageError(f"--until: expected {DECIDED}, got {options.until!r}")
    if (options.baseline is None) == (bar is None) or other_bars:
        raise UsageError(
            "--until decided: expected one thing to decide, --baseline RUN or --min-pass-rate X, without a check"
            " or a slice"
        )
    if options.margin is not None and options.baseline is None:
        raise UsageError("--margin: expected --baseline with it, whose difference it is of")
    others = {
        "--resume": options.resume,
        "--jobs": (options.jobs or 1) > 1,
        "--standardize-by": options.standardize_by is not None,
        "several --traces": len(options.traces) > 1,
        "--fail-fast": options.fail_fast,
        "--only": options.only != Only(),
        "--agent": options.agent is not None,
    }
    for name, given in others.items():
        if given:
            raise UsageError(f"--until and {name}: expected one of them, got both")
    if "-" in options.inputs:
        raise UsageError(
            "--until: expected a file, got standard input; the order is random, so all cases are read first"
        )
