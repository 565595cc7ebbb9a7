"""Declares the options of `assay pack`."""

from typing import Annotated

import typer

from assay.cli.help import HELP
from assay.cli.options import AsJson, Group

pack = typer.Typer(cls=Group, rich_markup_mode=None, no_args_is_help=True, add_completion=False)
PackPath = Annotated[str, typer.Argument(help="A .tgz file, or a folder with a pack.json.", metavar="PACK")]
Manifest = Annotated[
    str | None, typer.Option(help="Version manifest with the digest of the tarball.", metavar="F")
]
Integrity = Annotated[
    str | None, typer.Option(help="Digest of the tarball, sha256-BASE64.", metavar="DIGEST")
]
Tenant = Annotated[str, typer.Option(help="Tenant that has the pack.", metavar="T")]
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
    from assay.cli import pack

    pack.build(folder=folder, output=output, key=key, key_id=key_id, json=json)


@pack.command("verify", help=HELP["pack verify"])
def verify(
    path: PackPath,
    manifest: Manifest = None,
    integrity: Integrity = None,
    public_key: PublicKey = None,
    json: AsJson = False,
) -> None:
    from assay.cli import pack

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
    tenant: Tenant = "local",
    json: AsJson = False,
) -> None:
    from assay.cli import pack_store

    pack_store.install(
        path=path,
        manifest=manifest,
        integrity=integrity,
        public_keys=public_key or [],
        tenant=tenant,
        json=json,
    )


@pack.command("list", help=HELP["pack list"])
def list_(tenant: Tenant = "local", json: AsJson = False) -> None:
    from assay.cli import pack_store

    pack_store.list_packs(tenant=tenant, json=json)


@pack.command("show", help=HELP["pack show"])
def show(ref: PackRef, tenant: Tenant = "local", json: AsJson = False) -> None:
    from assay.cli import pack_store

    pack_store.show_pack(ref=ref, tenant=tenant, json=json)


@pack.command("remove", help=HELP["pack remove"])
def remove(ref: PackRef, tenant: Tenant = "local") -> None:
    from assay.cli import pack_store

    pack_store.remove(ref=ref, tenant=tenant)
