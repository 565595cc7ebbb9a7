"""Declares the options of `assay schema`."""

from typing import Annotated

import typer


def schema(
    name: Annotated[str, typer.Argument(help="A type, such as TestCaseResult.", metavar="NAME")] = "",
) -> None:
    from assay.cli import schema

    schema.main(name=name)
