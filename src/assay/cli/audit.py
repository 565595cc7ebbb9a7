"""`assay audit`: who did what to which run, and whether all of it is still there."""

from typing import Annotated

import typer

HELP = "Read the audit log of a store, and check that nothing of it was changed, removed or put in another place."
SHOW = """Show the audit log, by tenant and time.

    assay audit show --run eval_2f6e
"""
VERIFY = """Check that the audit log is whole, and tell how far it goes.

    assay audit verify --json > heads.json
    assay audit verify --heads heads.json

Kept elsewhere, what the first of these tells shows later also that somebody wrote the log anew, or cut its end off together with
what the store knows of it. Ends with 3 if anything is wrong.
"""

audit = typer.Typer(rich_markup_mode=None, no_args_is_help=True, add_completion=False)

AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
Tenant = Annotated[str | None, typer.Option(help="Only a tenant's.", metavar="T")]


@audit.command("show", help=SHOW)
def show(
    tenant: Tenant = None,
    run: Annotated[str | None, typer.Option(help="Only what was done to a run.", metavar="ID")] = None,
    json: AsJson = False,
) -> None:
    from assay.cli import auditing  # a lazy door: the help needs none of it

    auditing.show(tenant, run, json=json)


@audit.command("verify", help=VERIFY)
def verify(
    tenant: Tenant = None,
    heads: Annotated[
        str | None, typer.Option(help="What `verify --json` told before: it must still be so.", metavar="F")
    ] = None,
    json: AsJson = False,
) -> None:
    from assay.cli import auditing  # a lazy door

    auditing.verify(tenant, heads, json=json)
