"""Declares the options of `assay delete`."""

from typing import Annotated

import typer

from assay.cli.options import AsJson, Tenant


def delete(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Ids of runs, beginnings of ids, or `latest`.", metavar="RUN...", show_default=False
        ),
    ],
    tenant: Tenant = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: AsJson = False,
) -> None:
    from assay.cli import delete

    delete.main(runs, tenant=tenant, yes=yes, json=json)
