"""Declares the options of `assay annotate`."""

from typing import Annotated

import typer

from assay.cli.options import KeyFile, Server


def annotate(
    run: Annotated[
        str, typer.Argument(help="The run's id, the beginning of it, or `latest`.", metavar="RUN")
    ],
    task: Annotated[str | None, typer.Option(help="Task to annotate.", metavar="ID")] = None,
    event: Annotated[str | None, typer.Option(help="Event to annotate.", metavar="ID")] = None,
    score: Annotated[
        float | None, typer.Option(help="Correct the score of the task, 0 to 1.", metavar="X", min=0, max=1)
    ] = None,
    passed: Annotated[bool, typer.Option("--passed", help="Correct the task: it passed.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Correct the task: it failed.")] = False,
    rating: Annotated[int | None, typer.Option(help="Rate it, 1 to 5.", metavar="N", min=1, max=5)] = None,
    label: Annotated[str | None, typer.Option(help="Add a label.", metavar="TEXT")] = None,
    flag: Annotated[bool, typer.Option("--flag", help="Flag it for review.")] = False,
    note: Annotated[str | None, typer.Option(help="Add the reason as a text.", metavar="TEXT")] = None,
    tenant: Annotated[str | None, typer.Option(help="Tenant of the run.", metavar="T")] = None,
    server: Server = None,
    key_file: KeyFile = None,
) -> None:
    from assay.cli import annotate

    annotate.main(
        run=run,
        task=task,
        event=event,
        score=score,
        passed=passed,
        failed=failed,
        rating=rating,
        label=label,
        flag=flag,
        note=note,
        tenant=tenant,
        server=server,
        key_file=key_file,
    )
