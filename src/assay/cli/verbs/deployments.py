"""Declares the options of `assay deployments`."""

from typing import Annotated

import typer

from assay.cli.options import AsJson, KeyFile, Server


def deployments(
    agent: Annotated[
        str | None, typer.Argument(help="Only this agent, with its drafts.", metavar="AGENT")
    ] = None,
    json: AsJson = False,
    server: Server = None,
    key_file: KeyFile = None,
) -> None:
    from assay.cli import promotion

    target = promotion.Target(server=server, key_file=key_file)
    promotion.deployments(agent=agent, target=target, json=json)
