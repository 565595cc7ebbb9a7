"""Options that several verbs have, and the group of verbs."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer
import typer.core

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RunId = Annotated[str, typer.Argument(help="The run's id, the beginning of it, or `latest`.", metavar="ID")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant.", metavar="T")]
Server = Annotated[
    str | None, typer.Option(help="Use this server instead of the local store.", metavar="URL")
]
KeyFile = Annotated[
    str | None,
    typer.Option(
        help="File with the API key for --server. Default: the variable ASSAY_API_KEY.", metavar="F"
    ),
]
CheckModules = Annotated[
    list[str] | None,
    typer.Option(help="Your own check, as module:Class or module:function (repeatable).", metavar="M"),
]


def any_of(names: Iterable[str]) -> str:
    """`a, b or c`."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


class Group(typer.core.TyperGroup):
    """A verb with verbs of its own. Its `--help` has the default False: for None, Typer would import pydantic."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option
