"""Declares the options of `assay respond`."""

from typing import Annotated

import typer

from assay.cli.options import AsJson


def respond(
    run: Annotated[str, typer.Argument(help="Id of the run that waits, or `latest`.", metavar="RUN")],
    accept: Annotated[bool, typer.Option("--accept", help="Approve and continue.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="Reject; the run ends.")] = False,
    answer: Annotated[
        str | None,
        typer.Option(help="Answer to a question: a text, or @FILE with JSON or YAML.", metavar="T"),
    ] = None,
    json: AsJson = False,
) -> None:
    from assay.cli import verify

    verify.respond(run=run, accept=accept, reject=reject, answer=answer, json=json)
