"""`assay key`: who may ask a server, said to its store, whether it runs or not (openwop-contract §2.1)."""

from typing import Annotated

import typer

HELP = """Make, list and revoke keys, in the store that a server uses: ASSAY_DATABASE_URL, else assay.db in ASSAY_HOME.

    assay key create --tenant acme --scope evaluations:create --scope evaluations:read --expires 90d

A server need not run. One that does takes a new key at once, and refuses a revoked one within five seconds.
"""
CREATE = """Make a key, and print it: this once, on standard output.

Without --scope it may do everything for its tenant. A scope never implies another.
"""
LIST = "List keys, oldest first, also those that are good no more; never the keys themselves."
REVOKE = "End a key for good."

key = typer.Typer(rich_markup_mode=None, no_args_is_help=True, add_completion=False)

AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


@key.command("create", help=CREATE)
def create(
    tenant: Annotated[str, typer.Option(help="Whose key it is.", metavar="T")],
    scope: Annotated[
        list[str] | None, typer.Option(help="What it is good for. Several may be given.", metavar="S")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="When it ends: 90d, 12h, 2027-01-31. Else never.", metavar="D")
    ] = None,
    note: Annotated[str, typer.Option(help="What it is for, in a line.", metavar="N")] = "",
    json: AsJson = False,
) -> None:
    from assay.cli import keeping  # a lazy door: the help needs none of it

    keeping.create(tenant, scope, expires, note, json=json)


@key.command("list", help=LIST)
def list_(
    tenant: Annotated[str | None, typer.Option(help="Only a tenant's.", metavar="T")] = None,
    json: AsJson = False,
) -> None:
    from assay.cli import keeping  # a lazy door

    keeping.show(tenant, json=json)


@key.command("revoke", help=REVOKE)
def revoke(
    id: Annotated[
        str, typer.Argument(help="The 8 characters after assay_, as `key list` has it.", metavar="ID")
    ],
) -> None:
    from assay.cli import keeping  # a lazy door

    keeping.revoke(id)
