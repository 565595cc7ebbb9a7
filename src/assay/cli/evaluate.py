"""`assay evaluate`: files in, results out, a table at the end (FEP 3.1)."""

from typing import Annotated

import typer

HELP = """Put outputs to checks.

    assay evaluate --contexts answers.jsonl --checks checks.yaml -o results.jsonl

Give a REQUEST file that holds everything; or --contexts, one {"test_case":…,"output":…} a line; or --cases and
--outputs side by side. Files are JSON, JSONL, YAML or CSV by extension, .gz too; '-' is standard input.

Exit codes: 0 everything measured, and the bar cleared if one was given; 3 measured, and below --min-pass-rate;
1 something was not measured, or the run was empty or broken; 2 wrong usage.
"""


def evaluate(
    request: Annotated[
        str | None, typer.Argument(help="A request: test_cases, outputs, checks.", metavar="[REQUEST]")
    ] = None,
    contexts: Annotated[
        str | None, typer.Option(help="Test cases with their outputs, one context a line.", metavar="F")
    ] = None,
    cases: Annotated[str | None, typer.Option(help="Test cases, beside --outputs.", metavar="F")] = None,
    outputs: Annotated[
        str | None, typer.Option(help="Outputs, one for each of --cases.", metavar="F")
    ] = None,
    checks: Annotated[
        str | None, typer.Option(help="Checks for all cases, or one list a case.", metavar="F")
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--output",
            help="Where results go: .jsonl, .json or .csv; '-' is JSONL to standard output. Several may be given.",
            metavar="F",
        ),
    ] = None,
    check_module: Annotated[
        list[str] | None,
        typer.Option(help="A check of your own, module:Class. Several may be given.", metavar="M"),
    ] = None,
    min_pass_rate: Annotated[
        float | None,
        typer.Option(
            help="The bar: of all answers that passed or failed, the share that must have passed, from 0 to 1.",
            metavar="X",
        ),
    ] = None,
    allow_errors: Annotated[
        bool, typer.Option("--allow-errors", help="Do not fail because something was not measured.")
    ] = False,
    no_resolved_arguments: Annotated[
        bool, typer.Option("--no-resolved-arguments", help="Leave what the checks saw out of the results.")
    ] = False,
    timings: Annotated[bool, typer.Option("--timings", help="Say of every check how long it took.")] = False,
    skip_bad_lines: Annotated[
        bool, typer.Option("--skip-bad-lines", help="Count and list what is no context, and go on.")
    ] = False,
    limit: Annotated[int | None, typer.Option(help="Only the first N cases.", metavar="N", min=1)] = None,
    experiment: Annotated[
        str | None, typer.Option(help="The experiment this run belongs to.", metavar="NAME")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Checks that wait at the same time.", metavar="N", min=1)
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds a check may take.", metavar="S", min=0.001)
    ] = None,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Stop at the first check that errs.")
    ] = False,
    max_cost: Annotated[
        float | None,
        typer.Option(help="US dollars that judges may cost; then no further case is begun.", metavar="USD"),
    ] = None,
    cache: Annotated[
        bool,
        typer.Option("--cache", help="Keep what judges and embeddings answer, and do not ask for it again."),
    ] = False,
    jobs: Annotated[
        int,
        typer.Option(
            help="Processes; a plain .jsonl given with --contexts is shared out by byte range.",
            metavar="N",
            min=1,
        ),
    ] = 1,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the .jsonl of a run that was ended, without evaluating again what it holds.",
        ),
    ] = False,
    save: Annotated[
        bool, typer.Option("--save", help="Keep the run in the store, for `assay list`, `show` and `export`.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="The summary as JSON instead of a table.")] = False,
) -> None:
    from assay.cli.asked import EvaluateOptions
    from assay.cli.evaluating import carry_out  # a lazy door: the help needs none of it

    code = carry_out(
        EvaluateOptions(
            request=request,
            contexts=contexts,
            cases=cases,
            outputs=outputs,
            checks=checks,
            to=output or [],
            modules=check_module or [],
            bar=min_pass_rate,
            allow_errors=allow_errors,
            resolved_arguments=not no_resolved_arguments,
            timings=timings,
            skip_bad_lines=skip_bad_lines,
            limit=limit,
            experiment=experiment,
            concurrency=concurrency,
            timeout=timeout,
            fail_fast=fail_fast,
            max_cost=max_cost,
            cache=cache,
            jobs=jobs,
            resume=resume,
            save=save,
            json=json,
        )
    )
    raise typer.Exit(code)
