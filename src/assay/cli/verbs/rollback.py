"""Declares the options of `assay rollback`."""

from typing import Annotated

import typer

from assay.cli.options import AsJson, KeyFile, Server


def rollback(
    subject: Annotated[
        str,
        typer.Argument(help="AGENT@VERSION, or AGENT: its active version.", metavar="AGENT"),
    ],
    reason: Annotated[str | None, typer.Option(help="The reason, for the log.", metavar="TEXT")] = None,
    json: AsJson = False,
    server: Server = None,
    key_file: KeyFile = None,
) -> None:
    from assay.cli import promotion

    target = promotion.Target(server=server, key_file=key_file)
    promotion.rollback(subject=subject, reason=reason, target=target, json=json)
