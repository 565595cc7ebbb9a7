"""Declares the options of `assay worker`."""

from typing import Annotated

import typer

from assay.cli.options import CheckModules
from assay.cli.verbs.serve import LogFormat, LogLevel


def worker(
    concurrency: Annotated[
        int | None,
        typer.Option(
            help="Units that run at once. [default: the setting concurrency, 16]",
            metavar="N",
            min=1,
            show_default=False,
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the workers of the database, and exit.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
    log_format: Annotated[LogFormat, typer.Option(help="Format of log lines.")] = LogFormat.text,
    log_level: Annotated[LogLevel, typer.Option(help="Lowest level to log.")] = LogLevel.warning,
    check_module: CheckModules = None,
) -> None:
    from assay.cli.worker import list_workers, main

    if list_ or json:
        list_workers(as_json=json)
        return
    main(check_module or [], log_format.value, log_level.value, concurrency=concurrency)
