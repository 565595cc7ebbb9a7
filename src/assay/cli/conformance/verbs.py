"""Declares the options of `assay conform`."""

from typing import Annotated

import typer

from assay.cli.console.options import AsJson


def conform(
    url: Annotated[
        str | None,
        typer.Argument(help="Address of the host, such as http://127.0.0.1:8321.", metavar="URL"),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="API key for the host, or @FILE with the key. Default: the variable ASSAY_API_KEY.",
            metavar="K",
        ),
    ] = None,
    other_key: Annotated[
        str | None,
        typer.Option(
            help="Key of another tenant, or @FILE: checks what one tenant sees of another.", metavar="K"
        ),
    ] = None,
    reader_key: Annotated[
        str | None,
        typer.Option(
            help="Key of this tenant with the scope runs:read alone, or @FILE: checks what a key may not do.",
            metavar="K",
        ),
    ] = None,
    approver_key: Annotated[
        str | None,
        typer.Option(
            help="Key of an approver of this tenant, or @FILE: answers approvals of promotions. Default: --key.",
            metavar="K",
        ),
    ] = None,
    replica: Annotated[
        list[str] | None,
        typer.Option(
            help="Another address of the same host: checks that all addresses show the same (repeatable).",
            metavar="URL",
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(help="Id of an agent of the host, for the checks of OpenWOP.", metavar="A"),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            help="Suite of the host for this agent, SUITE@VERSION. Default: those of conformance/openwop.",
            metavar="S",
        ),
    ] = None,
    grpc: Annotated[
        str | None,
        typer.Option(
            help="Address of the host for gRPC, HOST:PORT, or grpcs://HOST:PORT with TLS. Without URL, it alone.",
            metavar="A",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this check, or the checks whose names begin so: fep.regex (repeatable).",
            metavar="CHECK",
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="A check that could not be tried counts as failed, and a run where none passed too.",
        ),
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the checks and stop.")] = False,
    explain: Annotated[
        str | None,
        typer.Option(
            help="Print the rule of a check, what is sent and what must come, and stop.", metavar="CHECK"
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            help="Check a document and stop: a suite, a scorecard, events, pack.json or a result (repeatable).",
            metavar="F",
        ),
    ] = None,
    markdown: Annotated[str | None, typer.Option(help="File for a report as Markdown.", metavar="F")] = None,
    junit: Annotated[str | None, typer.Option(help="File for JUnit XML.", metavar="F")] = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Also print what passed.")] = False,
    rate: Annotated[
        float, typer.Option(help="Requests a second, at most.", metavar="N", min=0.1, max=10_000)
    ] = 50.0,
    timeout: Annotated[
        float, typer.Option(help="Time limit in seconds for a request.", metavar="S", min=0.1, max=600)
    ] = 10.0,
    json: AsJson = False,
) -> None:
    from assay.cli.conformance.conform import ConformOptions, check_shapes, explain_check, list_checks, main

    if list_:
        list_checks(json=json)
    elif explain is not None:
        explain_check(explain)
    elif shape:
        raise typer.Exit(check_shapes(shape, json=json))
    else:
        code = main(
            ConformOptions(
                url=url,
                key=key,
                other_key=other_key,
                reader_key=reader_key,
                approver_key=approver_key,
                replica=tuple(replica or ()),
                agent=agent,
                suite=suite,
                grpc=grpc,
                only=tuple(only or ()),
                strict=strict,
                markdown=markdown,
                junit=junit,
                verbose=verbose,
                rate=rate,
                timeout=timeout,
                json=json,
            )
        )
        raise typer.Exit(code)
