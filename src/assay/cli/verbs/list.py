"""Declares the options of `assay list`."""

from typing import Annotated

import typer

from assay.cli.options import AsJson, Tenant


def list_(
    status: Annotated[
        str | None,
        typer.Option(
            help="Only runs with this status: pending, running, waiting-approval, waiting-input, completed, "
            "failed or cancelled.",
            metavar="S",
        ),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(help="Only runs of this experiment.", metavar="NAME")
    ] = None,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(help="At most N runs.", metavar="N", min=1, max=1000)] = 20,
    json: AsJson = False,
) -> None:
    from assay.cli import runs

    runs.list_runs(status=status, experiment=experiment, tenant=tenant, limit=limit, json=json)
