"""Options that several verbs have, and the group of verbs."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer
import typer.core

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RUN_HELP = "The run: its id, the beginning of it, its name, `latest`, `previous` or `latest:SUITE`."
RunId = Annotated[str, typer.Argument(help=RUN_HELP, metavar="RUN")]
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
RunName = Annotated[
    str | None,
    typer.Option(
        "--name",
        help="Store the run under this name, which then refers to the newest run that has it.",
        metavar="NAME",
    ),
]
RunTags = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        help="Store the run with this tag, such as branch=main or prompt=v3 (repeatable).",
        metavar="K=V",
    ),
]
SendTo = Annotated[
    list[str] | None,
    typer.Option(
        help="Send the verdicts to the traces' backend: otlp, otlp=URL, phoenix or phoenix=URL (repeatable).",
        metavar="WHERE",
    ),
]
Batch = Annotated[
    bool,
    typer.Option(
        "--batch",
        help="Let providers answer judges in batches: at half price, within hours instead of seconds.",
    ),
]
BatchHours = Annotated[
    float | None,
    typer.Option(help="With --batch: after H hours ask one by one what is not answered.", metavar="H", min=0),
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


ResultFiles = Annotated[
    list[str] | None,
    typer.Option(
        "-o",
        "--output",
        help="File for results: .jsonl, .json, .csv, .xlsx or .parquet; '-' is JSONL on standard output (repeatable).",
        metavar="F",
    ),
]
SlicesBy = Annotated[
    list[str] | None,
    typer.Option(
        help="Show pass rates for each tag, or for each value of a column or path (repeatable).",
        metavar="PATH",
    ),
]
MinPassRate = Annotated[
    list[str] | None,
    typer.Option(
        help="Lowest pass rate that is good enough, from 0 to 1: X, CHECK=X or tag:NAME=X (repeatable).",
        metavar="X",
    ),
]
AllowErrors = Annotated[
    bool, typer.Option("--allow-errors", help="Do not exit with 1 when a check was not measured.")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Also name the methods of the intervals.")]
