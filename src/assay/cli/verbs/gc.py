"""Declares the options of `assay gc`."""

from typing import Annotated

import typer

from assay.cli.options import AsJson, Tenant


def gc(
    tenant: Tenant = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, help="Remove the evidence of N runs at most.", metavar="N")
    ] = 10_000,
    json: AsJson = False,
) -> None:
    from assay.cli import gc

    gc.main(tenant=tenant, dry_run=dry_run, limit=limit, json=json)
