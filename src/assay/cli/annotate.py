"""`assay annotate`: a person's word on a run, a task of it or an event (contract §9.2)."""

from typing import Annotated

import typer

HELP = """Say something of an eval run: correct the score of a task, rate, label or flag it.

    assay annotate latest --task tone --score 1 --note "the judge missed the greeting"

What was recorded stays as it is; `assay show` has the effective score beside it.
"""


def annotate(
    run: Annotated[str, typer.Argument(help="A run's id, the beginning of one, or `latest`.", metavar="RUN")],
    task: Annotated[
        str | None, typer.Option(help="The task that is meant: the event that scored it.", metavar="ID")
    ] = None,
    event: Annotated[str | None, typer.Option(help="The event that is meant.", metavar="ID")] = None,
    score: Annotated[
        float | None, typer.Option(help="A correction: what it should be, 0 to 1.", metavar="X", min=0, max=1)
    ] = None,
    passed: Annotated[bool, typer.Option("--passed", help="A correction: it passed.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="A correction: it did not.")] = False,
    rating: Annotated[int | None, typer.Option(help="1 to 5.", metavar="N", min=1, max=5)] = None,
    label: Annotated[str | None, typer.Option(help="A word for it.", metavar="TEXT")] = None,
    flag: Annotated[bool, typer.Option("--flag", help="Somebody should look at it.")] = False,
    note: Annotated[str | None, typer.Option(help="Why.", metavar="TEXT")] = None,
    tenant: Annotated[
        str | None, typer.Option(help="Whose run it is, where a database has several.", metavar="T")
    ] = None,
    server: Annotated[str | None, typer.Option(help="Of a run on another host.", metavar="URL")] = None,
    key_file: Annotated[
        str | None,
        typer.Option(help="The file with the key for --server; without it, ASSAY_API_KEY.", metavar="F"),
    ] = None,
) -> None:
    from assay.cli.annotating import AnnotateOptions, carry_out  # a lazy door: the help needs none of it

    verdict = None if passed == failed else passed
    if passed and failed:
        raise typer.BadParameter("it passed or it did not: give one of --passed and --failed")
    carry_out(
        run,
        AnnotateOptions(
            task=task,
            event=event,
            score=score,
            passed=verdict,
            rating=rating,
            label=label,
            flag=flag,
            note=note,
        ),
        tenant,
        server,
        key_file,
    )
