"""Declares the options of `assay gate`."""

from typing import Annotated

import typer

from assay.cli.options import AsJson, Tenant


def gate(
    run: Annotated[
        str,
        typer.Argument(help="The run's id, the beginning of it, `latest`, or a result file.", metavar="RUN"),
    ],
    baseline: Annotated[
        str | None, typer.Option(help="Run or result file that RUN must not regress from.", metavar="RUN")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="File with the rules, .yaml or .json.", metavar="F")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="strict, balanced or lenient about a drop that is not shown.", metavar="P"),
    ] = None,
    min: Annotated[
        float | None, typer.Option(help="Lowest mean of the metric that is good enough.", metavar="X")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="A difference below this does not matter.", metavar="X", min=0)
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="What decides; see `assay compare`.", metavar="M")
    ] = None,
    markdown: Annotated[
        str | None, typer.Option(help="File for a report for a pull request.", metavar="F")
    ] = None,
    junit: Annotated[str | None, typer.Option(help="File for JUnit XML.", metavar="F")] = None,
    sarif: Annotated[
        str | None, typer.Option(help="File for the safety findings as SARIF.", metavar="F")
    ] = None,
    allow_partial: Annotated[
        bool,
        typer.Option("--allow-partial", help="Decide on a run that is not complete, or does not say so."),
    ] = False,
    tenant: Tenant = None,
    json: AsJson = False,
) -> None:
    from assay.cli.gate import GateOptions, main

    options = GateOptions(
        run=run,
        baseline=baseline,
        policy=policy,
        preset=preset,
        allow_partial=allow_partial,
        min=min,
        margin=margin,
        metric=metric,
        markdown=markdown,
        junit=junit,
        sarif=sarif,
        tenant=tenant,
        json=json,
    )
    raise typer.Exit(main(options))
