"""Declares the options of `assay suite`."""

from typing import Annotated

import typer

from assay.cli.help import HELP
from assay.cli.options import AsJson, Group

suite = typer.Typer(cls=Group, rich_markup_mode=None, no_args_is_help=True, add_completion=False)


@suite.command("init", help=HELP["suite init"])
def init(
    to: Annotated[str, typer.Argument(help="New .yaml file.", metavar="F")] = "suite.yaml",
) -> None:
    from assay.cli import suite

    suite.init(to=to)


@suite.command("validate", help=HELP["suite validate"])
def validate(
    files: Annotated[list[str], typer.Argument(help="Suite files, .yaml or .json.", metavar="F...")],
) -> None:
    from assay.cli import suite

    suite.validate(files=files)


@suite.command("show", help=HELP["suite show"])
def show(
    file: Annotated[str, typer.Argument(help="Suite file, .yaml or .json.", metavar="F")],
    json: AsJson = False,
) -> None:
    from assay.cli import suite

    suite.show(file=file, json=json)
