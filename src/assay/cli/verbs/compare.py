"""Declares the options of `assay compare`."""

from typing import Annotated

import typer

from assay.cli.options import AsJson, Tenant


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="The first run or result file, and those to compare with it: an id, `latest`, or a .jsonl "
            "or .json file.",
            metavar="A B",
        ),
    ],
    metric: Annotated[
        str | None,
        typer.Option(
            help="What is compared: passed, score, cost_usd, latency_ms (or latency_ms:p95, :median), a "
            "check, or CHECK:MEMBER.",
            metavar="M",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Also compare each tag, check, criterion, or value of a member or path (repeatable).",
            metavar="PATH",
        ),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            help="A difference below this does not matter: the verdict may be `equivalent`.", metavar="X"
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(help="How many changed cases are listed.", metavar="N", min=0, max=1000)
    ] = 10,
    tenant: Tenant = None,
    json: AsJson = False,
) -> None:
    from assay.cli.compare_sources import CompareOptions
    from assay.errors import UsageError

    if len(runs) < 2:
        raise UsageError(
            "assay compare needs two runs or result files: assay compare before.jsonl after.jsonl"
        )
    from assay.cli import compare

    options = CompareOptions(
        references=tuple(runs), metric=metric, by=tuple(by or ()), margin=margin, limit=limit, tenant=tenant
    )
    compare.main(options, json=json)
