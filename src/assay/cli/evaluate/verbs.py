"""Declares the options of `assay evaluate` and `assay import`."""

from typing import Annotated

import typer

from assay.cli.console.options import (
    AllowErrors,
    AsJson,
    Batch,
    BatchHours,
    CheckModules,
    MinPassRate,
    ResultFiles,
    RunName,
    RunTags,
    SendTo,
    SlicesBy,
    Verbose,
)


def evaluate(
    request: Annotated[
        str | None,
        typer.Argument(
            help="Table or JSON lines, a case with its output per row; or one document.", metavar="FILE"
        ),
    ] = None,
    contexts: Annotated[
        str | None, typer.Option(help="File with one test case and its output per line.", metavar="F")
    ] = None,
    cases: Annotated[
        str | None, typer.Option(help="File with test cases; needs --outputs or --agent.", metavar="F")
    ] = None,
    outputs: Annotated[
        str | None, typer.Option(help="File with one output for each case of --cases.", metavar="F")
    ] = None,
    traces: Annotated[
        list[str] | None,
        typer.Option(
            help="Traces: an OTLP file (.json, .jsonl, .pb, .gz), a folder or 'a*.jsonl'; given twice, two windows to "
            "compare.",
            metavar="F",
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            help="Agent that answers the cases, such as module:function; see `assay run`.", metavar="WHAT"
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option(help="How often --agent is called for each case.", metavar="N", min=1, max=100)
    ] = 1,
    k: Annotated[
        list[str] | None,
        typer.Option(
            help="Show pass@k (one of k trials passes) and pass^k (all k pass) for these k, such as 1,3 (repeatable).",
            metavar="K",
        ),
    ] = None,
    map: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of a table: input=question; also output, expected, tags, id, metadata.NAME (repeatable). "
            "preset=NAME: the columns of another tool, such as ragas.",
            metavar="TARGET=COLUMN",
        ),
    ] = None,
    checks: Annotated[
        str | None, typer.Option(help="File with one list of checks, or one list per case.", metavar="F")
    ] = None,
    output: ResultFiles = None,
    check_module: CheckModules = None,
    by: SlicesBy = None,
    min_pass_rate: MinPassRate = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="Run or result file to compare with; see `assay compare`.", metavar="RUN"),
    ] = None,
    standardize_by: Annotated[
        str | None,
        typer.Option(
            help="Compare runs over different cases with the mix of slices by PATH that the first has.",
            metavar="PATH",
        ),
    ] = None,
    allow_errors: AllowErrors = False,
    no_resolved_arguments: Annotated[
        bool,
        typer.Option("--no-resolved-arguments", help="Leave the arguments of the checks out of the results."),
    ] = False,
    timings: Annotated[
        bool, typer.Option("--timings", help="Add the time of every check to the results.")
    ] = False,
    skip_bad_lines: Annotated[
        bool, typer.Option("--skip-bad-lines", help="Count and report invalid lines, and continue.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="`failing`: only the cases that did not pass in the latest stored run of this input; failing:RUN, in "
            "that run or file; or the id of a case (repeatable).",
            metavar="WHICH",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Evaluate only the first N cases.", metavar="N", min=1)
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="`decided`: run cases in random order until --baseline or --min-pass-rate is decided, and stop.",
            metavar="WHEN",
        ),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            help="Difference to --baseline that does not matter; --until stops when it is smaller.",
            metavar="M",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Number that the random order of --until depends on.", metavar="N", min=0)
    ] = 0,
    experiment: Annotated[
        str | None, typer.Option(help="Name of the experiment that the run belongs to.", metavar="NAME")
    ] = None,
    name: RunName = None,
    tag: RunTags = None,
    concurrency: Annotated[
        int | None,
        typer.Option(help="How many judges or agents are called at the same time.", metavar="N", min=1),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            help="Time limit in seconds for a check, and for --agent on a case.", metavar="S", min=0.001
        ),
    ] = None,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Stop at the first check that has an error.")
    ] = False,
    max_cost: Annotated[
        float | None,
        typer.Option(help="Start no more cases once judges and --agent have cost this much.", metavar="USD"),
    ] = None,
    cache: Annotated[
        bool,
        typer.Option("--cache", help="Store answers of judges and embeddings, and use them again."),
    ] = False,
    batch: Batch = False,
    batch_hours: BatchHours = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Number of processes for an uncompressed .jsonl of --contexts; default: all cores for a long run.",
            metavar="N",
            min=1,
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue the .jsonl file of an interrupted run; keep the results in it.",
        ),
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(
            help="Evaluate the I-th of N parts of a .jsonl or .parquet file; see `assay merge`.",
            metavar="I/N",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="`dask`: score the files of --contexts, such as 's3://b/*.parquet', on a cluster; -o is a folder.",
            metavar="ENGINE",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Address of the scheduler of --cluster; default: a cluster of this machine.",
            metavar="ADDRESS",
        ),
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Store the run, for `assay list`, `show` and `export`.")
    ] = False,
    to: SendTo = None,
    verbose: Verbose = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON instead of a table.")
    ] = False,
) -> None:
    from assay.cli.console.only import read_only
    from assay.cli.evaluate.evaluate import main
    from assay.cli.evaluate.evaluate_options import EvaluateOptions
    from assay.cli.render.repeats import read_ks
    from assay.inputs.portions import read_portion

    options = EvaluateOptions(
        request=request,
        contexts=contexts,
        cases=cases,
        outputs=outputs,
        traces=traces or [],
        agent=agent,
        trials=trials,
        ks=read_ks(k or []),
        columns=map or [],
        checks=checks,
        to=output or [],
        modules=check_module or [],
        by=by or [],
        bars=min_pass_rate or [],
        baseline=baseline,
        standardize_by=standardize_by,
        allow_errors=allow_errors,
        resolved_arguments=not no_resolved_arguments,
        timings=timings,
        skip_bad_lines=skip_bad_lines,
        limit=limit,
        only=read_only(only or []),
        until=until,
        margin=margin,
        seed=seed,
        experiment=experiment,
        name=name,
        own_tags=tag or [],
        concurrency=concurrency,
        timeout=timeout,
        fail_fast=fail_fast,
        max_cost=max_cost,
        cache=cache,
        batch=batch,
        batch_hours=batch_hours,
        jobs=jobs,
        resume=resume,
        shard=None if shard is None else read_portion(shard),
        cluster=cluster,
        scheduler=scheduler,
        save=save or name is not None or bool(to or tag),
        send=to or [],
        verbose=verbose,
        json=json,
    )
    if options.cluster or options.scheduler:
        from assay.cli.evaluate.cluster import main as run_on_cluster

        raise typer.Exit(run_on_cluster(options))
    if len(options.traces) > 1:
        from assay.cli.evaluate.compare_windows import compare_windows

        raise typer.Exit(compare_windows(options))
    raise typer.Exit(main(options))


