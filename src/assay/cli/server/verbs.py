"""Declares the options of `assay serve`."""

from enum import StrEnum
from typing import Annotated

import typer

from assay.cli.console.options import CheckModules, KeyFile


class LogFormat(StrEnum):
    text = "text"
    json = "json"


class LogLevel(StrEnum):
    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


def serve(
    port: Annotated[
        int, typer.Option(help="Port for HTTP; 0 takes a free one.", metavar="N", min=0, max=65535)
    ] = 8321,
    grpc_port: Annotated[
        int | None,
        typer.Option(
            help="Port for gRPC; 0 takes a free one. [default: the setting grpc_port, 8322; with --port 0, a free one]",
            metavar="N",
            min=0,
            max=65535,
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at. All but loopback addresses need TLS.", metavar="H")
    ] = "127.0.0.1",
    processes: Annotated[
        int | None,
        typer.Option(
            help="Server processes on the same ports. [default: the setting server_processes, 1]",
            metavar="N",
            min=1,
            max=256,
            show_default=False,
        ),
    ] = None,
    tls_cert: Annotated[
        str | None, typer.Option(help="Certificate of the server with its chain, PEM.", metavar="F")
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option(help="Private key of the certificate, PEM.", metavar="F")
    ] = None,
    tls_client_ca: Annotated[
        str | None,
        typer.Option(
            help="CA certificates, PEM; each client needs a certificate of one of them.", metavar="F"
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen on a network without TLS, behind a proxy that has it.")
    ] = False,
    log_format: Annotated[LogFormat, typer.Option(help="Format of log lines.")] = LogFormat.text,
    log_level: Annotated[
        LogLevel, typer.Option(help="Lowest level to log; `info` logs every response.")
    ] = LogLevel.warning,
    check_module: CheckModules = None,
) -> None:
    from assay.cli.server.serve import ServeOptions, main

    options = ServeOptions(host, port, grpc_port, insecure, check_module or [])
    chosen = {"tls_cert": tls_cert, "tls_key": tls_key, "tls_client_ca": tls_client_ca}
    main(options, log_format.value, log_level.value, server_processes=processes, **chosen)


# Declares the options of `assay view`.


def view(
    run: Annotated[
        str | None,
        typer.Argument(
            help="The run: its id, the beginning of it, its name, or `latest`. Default: the list of runs.",
            metavar="RUN",
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
    from assay.cli.server.view import ViewOptions, main

    main(ViewOptions(run, port, tenant, no_open=no_open), server=server, key_file=key_file)


# Declares the options of `assay worker`.


def worker(
    concurrency: Annotated[
        int | None,
        typer.Option(
            help="How many trials, parts and steps run at the same time. [default: the setting concurrency, 16]",
            metavar="N",
            min=1,
            show_default=False,
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the workers of the database, and exit.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
    log_format: Annotated[LogFormat, typer.Option(help="Format of log lines.")] = LogFormat.text,
    log_level: Annotated[LogLevel, typer.Option(help="Lowest level to log.")] = LogLevel.warning,
    check_module: CheckModules = None,
    host: Annotated[
        str, typer.Option(help="Address of the port. All but loopback addresses need TLS.", metavar="H")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            help="Port for /v1/live, /v1/ready and /metrics; 0 takes a free one. [default: none]",
            metavar="N",
            min=0,
            max=65535,
            show_default=False,
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen on a network without TLS, behind a proxy that has it.")
    ] = False,
) -> None:
    from assay.cli.server.worker import WorkerOptions, list_workers, main

    if list_ or json:
        list_workers(as_json=json)
        return
    options = WorkerOptions(host, port, insecure, check_module or [])
    main(options, log_format.value, log_level.value, concurrency=concurrency)
