"""Declares the options of `assay verify`."""

from typing import Annotated

import typer

from assay.cli.options import AsJson


def verify(
    workflow: Annotated[
        str | None, typer.Argument(help="Id of a workflow in assay.toml.", metavar="WORKFLOW")
    ] = None,
    task: Annotated[
        str, typer.Option(help="The task: a text, or @FILE with JSON or YAML.", metavar="T")
    ] = "",
    actor: Annotated[
        str | None,
        typer.Option(help="Agent that does the task: an id, module:function, cmd:…", metavar="A"),
    ] = None,
    critic: Annotated[
        list[str] | None, typer.Option(help="Agent that reviews the result (repeatable).", metavar="C")
    ] = None,
    criterion: Annotated[
        list[str] | None,
        typer.Option(help="Key of a criterion that the critics decide (repeatable).", metavar="KEY"),
    ] = None,
    checks: Annotated[
        str | None, typer.Option(help="File with one check per criterion, by its key.", metavar="F")
    ] = None,
    max_turns: Annotated[int, typer.Option(help="Turns that the actor has.", metavar="N", min=1)] = 5,
    gating: Annotated[
        bool, typer.Option("--gating/--no-gating", help="Whether verdicts decide, or are only recorded.")
    ] = True,
    on_fail: Annotated[
        str, typer.Option(help="After a `fail` verdict: escalate, retry or give-up.", metavar="WHAT")
    ] = "escalate",
    resume: Annotated[str | None, typer.Option(help="Continue an interrupted run.", metavar="RUN")] = None,
    json: AsJson = False,
) -> None:
    from assay.cli.verify import VerifyOptions, main

    options = VerifyOptions(
        workflow=workflow,
        task=task,
        actor=actor,
        critics=critic or [],
        criteria=criterion or [],
        checks=checks,
        max_turns=max_turns,
        gating=gating,
        on_fail=on_fail,
        resume=resume,
        json=json,
    )
    raise typer.Exit(main(options))