# Declares the options of `assay try`.


def try_(
    check: Annotated[
        str,
        typer.Argument(
            help="A check, such as 'contains: [Paris]', the name of one, or a file of checks.",
            metavar="CHECK",
        ),
    ],
    case: Annotated[
        str | None,
        typer.Option(
            help="File with the case and its output, .json or .yaml; - is standard input.", metavar="F"
        ),
    ] = None,
    input: Annotated[str | None, typer.Option(help="The input of the case.", metavar="TEXT")] = None,
    output: Annotated[
        str | None,
        typer.Option(
            help="The output that the check looks at, a text; --case has other values.", metavar="TEXT"
        ),
    ] = None,
    expected: Annotated[
        str | None,
        typer.Option(help="The expected value; a check that is only named compares with it.", metavar="TEXT"),
    ] = None,
    check_module: CheckModules = None,
    json: AsJson = False,
) -> None:
    from assay.cli.evaluate.try_check import TryOptions, main

    options = TryOptions(
        check=check,
        case=case,
        input=input,
        output=output,
        expected=expected,
        modules=check_module or [],
        json=json,
    )
    raise typer.Exit(main(options))


# Declares the options of `assay import`.


def import_(
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Files of another tool, or a folder with a configuration.", metavar="F..."),
    ] = None,
    tool: Annotated[
        str | None,
        typer.Option("--from", help="The tool, if the files do not say it: see --list.", metavar="NAME"),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", help="Folder to write, new or empty. Default: imported.", metavar="DIR"
        ),
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Also score the recorded outputs, and store a run per system.")
    ] = False,
    name: RunName = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 when something was not carried.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the formats that are known.")] = False,
) -> None:
    from assay.cli.evaluate import import_files

    if list_:
        import_files.list_formats()
        return
    code = import_files.import_files(
        files or [], tool=tool, output=output, save=save or name is not None, name=name, strict=strict
    )
    raise typer.Exit(code)


# Declares the options of `assay validate`.


def validate(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Suites, checks, cases, requests, policies, packs (a folder or .tgz), settings (.toml).",
            metavar="F...",
        ),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="What the files are: suite, checks, cases, request, policy, pack or settings. Default: as they look.",
            metavar="KIND",
        ),
    ] = None,
    check_module: CheckModules = None,
    json: AsJson = False,
) -> None:
    from assay.cli.evaluate.validate import KINDS, main
    from assay.errors import UsageError

    if kind is not None and kind not in KINDS:
        raise UsageError(f"--as {kind[:100]}: expected one of {', '.join(KINDS)}")
    raise typer.Exit(main(files=files, kind=kind, modules=check_module or [], json=json))
