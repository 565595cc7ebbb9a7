"""Declares the options of `assay skills` and `assay mcp`."""

from typing import Annotated

import typer

from assay.cli.console.help import HELP
from assay.cli.console.options import AsJson, Group, KeyFile

skills = typer.Typer(cls=Group, rich_markup_mode=None, no_args_is_help=True, add_completion=False)


@skills.command("list", help=HELP["skills list"])
def list_skills(json: AsJson = False) -> None:
    from assay.cli.coding_agents import skills

    skills.list_skills(json=json)


@skills.command("install", help=HELP["skills install"])
def install(
    names: Annotated[
        list[str] | None, typer.Argument(help="Skills to write. Default: all of them.", metavar="NAME...")
    ] = None,
    folder: Annotated[
        str,
        typer.Option("--to", help="Folder of the skills, such as .claude/skills.", metavar="DIR"),
    ] = ".agents/skills",
    force: Annotated[bool, typer.Option("--force", help="Overwrite a skill that was changed.")] = False,
) -> None:
    from assay.cli.coding_agents import skills

    skills.install(names=names or [], folder=folder, force=force)


def mcp(
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Leave out the tools that run code: run and try_check.")
    ] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Folder beside this one that paths may be in (repeatable).", metavar="DIR"),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(help="Run there, and read the runs that are there.", metavar="URL"),
    ] = None,
    key_file: KeyFile = None,
) -> None:
    from assay.cli.coding_agents.mcp_server import main

    main(read_only=read_only, allow=allow or [], server=server, key_file=key_file)
