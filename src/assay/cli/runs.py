"""`assay list`, `assay show`, `assay export`: runs that were kept, with or without a server running."""

from typing import Annotated

import typer

LIST = "List the runs that were kept, newest first."
SHOW = "Show a run: what passed, what failed, what was not measured, and the first cases that did not pass; of a workflow, its verdicts."
EXPORT = "Write the results of a run, or its verdicts, into files: .jsonl, .json or .csv."

AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
Which = Annotated[str, typer.Argument(help="A run's id, or the beginning of one, or `latest`.", metavar="ID")]
Tenant = Annotated[str | None, typer.Option(help="Only a tenant's.", metavar="T")]


def list_(
    status: Annotated[
        str | None,
        typer.Option(
            help="Only those that are pending, running, waiting-approval, waiting-input, completed, failed or cancelled.",
            metavar="S",
        ),
    ] = None,
    experiment: Annotated[str | None, typer.Option(help="Only an experiment's.", metavar="NAME")] = None,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(help="At most N.", metavar="N", min=1, max=1000)] = 20,
    json: AsJson = False,
) -> None:
    from assay.cli import kept  # a lazy door: the help needs none of it

    kept.list_runs(status, experiment, tenant, limit, json=json)


def show(run: Which, tenant: Tenant = None, json: AsJson = False) -> None:
    from assay.cli import kept  # a lazy door

    kept.show_run(run, tenant, json=json)


def export(
    run: Which,
    output: Annotated[
        list[str], typer.Option("-o", "--output", help="Where it goes; several may be given.", metavar="F")
    ],
    tenant: Tenant = None,
) -> None:
    from assay.cli import kept  # a lazy door

    kept.export_run(run, output, tenant)
