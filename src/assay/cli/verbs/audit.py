"""Declares the options of `assay audit`."""

from typing import Annotated

import typer

from assay.cli.help import HELP
from assay.cli.options import AsJson, Group, Tenant

audit = typer.Typer(cls=Group, rich_markup_mode=None, no_args_is_help=True, add_completion=False)


@audit.command("show", help=HELP["audit show"])
def show(
    tenant: Tenant = None,
    run: Annotated[
        str | None,
        typer.Option(help="Only entries about this run, by the beginning of its id.", metavar="ID"),
    ] = None,
    json: AsJson = False,
) -> None:
    from assay.cli import audit

    audit.show(tenant=tenant, run=run, json=json)


@audit.command("verify", help=HELP["audit verify"])
def verify(
    tenant: Tenant = None,
    heads: Annotated[
        str | None,
        typer.Option(
            help="Output of an earlier `verify --json`; the log must still contain it.", metavar="F"
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    from assay.cli import audit

    audit.verify(tenant=tenant, heads=heads, json=json)
