"""Declares the options of `assay view`."""

from typing import Annotated

import typer

from assay.cli.options import KeyFile


def view(
    run: Annotated[
        str | None,
        typer.Argument(
            help="The run's id, the beginning of it, or `latest`. Default: the list of runs.", metavar="RUN"
        ),
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="Open the page of this running server.", metavar="URL")
    ] = None,
    key_file: KeyFile = None,
    port: Annotated[
        int, typer.Option(help="Port of the local server; 0 takes a free one.", metavar="N", min=0, max=65535)
    ] = 0,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address and open no browser. The address works once.")
    ] = False,
    tenant: Annotated[
        str | None, typer.Option(help="Tenant of the local store to show. Default: local.", metavar="T")
    ] = None,
) -> None:
    from assay.cli.view import ViewOptions, main

    main(ViewOptions(run, port, tenant, no_open=no_open), server=server, key_file=key_file)
