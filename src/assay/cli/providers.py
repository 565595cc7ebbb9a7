"""`assay providers`: who may be asked for judgements and embeddings, and whether they answer (FEP 2.3.6)."""

from typing import Annotated

import typer

HELP = """Who judges and embeds: [providers.NAME] and [models] of assay.toml, and OPENAI_API_KEY.

    assay providers check

A configured provider without a model under [models] is not asked: nobody said for what.
"""
LIST = "List the providers and their models. Of a key it is said where it comes from, never what it is."
CHECK = """Ask every model under [models] once, and say what works, how long it took and what it cost.

Exit codes: 0 everything works; 1 something does not, or there was nothing to ask.
"""

providers = typer.Typer(rich_markup_mode=None, no_args_is_help=True, add_completion=False)

AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


@providers.command("list", help=LIST)
def list_(json: AsJson = False) -> None:
    from assay.cli import calling  # a lazy door: the help needs none of it

    calling.show(json=json)


@providers.command("check", help=CHECK)
def check(json: AsJson = False) -> None:
    from assay.cli import calling  # a lazy door

    raise typer.Exit(calling.check(json=json))
