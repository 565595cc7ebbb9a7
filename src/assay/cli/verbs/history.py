"""Declares the options of `assay history`."""

from typing import Annotated

import typer

from assay.cli.options import AsJson, KeyFile, Server, Tenant


def history(
    suite: Annotated[str, typer.Argument(help="The suite: its id, or a file.", metavar="SUITE")],
    agent: Annotated[str | None, typer.Option(help="Only runs of this agent.", metavar="ID")] = None,
    limit: Annotated[int, typer.Option(help="At most N runs.", metavar="N", min=1, max=1000)] = 20,
    tenant: Tenant = None,
    json: AsJson = False,
    server: Server = None,
    key_file: KeyFile = None,
) -> None:
    from assay.cli import history

    history.main(
        suite=suite, agent=agent, limit=limit, tenant=tenant, json=json, server=server, key_file=key_file
    )
