"""Declares the options of `assay deploy list`."""

from typing import Annotated

import typer

from assay.cli.console.options import AsJson, KeyFile, Server


def deployments(
    agent: Annotated[
        str | None,
        typer.Argument(help="Only this agent, also versions that were never promoted.", metavar="AGENT"),
    ] = None,
    json: AsJson = False,
    server: Server = None,
    key_file: KeyFile = None,
) -> None:
    from assay.cli.approvals import promotion

    target = promotion.Target(server=server, key_file=key_file)
    promotion.deployments(agent=agent, target=target, json=json)


# Declares the options of `assay deploy promote`.


def promote(
    subject: Annotated[str, typer.Argument(help="The agent and its version.", metavar="AGENT@VERSION")],
    to: Annotated[
        str,
        typer.Option(help="The next state: test, staged, active, paused or deprecated.", metavar="STATE"),
    ],
    eval_run: Annotated[
        str | None,
        typer.Option(
            "--eval", help="The eval run that is the evidence: its id, its name, or `latest`.", metavar="RUN"
        ),
    ] = None,
    channel: Annotated[
        str | None, typer.Option(help="Channel that gets the version: stable or canary.", metavar="C")
    ] = None,
    canary: Annotated[
        int | None,
        typer.Option(help="Percentage of runs that the version gets.", metavar="P", min=0, max=100),
    ] = None,
    json: AsJson = False,
    server: Server = None,
    key_file: KeyFile = None,
) -> None:
    from assay.cli.approvals import promotion

    promotion.promote(
        subject=subject,
        to=to,
        eval_run=eval_run,
        channel=channel,
        canary=canary,
        target=promotion.Target(server=server, key_file=key_file),
        json=json,
    )


# Declares the options of `assay respond`.


def respond(
    run: Annotated[str, typer.Argument(help="Id of the run that waits, or `latest`.", metavar="RUN")],
    accept: Annotated[bool, typer.Option("--accept", help="Approve and continue.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="Reject; the run ends.")] = False,
    answer: Annotated[
        str | None,
        typer.Option(help="Answer to a question: a text, or @FILE with JSON or YAML.", metavar="T"),
    ] = None,
    json: AsJson = False,
) -> None:
    from assay.cli.approvals import verify

    verify.respond(run=run, accept=accept, reject=reject, answer=answer, json=json)


# Declares the options of `assay deploy rollback`.


def rollback(
    subject: Annotated[
        str,
        typer.Argument(help="AGENT@VERSION, or AGENT: its active version.", metavar="AGENT"),
    ],
    reason: Annotated[str | None, typer.Option(help="The reason, for the log.", metavar="TEXT")] = None,
    json: AsJson = False,
    server: Server = None,
    key_file: KeyFile = None,
) -> None:
    from assay.cli.approvals import promotion

    target = promotion.Target(server=server, key_file=key_file)
    promotion.rollback(subject=subject, reason=reason, target=target, json=json)


# Declares the options of `assay verify`.


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
        bool,
        typer.Option(
            "--gating/--no-gating", help="Whether verdicts of the critics decide, or are only recorded."
        ),
    ] = True,
    on_fail: Annotated[
        str, typer.Option(help="After a `fail` verdict: escalate, retry or give-up.", metavar="WHAT")
    ] = "escalate",
    resume: Annotated[str | None, typer.Option(help="Continue an interrupted run.", metavar="RUN")] = None,
    json: AsJson = False,
) -> None:
    from assay.cli.approvals.verify import VerifyOptions, main

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
