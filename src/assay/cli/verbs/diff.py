"""Declares the options of `assay diff`."""

from typing import Annotated

import typer

from assay.cli.options import AsJson, Tenant

RUN = "The run's id, the beginning of it, or `latest`."


def diff(
    a: Annotated[str, typer.Argument(help=RUN, metavar="A")],
    b: Annotated[str, typer.Argument(help=RUN, metavar="B")],
    task: Annotated[
        str | None, typer.Option(help="Only the task or case with this id.", metavar="ID")
    ] = None,
    limit: Annotated[int, typer.Option(help="At most N tasks.", metavar="N", min=1)] = 10,
    tenant: Tenant = None,
    json: AsJson = False,
) -> None:
    from assay.cli import diff

    diff.main(a=a, b=b, task=task, limit=limit, tenant=tenant, json=json)
