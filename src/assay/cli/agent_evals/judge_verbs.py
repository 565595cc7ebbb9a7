"""Declares the options of `assay judge`."""

from typing import Annotated

import typer

from assay.cli.console.help import HELP
from assay.cli.console.options import AsJson, Group, Tenant

judge = typer.Typer(cls=Group, rich_markup_mode=None, no_args_is_help=True, add_completion=False)


JudgedRun = Annotated[
    str,
    typer.Argument(
        help="The run: its id, the beginning of it, its name, `latest`, or a result file.", metavar="RUN|F"
    ),
]
JudgeCheck = Annotated[
    str | None,
    typer.Option(
        help="Check that is the judge, or CHECK:MEMBER of its answer. Default: the only judge of the results.",
        metavar="NAME",
    ),
]


@judge.command("sample", help=HELP["judge sample"])
def sample(
    run: JudgedRun,
    count: Annotated[int, typer.Option("-n", "--count", help="Number of cases.", metavar="N", min=1)],
    seed: Annotated[
        int, typer.Option(help="Seed of the draw: the same seed draws the same cases.", metavar="N")
    ] = 0,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", help="New .csv file with the cases, for labels.", metavar="F"),
    ] = None,
    check: JudgeCheck = None,
    tenant: Tenant = None,
    json: AsJson = False,
) -> None:
    from assay.cli.agent_evals import judge

    options = judge.JudgeOptions(reference=run, check=check, tenant=tenant)
    judge.sample(options, count=count, seed=seed, output=output, json=json)


@judge.command("check", help=HELP["judge check"])
def check(
    run: JudgedRun,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            help="Labels of a person: a column of the cases, a path, or a file F or F:COLUMN (repeatable). "
            "Default: those of `assay annotate`.",
            metavar="NAME",
        ),
    ] = None,
    check: JudgeCheck = None,
    bar: Annotated[
        float | None,
        typer.Option(
            help="Lowest number that is a pass, in labels and in answers of the judge.", metavar="X"
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="The labelled cases are a draw with this seed, which is verified.", metavar="N"),
    ] = None,
    tenant: Tenant = None,
    json: AsJson = False,
) -> None:
    from assay.cli.agent_evals import judge

    options = judge.JudgeOptions(
        reference=run, labels=tuple(labels or ()), check=check, bar=bar, tenant=tenant
    )
    judge.check(options, seed=seed, json=json)
