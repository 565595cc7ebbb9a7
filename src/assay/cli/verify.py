"""`assay verify` and `assay respond`: work that counts only when a critic passes it, and a person's word where one is needed."""

from typing import Annotated

import typer

VERIFY = (
    "Let an actor work on a task until its critics pass what it made. Exit 0: goal reached, 3: not, 1: broke."
)
RESPOND = "Answer a run that waits for a person, and go on with it. Exit codes as for verify."

AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


def verify(
    workflow: Annotated[
        str | None, typer.Argument(help="A workflow of assay.toml, by its id.", metavar="[WORKFLOW]")
    ] = None,
    task: Annotated[
        str, typer.Option(help="What is to be done: a text, or @FILE with JSON or YAML.", metavar="T")
    ] = "",
    actor: Annotated[
        str | None, typer.Option(help="Who does it: an agent's id, module:function, cmd:…", metavar="A")
    ] = None,
    critic: Annotated[
        list[str] | None, typer.Option(help="Who says whether it is good; several may be given.", metavar="C")
    ] = None,
    criterion: Annotated[
        list[str] | None, typer.Option(help="A key that critics are given; several may be.", metavar="KEY")
    ] = None,
    checks: Annotated[
        str | None, typer.Option(help="A file with a check for every criterion, by its key.", metavar="F")
    ] = None,
    max_turns: Annotated[int, typer.Option(help="Turns the actor has.", metavar="N", min=1)] = 5,
    gating: Annotated[
        bool, typer.Option("--gating/--no-gating", help="Whether a verdict decides, or is only recorded.")
    ] = True,
    on_fail: Annotated[
        str, typer.Option(help="After a fail: escalate, retry or give-up.", metavar="WHAT")
    ] = "escalate",
    resume: Annotated[
        str | None, typer.Option(help="Go on with a run that was cut off, by its id.", metavar="RUN")
    ] = None,
    json: AsJson = False,
) -> None:
    from assay.cli import verifying  # a lazy door: the help needs none of it

    asked = verifying.VerifyOptions(
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
    raise typer.Exit(verifying.verify(asked))


def respond(
    run: Annotated[str, typer.Argument(help="The run that waits, by its id.", metavar="RUN")],
    accept: Annotated[bool, typer.Option("--accept", help="Yes.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="No.")] = False,
    answer: Annotated[
        str | None, typer.Option(help="To a question: a text, or @FILE with JSON or YAML.", metavar="T")
    ] = None,
    json: AsJson = False,
) -> None:
    from assay.cli import verifying  # a lazy door

    raise typer.Exit(verifying.respond(run, accept=accept, reject=reject, answer=answer, json=json))
