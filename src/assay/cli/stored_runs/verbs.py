"""Declares the options of `assay admin delete`."""

from typing import Annotated

import typer

from assay.cli.console.options import RUN_HELP, AsJson, RunId, Tenant


def delete(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Ids of runs, beginnings of ids, names, or `latest`.", metavar="RUN...", show_default=False
        ),
    ] = None,
    tenant: Tenant = None,
    all_content: Annotated[
        bool, typer.Option("--all", help="Delete all content of the tenant that --tenant names.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --all: print what would be deleted, and delete nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    json: AsJson = False,
) -> None:
    from assay.cli.stored_runs import delete

    if all_content:
        delete.delete_tenant(runs or [], tenant=tenant, dry_run=dry_run, yes=yes, json=json)
    else:
        delete.main(runs or [], tenant=tenant, dry_run=dry_run, yes=yes, json=json)


# Declares the options of `assay diff`.


def diff(
    a: Annotated[str, typer.Argument(help=RUN_HELP, metavar="A")],
    b: Annotated[str, typer.Argument(help=RUN_HELP, metavar="B")],
    task: Annotated[
        str | None, typer.Option(help="Only the task or case with this id.", metavar="ID")
    ] = None,
    limit: Annotated[int, typer.Option(help="At most N tasks.", metavar="N", min=1)] = 10,
    tenant: Tenant = None,
    json: AsJson = False,
) -> None:
    from assay.cli.stored_runs import diff

    diff.main(a=a, b=b, task=task, limit=limit, tenant=tenant, json=json)


# Declares the options of `assay export`.


def export(
    run: RunId,
    output: Annotated[
        list[str] | None, typer.Option("-o", "--output", help="File to write (repeatable).", metavar="F")
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            help="Format of another tool for -o: inspect, every-eval-ever, promptfoo or openinference. Or send the "
            "verdicts to the traces' backend: otlp, otlp=URL, phoenix or phoenix=URL (repeatable).",
            metavar="NAME",
        ),
    ] = None,
    tenant: Tenant = None,
) -> None:
    from assay.cli.stored_runs import export

    raise typer.Exit(export.main(run=run, output=output or [], to=to or [], tenant=tenant))


# Declares the options of `assay admin gc`.


def gc(
    tenant: Tenant = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, help="Remove the content of N runs at most.", metavar="N")
    ] = 10_000,
    json: AsJson = False,
) -> None:
    from assay.cli.stored_runs import gc as command

    command.main(tenant=tenant, dry_run=dry_run, limit=limit, json=json)


# Declares the options of `assay list`.


def list_(
    status: Annotated[
        str | None,
        typer.Option(
            help="Only runs with this status: pending, running, waiting-approval, waiting-input, completed, "
            "failed or cancelled.",
            metavar="S",
        ),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(help="Only runs of this experiment.", metavar="NAME")
    ] = None,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(help="At most N runs.", metavar="N", min=1, max=1000)] = 20,
    json: AsJson = False,
) -> None:
    from assay.cli.stored_runs import run_list

    run_list.list_runs(status=status, experiment=experiment, tenant=tenant, limit=limit, json=json)


# Declares the options of `assay show`.


def show(
    run: RunId,
    failing: Annotated[
        bool, typer.Option("--failing", help="Only cases that failed or were not measured.")
    ] = False,
    case: Annotated[str | None, typer.Option(help="Only the case with this id.", metavar="ID")] = None,
    task: Annotated[str | None, typer.Option(help="Only the task with this id.", metavar="ID")] = None,
    check: Annotated[
        str | None, typer.Option(help="Only the check with this name or type.", metavar="C")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(help="At most N cases. Default: 5, and 10 with --failing --json.", metavar="N", min=1),
    ] = None,
    max_bytes: Annotated[
        int | None,
        typer.Option(
            help="With --failing --json: at most N bytes. Longer texts are cut. Default: 20000.",
            metavar="N",
            min=2_000,
            max=10_000_000,
        ),
    ] = None,
    k: Annotated[
        list[str] | None,
        typer.Option(
            help="Show pass@k (one of k trials passes) and pass^k (all k pass) for these k, such as 1,3 (repeatable).",
            metavar="K",
        ),
    ] = None,
    tenant: Tenant = None,
    json: AsJson = False,
) -> None:
    from assay.cli.render.repeats import read_ks
    from assay.cli.stored_runs import show as command

    command.show_run(
        run=run,
        failing=failing,
        case=case,
        task=task,
        check=check,
        limit=limit,
        max_bytes=max_bytes,
        ks=read_ks(k or []),
        tenant=tenant,
        json=json,
    )
