"""Declares the options of `assay merge`."""

from typing import Annotated

import typer

from assay.cli.console.options import AllowErrors, AsJson, MinPassRate, ResultFiles, SlicesBy, Verbose


def merge(
    parts: Annotated[
        list[str],
        typer.Argument(help="Results of every shard of `assay evaluate --shard`.", metavar="PART"),
    ],
    output: ResultFiles = None,
    by: SlicesBy = None,
    min_pass_rate: MinPassRate = None,
    allow_errors: AllowErrors = False,
    verbose: Verbose = False,
    json: AsJson = False,
) -> None:
    from assay.cli.evaluate.evaluate_options import EvaluateOptions
    from assay.cli.merge.merge import main

    options = EvaluateOptions(
        to=output or [],
        by=by or [],
        bars=min_pass_rate or [],
        allow_errors=allow_errors,
        verbose=verbose,
        json=json,
    )
    raise typer.Exit(main(parts, options))
