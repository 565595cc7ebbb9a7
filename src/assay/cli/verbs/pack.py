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
