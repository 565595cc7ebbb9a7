"""Declares the options of `assay view`."""

from typing import Annotated

import typer

from assay.cli.options import KeyFile


def view(
    run: Annotated[
        str | None,
        typer.Argument(
            help="The run's id, the beginning of it, or `latest`. Default: the list.", metavar="RUN"
        ),
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="The page of a running server, instead of an own one.", metavar="URL")
    ] = None,
    key_file: KeyFile = None,
    port: Annotated[
        int, typer.Option(help="Port of the own server; 0 takes a free one.", metavar="N", min=0, max=65535)
    ] = 0,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address and open no browser. It works once.")
    ] = False,
    tenant: Annotated[
        str | None, typer.Option(help="The tenant to show, of the own store. Default: local.", metavar="T")
    ] = None,
) -> None:
    from assay.cli.view import ViewOptions, main

    main(ViewOptions(run, port, tenant, no_open=no_open), server=server, key_file=key_file)
