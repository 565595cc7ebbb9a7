"""Declares the options of `assay rekey`."""

from typing import Annotated

import typer

from assay.cli.options import AsJson


def rekey(
    clear: Annotated[
        bool, typer.Option("--clear", help="Decrypt everything instead; then no key is needed.")
    ] = False,
    json: AsJson = False,
) -> None:
    from assay.cli import rekey

    rekey.main(clear=clear, json=json)
