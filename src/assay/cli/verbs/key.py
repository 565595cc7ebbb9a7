"""Declares the options of `assay key`."""

from typing import Annotated

import typer

from assay.cli.help import HELP
from assay.cli.options import AsJson, Group, Tenant

key = typer.Typer(cls=Group, rich_markup_mode=None, no_args_is_help=True, add_completion=False)


@key.command("create", help=HELP["key create"])
def create(
    tenant: Annotated[str, typer.Option(help="Tenant of the key.", metavar="T")],
    scope: Annotated[
        list[str] | None, typer.Option(help="What the key may do (repeatable).", metavar="S")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="When it expires: 90d, 12h, 2027-01-31. Default: never.", metavar="D")
    ] = None,
    note: Annotated[str, typer.Option(help="What it is for, in one line.", metavar="N")] = "",
    json: AsJson = False,
) -> None:
    from assay.cli import key

    key.create(tenant=tenant, scope=scope, expires=expires, note=note, json=json)


@key.command("list", help=HELP["key list"])
def list_(tenant: Tenant = None, json: AsJson = False) -> None:
    from assay.cli import key

    key.list_keys(tenant=tenant, json=json)


@key.command("revoke", help=HELP["key revoke"])
def revoke(
    id: Annotated[
        str, typer.Argument(help="The 8 characters after assay_; `key list` shows them.", metavar="ID")
    ],
) -> None:
    from assay.cli import key

    key.revoke(id=id)
