"""Declares the options of `assay report`."""

from typing import Annotated

import typer

from assay.cli.options import Tenant


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="The runs: an id, the beginning of it, or `latest`. The first is the baseline.",
            metavar="RUN",
        ),
    ],
    output: Annotated[str, typer.Option("-o", "--output", help="File to write: .html or .md.", metavar="F")],
    redact: Annotated[
        bool, typer.Option("--redact", help="Leave out ids, inputs, outputs, reasons and tags.")
    ] = False,
    limit: Annotated[
        int,
        typer.Option(
            help="At most N cases of a run, failures first. Default: 1000.",
            metavar="N",
            min=1,
            max=20_000,
            show_default=False,
        ),
    ] = 1_000,
    tenant: Tenant = None,
) -> None:
    from assay.cli.report import ReportRequest, main

    main(ReportRequest(tuple(runs), output, tenant, redact=redact, limit=limit))
