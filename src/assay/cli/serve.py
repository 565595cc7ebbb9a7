"""`assay serve`: evaluations over HTTP and gRPC, kept and survivable (FEP 5.1, 5.2)."""

from enum import StrEnum
from typing import Annotated

import typer

HELP = """Serve evaluations over HTTP and gRPC, to this machine alone unless --host says otherwise.

\b
    assay serve
    curl -H "X-API-Key: $(cat .assay/local-key)" -H "Content-Type: application/json" \\
         -d @request.json http://127.0.0.1:8321/v1/evaluate

Runs are kept in ASSAY_DATABASE_URL, else in assay.db in ASSAY_HOME; one that was cut off goes on at the next start.
The routes are described at /v1/docs and /v1/openapi.json. It ends on Ctrl-C or SIGTERM, when what is under way has
ended or been put aside.
"""


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
        int, typer.Option(help="Where REST listens; 0 takes any that is free.", metavar="N", min=0, max=65535)
    ] = 8321,
    grpc_port: Annotated[
        int | None,
        typer.Option(
            help="Where gRPC listens; 0 takes any that is free. [default: the setting grpc_port, 8322; with --port 0, any]",
            metavar="N",
            min=0,
            max=65535,
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address it listens at. Other than loopback it wants TLS.", metavar="H")
    ] = "127.0.0.1",
    tls_cert: Annotated[
        str | None, typer.Option(help="The server's certificate and its chain, PEM.", metavar="F")
    ] = None,
    tls_key: Annotated[str | None, typer.Option(help="Its private key, PEM.", metavar="F")] = None,
    tls_client_ca: Annotated[
        str | None, typer.Option(help="Clients need a certificate that one in this file signed.", metavar="F")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen on a network without TLS: something in front has it.")
    ] = False,
    log_format: Annotated[LogFormat, typer.Option(help="How log lines look.")] = LogFormat.text,
    log_level: Annotated[
        LogLevel, typer.Option(help="From which level on; `info` has a line for every answer.")
    ] = LogLevel.warning,
    check_module: Annotated[
        list[str] | None,
        typer.Option(help="A check of your own, module:Class. Several may be given.", metavar="M"),
    ] = None,
) -> None:
    from assay.cli.serving import LogOptions, ServeOptions, run  # a lazy door: the help needs none of it

    asked = ServeOptions(host, port, grpc_port, insecure)
    logs = LogOptions(log_format.value, log_level.value)
    run(asked, check_module or [], logs, tls_cert=tls_cert, tls_key=tls_key, tls_client_ca=tls_client_ca)
