"""Declares the options of `assay judge`."""

from typing import Annotated

import typer

from assay.cli.help import HELP
from assay.cli.options import AsJson, Group, RunId, Tenant

judge = typer.Typer(cls=Group, rich_markup_mode=None, no_args_is_help=True, add_completion=False)


@judge.command("sample", help=HELP["judge sample"])
def sample(
    run: RunId,
    count: Annotated[int, typer.Option("-n", "--count", help="Number of tasks.", metavar="N", min=1)],
    seed: Annotated[int, typer.Option(help="Seed of the draw. Default: 0.", metavar="N")] = 0,
    tenant: Tenant = None,
    json: AsJson = False,
) -> None:
    from assay.cli import judge

    judge.sample(run=run, count=count, seed=seed, tenant=tenant, json=json)


@judge.command("check", help=HELP["judge check"])
def check(run: RunId, tenant: Tenant = None, json: AsJson = False) -> None:
    from assay.cli import judge

    judge.check(run=run, tenant=tenant, json=json)
