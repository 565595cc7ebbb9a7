"""Declares the options of `assay show`."""

from typing import Annotated

import typer

from assay.cli.options import AsJson, RunId, Tenant


def show(
    run: RunId,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only cases that failed or were not measured.")
    ] = False,
    case: Annotated[str | None, typer.Option(help="Only the case with this id.", metavar="ID")] = None,
    task: Annotated[str | None, typer.Option(help="Only the task with this id.", metavar="ID")] = None,
    check: Annotated[
        str | None, typer.Option(help="Only the check with this name or type.", metavar="C")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="At most N cases. Default: 5.", metavar="N", min=1)
    ] = None,
    k: Annotated[
        list[str] | None,
        typer.Option(help="Show pass@k and pass^k for these k, such as 1,3 (repeatable).", metavar="K"),
    ] = None,
    tenant: Tenant = None,
    json: AsJson = False,
) -> None:
    from assay.cli import show as command
    from assay.cli.repeats import read_ks

    command.show_run(
        run=run,
        failed=failed,
        case=case,
        task=task,
        check=check,
        limit=limit,
        ks=read_ks(k or []),
        tenant=tenant,
        json=json,
    )
