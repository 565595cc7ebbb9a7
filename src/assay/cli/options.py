"""Options that several verbs have."""

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RunId = Annotated[str, typer.Argument(help="The run's id, the beginning of it, or `latest`.", metavar="ID")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant.", metavar="T")]
Server = Annotated[str | None, typer.Option(help="Use the run on another host.", metavar="URL")]
KeyFile = Annotated[
    str | None,
    typer.Option(
        help="File with the API key for --server. Default: the variable ASSAY_API_KEY.", metavar="F"
    ),
]
CheckModules = Annotated[
    list[str] | None,
    typer.Option(help="Your own check, as module:Class (repeatable).", metavar="M"),
]
