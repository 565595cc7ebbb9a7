"""`assay suite`: suites to begin with, to hold against the rules, and to look at (RFC 0081 §A)."""

from typing import Annotated

import typer

HELP = """Suites: the tasks an agent is put to, and what is expected of it.

    assay suite init suite.yaml && assay run suite.yaml --agent module:function
"""
INIT = "Write a suite to begin with; its comments say what there is."
VALIDATE = """Say everything that is wrong with suites, each with its place.

Exit codes: 0 nothing is; 2 something is.
"""
SHOW = "Show what a suite asks: its modes, bars and tasks."

suite = typer.Typer(rich_markup_mode=None, no_args_is_help=True, add_completion=False)


@suite.command("init", help=INIT)
def init(
    to: Annotated[
        str, typer.Argument(help="A .yaml file that is not there yet.", metavar="[F]")
    ] = "suite.yaml",
) -> None:
    from assay.cli import suiting  # a lazy door: the help needs none of it

    suiting.init(to)


@suite.command("validate", help=VALIDATE)
def validate(
    files: Annotated[list[str], typer.Argument(help="Suites, .yaml or .json.", metavar="F...")],
) -> None:
    from assay.cli import suiting  # a lazy door

    suiting.validate(files)


@suite.command("show", help=SHOW)
def show(
    file: Annotated[str, typer.Argument(help="A suite, .yaml or .json.", metavar="F")],
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    from assay.cli import suiting  # a lazy door

    suiting.show(file, json=json)
