"""Declares the options of `assay admin audit`."""

from typing import Annotated

import typer

from assay.cli.console.help import HELP
from assay.cli.console.options import AsJson, Group, Tenant

audit = typer.Typer(cls=Group, rich_markup_mode=None, no_args_is_help=True, add_completion=False)


@audit.command("show", help=HELP["admin audit show"])
def show_audit(
    tenant: Tenant = None,
    run: Annotated[
        str | None,
        typer.Option(help="Only entries about this run, by the beginning of its id.", metavar="ID"),
    ] = None,
    json: AsJson = False,
) -> None:
    from assay.cli.admin import audit

    audit.show(tenant=tenant, run=run, json=json)


@audit.command("verify", help=HELP["admin audit verify"])
def verify_audit(
    tenant: Tenant = None,
    heads: Annotated[
        str | None,
        typer.Option(
            help="Output of an earlier `verify --json`; the log must still contain it.", metavar="F"
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    from assay.cli.admin import audit

    audit.verify(tenant=tenant, heads=heads, json=json)


# Declares the options of `assay admin key`.

key = typer.Typer(cls=Group, rich_markup_mode=None, no_args_is_help=True, add_completion=False)


@key.command("create", help=HELP["admin key create"])
def create(
    tenant: Annotated[str, typer.Option(help="Tenant of the key.", metavar="T")],
    scope: Annotated[
        list[str] | None, typer.Option(help="A scope of the key, or `everything` (repeatable).", metavar="S")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            help="When it expires: 90d, 12h, 2027-01-31 or never. Default: asks on a terminal, otherwise 90d.",
            metavar="D",
        ),
    ] = None,
    note: Annotated[str, typer.Option(help="What it is for, in one line.", metavar="N")] = "",
    json: AsJson = False,
) -> None:
    from assay.cli.admin import key

    key.create(tenant=tenant, scope=scope, expires=expires, note=note, json=json)


@key.command("list", help=HELP["admin key list"])
def list_keys(tenant: Tenant = None, json: AsJson = False) -> None:
    from assay.cli.admin import key

    key.list_keys(tenant=tenant, json=json)


@key.command("revoke", help=HELP["admin key revoke"])
def revoke(
    id: Annotated[
        str, typer.Argument(help="The 8 characters after assay_; `key list` shows them.", metavar="ID")
    ],
) -> None:
    from assay.cli.admin import key

    key.revoke(id=id)


# Declares the options of `assay pack`.

pack = typer.Typer(cls=Group, rich_markup_mode=None, no_args_is_help=True, add_completion=False)
PackPath = Annotated[str, typer.Argument(help="A .tgz file, or a folder with a pack.json.", metavar="PACK")]
Manifest = Annotated[
    str | None, typer.Option(help="Version manifest with the digest of the tarball.", metavar="F")
]
Integrity = Annotated[
    str | None, typer.Option(help="Digest of the tarball, sha256-BASE64.", metavar="DIGEST")
]
PackTenant = Annotated[str, typer.Option(help="Tenant that has the pack.", metavar="T")]
PackRef = Annotated[str, typer.Argument(help="NAME@VERSION; `pack list` shows it.", metavar="NAME")]
PublicKey = Annotated[
    list[str] | None,
    typer.Option(help="Key to trust besides [pack_keys]: FILE or ID=FILE (repeatable).", metavar="F"),
]


@pack.command("build", help=HELP["pack build"])
def build(
    folder: Annotated[str, typer.Argument(help="Folder with a pack.json.", metavar="DIR")],
    output: Annotated[
        str, typer.Option("-o", "--output", help="Folder for the files, outside DIR.", metavar="OUT")
    ] = ".",
    key: Annotated[
        str | None, typer.Option(help="Ed25519 private key that signs it, PEM.", metavar="F")
    ] = None,
    key_id: Annotated[
        str | None, typer.Option(help="Id of the key. Default: the name of its file.", metavar="ID")
    ] = None,
    json: AsJson = False,
) -> None:
    from assay.cli.admin import pack

    pack.build(folder=folder, output=output, key=key, key_id=key_id, json=json)


@pack.command("verify", help=HELP["pack verify"])
def verify_pack(
    path: PackPath,
    manifest: Manifest = None,
    integrity: Integrity = None,
    public_key: PublicKey = None,
    json: AsJson = False,
) -> None:
    from assay.cli.admin import pack

    raise typer.Exit(
        pack.verify(
            path=path, manifest=manifest, integrity=integrity, public_keys=public_key or [], json=json
        )
    )


@pack.command("install", help=HELP["pack install"])
def install(
    path: PackPath,
    manifest: Manifest = None,
    integrity: Integrity = None,
    public_key: PublicKey = None,
    tenant: PackTenant = "local",
    json: AsJson = False,
) -> None:
    from assay.cli.admin import pack

    pack.install(
        path=path,
        manifest=manifest,
        integrity=integrity,
        public_keys=public_key or [],
        tenant=tenant,
        json=json,
    )


@pack.command("list", help=HELP["pack list"])
def list_packs(tenant: PackTenant = "local", json: AsJson = False) -> None:
    from assay.cli.admin import pack

    pack.list_packs(tenant=tenant, json=json)


@pack.command("show", help=HELP["pack show"])
def show_pack(ref: PackRef, tenant: PackTenant = "local", json: AsJson = False) -> None:
    from assay.cli.admin import pack

    pack.show_pack(ref=ref, tenant=tenant, json=json)


@pack.command("remove", help=HELP["pack remove"])
def remove(ref: PackRef, tenant: PackTenant = "local") -> None:
    from assay.cli.admin import pack

    pack.remove(ref=ref, tenant=tenant)


# Declares the options of `assay providers`.

providers = typer.Typer(cls=Group, rich_markup_mode=None, no_args_is_help=True, add_completion=False)


@providers.command("list", help=HELP["providers list"])
def list_providers(json: AsJson = False) -> None:
    from assay.cli.admin import providers

    providers.list_providers(json=json)


@providers.command("check", help=HELP["providers check"])
def check(json: AsJson = False) -> None:
    from assay.cli.admin import providers

    providers.check(json=json)


# Declares the options of `assay admin rekey`.


def rekey(
    clear: Annotated[
        bool, typer.Option("--clear", help="Decrypt everything instead; then no key is needed.")
    ] = False,
    json: AsJson = False,
) -> None:
    from assay.cli.admin import key

    key.rekey(clear=clear, json=json)


# Declares the options of `assay admin migrate`.


def migrate(json: AsJson = False) -> None:
    from assay.cli.admin import migrate

    migrate.main(json=json)


# Declares the options of `assay schema`.


def schema(
    name: Annotated[
        list[str] | None,
        typer.Argument(help="A type, such as TestCaseResult, or a verb, such as compare.", metavar="NAME..."),
    ] = None,
) -> None:
    from assay.cli.admin import key

    key.print_schema(name=" ".join(name or ()))
