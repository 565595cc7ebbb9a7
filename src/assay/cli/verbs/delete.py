"""Declares the options of `assay delete`."""

from typing import Annotated

import typer

from assay.cli.options import AsJson, Tenant


def delete(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Ids of runs, beginnings of ids, or `latest`.", metavar="RUN...", show_default=False
        ),
    ] = None,
    tenant: Tenant = None,
    all_content: Annotated[
        bool, typer.Option("--all", help="Delete all content of the tenant that --tenant names.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --all: print what would be deleted, and delete nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    json: AsJson = False,
) -> None:
    from assay.cli import delete, delete_tenant

    if all_content:
        delete_tenant.main(runs or [], tenant=tenant, dry_run=dry_run, yes=yes, json=json)
    else:
        delete.main(runs or [], tenant=tenant, dry_run=dry_run, yes=yes, json=json)
