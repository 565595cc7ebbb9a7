"""Declares the options of `assay compare`."""

from typing import Annotated

import typer

from assay.cli.console.options import AsJson, KeyFile, Server, Tenant


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="The first run or result file, and those to compare with it: an id, a name, `latest`, "
            "`previous`, or a file.",
            metavar="A B...",
        ),
    ],
    metric: Annotated[
        str | None,
        typer.Option(
            help="What is compared: passed, score, cost_usd, judges_usd, latency_ms (or latency_ms:p95, :median), a "
            "check, or CHECK:MEMBER.",
            metavar="M",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Also compare each tag, check, criterion, or value of a column or path (repeatable).",
            metavar="PATH",
        ),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            help="A difference below this does not matter: the verdict may be `equivalent`.", metavar="X"
        ),
    ] = None,
    standardize_by: Annotated[
        str | None,
        typer.Option(
            help="Runs over different cases: weigh the slices by this member, tag or path as in A.",
            metavar="PATH",
        ),
    ] = None,
    metrics: Annotated[
        bool,
        typer.Option(
            "--metrics",
            help="Also compare every metric: passed, score, each check, cost and the p95 of the latency.",
        ),
    ] = False,
    regressed: Annotated[
        bool,
        typer.Option(
            "--regressed",
            help="Only the cases that got worse: input, expected, and both outputs and reasons.",
        ),
    ] = False,
    limit: Annotated[
        int, typer.Option(help="How many changed cases are listed.", metavar="N", min=0, max=1000)
    ] = 10,
    max_bytes: Annotated[
        int | None,
        typer.Option(
            help="With --regressed --json: at most N bytes. Longer texts are cut. Default: 20000.",
            metavar="N",
            min=2_000,
            max=10_000_000,
        ),
    ] = None,
    tenant: Tenant = None,
    json: AsJson = False,
) -> None:
    from assay.errors import UsageError

    if len(runs) < 2:
        raise UsageError("expected two runs or result files: assay compare before.jsonl after.jsonl")
    if max_bytes is not None and not (regressed and json):
        raise UsageError("--max-bytes: expected --regressed and --json beside it")
    from assay.comparison.sources import CompareOptions

    options = CompareOptions(
        metric=metric,
        by=tuple(by or ()),
        margin=margin,
        limit=limit,
        standardize_by=standardize_by,
        metrics=metrics,
    )
    if regressed:
        from assay.cli.compare.regressed import main as show_regressed

        show_regressed(runs, options, max_bytes=max_bytes, tenant=tenant, json=json)
        return
    from assay.cli.compare.compare import main

    main(runs, options, tenant=tenant, json=json)


# Declares the options of `assay gate`.


def gate(
    run: Annotated[
        str,
        typer.Argument(
            help="The run: its id, the beginning of it, its name, `latest`, or a result file.", metavar="RUN"
        ),
    ],
    baseline: Annotated[
        str | None, typer.Option(help="Run or result file that RUN must not regress from.", metavar="RUN")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="File with the rules, .yaml or .json.", metavar="F")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="How to take a drop that may be chance: strict, balanced (default) or lenient.", metavar="P"
        ),
    ] = None,
    min_mean: Annotated[
        float | None, typer.Option(help="Lowest mean of the metric that is good enough.", metavar="X")
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            help="A difference below this does not matter; see `assay compare`.", metavar="X", min=0
        ),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="What decides; see `assay compare`.", metavar="M")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help="Also decide by each slice, as `assay compare` (repeatable).", metavar="PATH"),
    ] = None,
    max_unmeasured: Annotated[
        int | None, typer.Option(help="How many cases may be unmeasured. Default: 0.", metavar="N", min=0)
    ] = None,
    markdown: Annotated[
        str | None, typer.Option(help="File for a report in Markdown, for a pull request.", metavar="F")
    ] = None,
    junit: Annotated[str | None, typer.Option(help="File for JUnit XML.", metavar="F")] = None,
    sarif: Annotated[
        str | None, typer.Option(help="File for the safety findings as SARIF.", metavar="F")
    ] = None,
    allow_partial: Annotated[
        bool,
        typer.Option(
            "--allow-partial", help="Decide on a run that is not complete, or does not say whether it is."
        ),
    ] = False,
    tenant: Tenant = None,
    json: AsJson = False,
) -> None:
    from assay.cli.compare.gate import GateOptions, main

    options = GateOptions(
        run=run,
        baseline=baseline,
        policy=policy,
        preset=preset,
        allow_partial=allow_partial,
        min_mean=min_mean,
        margin=margin,
        metric=metric,
        by=tuple(by or ()),
        max_unmeasured=max_unmeasured,
        markdown=markdown,
        junit=junit,
        sarif=sarif,
        tenant=tenant,
        json=json,
    )
    raise typer.Exit(main(options))


# Declares the options of `assay history`.


def history(
    suite: Annotated[
        str,
        typer.Argument(
            help="The suite: its id, or a file; or the name of an experiment or a project of traces.",
            metavar="SUITE",
        ),
    ],
    agent: Annotated[str | None, typer.Option(help="Only runs of this agent.", metavar="ID")] = None,
    limit: Annotated[int, typer.Option(help="At most N runs.", metavar="N", min=1, max=1000)] = 20,
    tenant: Tenant = None,
    json: AsJson = False,
    server: Server = None,
    key_file: KeyFile = None,
) -> None:
    from assay.cli.compare import history

    history.main(
        suite=suite, agent=agent, limit=limit, tenant=tenant, json=json, server=server, key_file=key_file
    )


# Declares the options of `assay report`.


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="The runs: an id, a name, `latest`, `previous`, or a result file. The first is the baseline.",
            metavar="RUN",
        ),
    ],
    output: Annotated[str, typer.Option("-o", "--output", help="File to write: .html or .md.", metavar="F")],
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Slices by tag, check, criterion, or value of a column or path (repeatable). Default: tag.",
            metavar="PATH",
            show_default=False,
        ),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Leave out ids, inputs, outputs, reasons and tags.")
    ] = False,
    limit: Annotated[
        int,
        typer.Option(
            help="At most N cases of a run, failures first. Default: 1000.",
            metavar="N",
            min=1,
            max=20_000,
            show_default=False,
        ),
    ] = 1_000,
    tenant: Tenant = None,
) -> None:
    from assay.api.report import ReportRequest
    from assay.cli.compare.report import main

    main(ReportRequest(tuple(runs), output, tenant, redact=redact, limit=limit, by=tuple(by or ())))


# Declares the options of `assay watch`.


def watch(
    name: Annotated[str, typer.Argument(help="The project: NAME of `[traces.NAME]`.", metavar="NAME")],
    windows: Annotated[
        int, typer.Option(help="How many windows are shown.", metavar="N", min=1, max=100)
    ] = 8,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Run or result file to compare with. Default: the complete window before.", metavar="RUN"
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="strict, balanced, lenient, or a file with the rules of `assay gate`.", metavar="P"
        ),
    ] = None,
    tenant: Tenant = None,
    json: AsJson = False,
    server: Server = None,
    key_file: KeyFile = None,
) -> None:
    from assay.api.watch import WatchOptions
    from assay.cli.compare.watch import main

    options = WatchOptions(project=name, windows=windows, baseline=baseline, policy=policy, tenant=tenant)
    raise typer.Exit(main(options, json=json, server=server, key_file=key_file))
