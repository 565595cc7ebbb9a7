"""Declares the options of `assay providers`."""

import typer

from assay.cli.help import HELP
from assay.cli.options import AsJson, Group

providers = typer.Typer(cls=Group, rich_markup_mode=None, no_args_is_help=True, add_completion=False)


@providers.command("list", help=HELP["providers list"])
def list_(json: AsJson = False) -> None:
    from assay.cli import providers

    providers.list_providers(json=json)


@providers.command("check", help=HELP["providers check"])
def check(json: AsJson = False) -> None:
    from assay.cli import providers

    providers.check(json=json)
