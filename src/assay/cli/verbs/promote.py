"""Declares the options of `assay promote`."""

from typing import Annotated

import typer

from assay.cli.options import AsJson, KeyFile, Server


def promote(
    subject: Annotated[str, typer.Argument(help="The agent and its version.", metavar="AGENT@VERSION")],
    to: Annotated[
        str,
        typer.Option(help="The next state: test, staged, active, paused or deprecated.", metavar="STATE"),
    ],
    eval_run: Annotated[
        str | None,
        typer.Option("--eval", help="The eval run that is the evidence, or `latest`.", metavar="RUN"),
    ] = None,
    channel: Annotated[
        str | None, typer.Option(help="Channel to bind: stable or canary.", metavar="C")
    ] = None,
    canary: Annotated[
        int | None,
        typer.Option(help="Percentage of runs that the version gets.", metavar="P", min=0, max=100),
    ] = None,
    json: AsJson = False,
    server: Server = None,
    key_file: KeyFile = None,
) -> None:
    from assay.cli import promotion

    promotion.promote(
        subject=subject,
        to=to,
        eval_run=eval_run,
        channel=channel,
        canary=canary,
        target=promotion.Target(server=server, key_file=key_file),
        json=json,
    )
