"""Declares the options of `assay run`."""

from typing import Annotated

import typer

from assay.agenteval.planning.mode_names import MODE_NOTES
from assay.cli.options import CheckModules, KeyFile, any_of


def run(
    suite: Annotated[
        str | None,
        typer.Argument(
            help="Suite file, .yaml or .json; '-' is standard input. Or a suite of an installed pack.",
            metavar="SUITE",
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="Agent to run, such as module:function.", metavar="WHAT")
    ] = None,
    mode: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Any of {any_of(MODE_NOTES)} (repeatable). Default: the modes of the suite.",
            metavar="M",
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Run of this suite to compare with, or `latest`.", metavar="RUN")
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Compare with --baseline even if the suite changed and its version did not."
        ),
    ] = False,
    trials: Annotated[
        int, typer.Option(help="How often each task is tried.", metavar="K", min=1, max=100)
    ] = 1,
    model: Annotated[
        str | None, typer.Option(help="Model of a manifest agent, PROVIDER:MODEL.", metavar="NAME")
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            help="Model that judges rubrics and looks for jailbreaks, PROVIDER:MODEL.", metavar="NAME"
        ),
    ] = None,
    checks: Annotated[
        str | None,
        typer.Option(help="File with checks for every task, beside the scorecard.", metavar="F"),
    ] = None,
    check_module: CheckModules = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Policy of tool calls, .toml or .yaml, for adversarial. Default: [safety].", metavar="F"
        ),
    ] = None,
    max_attack_success: Annotated[
        float | None,
        typer.Option(help="Exit with 3 if the attack success rate is above this.", metavar="X", min=0, max=1),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="How many tasks run at the same time.", metavar="N", min=1)
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds that the agent has for a task.", metavar="S", min=0.001)
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(help="Complete a run that was interrupted or has unmeasured tasks.", metavar="RUN"),
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="Tag k=v, stored with the run (repeatable).", metavar="K=V")
    ] = None,
    any_agent: Annotated[
        bool, typer.Option("--any-agent", help="Accept a suite that was written for another agent.")
    ] = False,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--output",
            help="File to write: .json for the scorecard, .jsonl or .csv for the results (repeatable).",
            metavar="F",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the scorecard as JSON instead of a table.")
    ] = False,
    server: Annotated[
        str | None,
        typer.Option(help="Run it on another host; --agent is the id of an agent there.", metavar="URL"),
    ] = None,
    key_file: KeyFile = None,
) -> None:
    from assay.cli.run import main
    from assay.cli.run_progress import RunOptions

    options = RunOptions(
        suite=suite,
        agent=agent,
        modes=tuple(mode) if mode else None,
        baseline=baseline,
        force=force,
        trials=trials,
        model=model,
        judge=judge,
        checks=checks,
        modules=tuple(check_module or ()),
        policy=policy,
        max_attack_success=max_attack_success,
        concurrency=concurrency,
        timeout=timeout,
        resume=resume,
        tags=tuple(tag or ()),
        any_agent=any_agent,
        to=tuple(output or ()),
        json=json,
        server=server,
        key_file=key_file,
    )
    raise typer.Exit(main(options))
