"""Declares the options of `assay export`."""

from typing import Annotated

import typer

from assay.cli.options import RunId, Tenant


def export(
    run: RunId,
    output: Annotated[
        list[str], typer.Option("-o", "--output", help="File to write (repeatable).", metavar="F")
    ],
    tenant: Tenant = None,
) -> None:
    from assay.cli import export

    export.main(run=run, output=output, tenant=tenant)
