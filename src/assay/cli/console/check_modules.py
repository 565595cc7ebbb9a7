"""Notes about `--check-module` of `assay evaluate` and `assay run`."""

from collections.abc import Iterable

from assay.checks.registry import unused_modules
from assay.cli.console.console import echo_err
from assay.fep.planning.plan import Plan


def note_unused(modules: Iterable[str], plan: Plan, file: str) -> None:
    """
    Say which checks are not run because the file of checks does not name them. Checks of single cases are not known
    here.
    """
    if plan.label_types is None:
        return
    for spec, type in unused_modules(modules, plan.label_types.values()).items():
        echo_err(
            f"--check-module {spec}: {file} does not name it, so it is not run; add `- {type}` to the file"
        )
