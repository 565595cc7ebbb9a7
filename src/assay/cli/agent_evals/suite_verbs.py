"""Declares the options of `assay suite`."""

from typing import Annotated

import typer

from assay.cli.console.help import HELP
from assay.cli.console.options import AsJson, Group

NewSuite = Annotated[
    str | None,
    typer.Option(
        "-o", "--output", help="New .yaml or .json file. Default: YAML on standard output.", metavar="F"
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the file of -o.")]
MostTasks = Annotated[int | None, typer.Option(help="At most this many tasks.", metavar="N", min=1)]
suite = typer.Typer(cls=Group, rich_markup_mode=None, no_args_is_help=True, add_completion=False)


@suite.command("show", help=HELP["suite show"])
def show(
    file: Annotated[str, typer.Argument(help="Suite file, .yaml or .json.", metavar="F")],
    json: AsJson = False,
) -> None:
    from assay.cli.agent_evals import suite

    suite.show(file=file, json=json)


@suite.command("attack", help=HELP["suite attack"])
def attack(
    source: Annotated[
        str,
        typer.Argument(
            help="Suite with ordinary tasks, .yaml or .json, or an agent such as module:function.",
            metavar="SUITE|AGENT",
        ),
    ],
    agent: Annotated[
        str | None, typer.Option(help="Agent of the SUITE, for its tools and its memory.", metavar="WHAT")
    ] = None,
    output: NewSuite = None,
    force: Force = False,
    kinds: Annotated[
        list[str] | None,
        typer.Option(help="Kinds of attacks, separated by commas (repeatable). Default: all.", metavar="K"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the choice of places and tasks.", metavar="N")] = 0,
    limit: MostTasks = None,
    judge: Annotated[
        bool,
        typer.Option("--judge", help="Also write attacks of the kind jailbreak, which only a judge can see."),
    ] = False,
) -> None:
    from assay.cli.agent_evals import suite_attack

    suite_attack.attack(
        source=source,
        agent=agent,
        output=output,
        force=force,
        kinds=kinds or [],
        seed=seed,
        limit=limit,
        judge=judge,
    )


@suite.command("from-traces", help=HELP["suite from-traces"])
def from_traces(
    files: Annotated[
        list[str],
        typer.Argument(help="OTLP files of traces: .json, .jsonl or .pb, also .gz.", metavar="F..."),
    ],
    run: Annotated[
        str | None,
        typer.Option(help="Evaluation of these traces, a run or a file of results.", metavar="RUN"),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Which traces: failing, those that did not pass in --run; tag:NAME; or an id (repeatable).",
            metavar="WHICH",
        ),
    ] = None,
    limit: MostTasks = None,
    output: NewSuite = None,
    force: Force = False,
    id: Annotated[
        str | None,
        typer.Option(
            "--id", help="Id of the suite. Default: local.traces.evals.NAME, from the file.", metavar="ID"
        ),
    ] = None,
) -> None:
    from assay.cli.agent_evals import suite_from_traces

    suite_from_traces.from_traces(
        files=files, output=output, force=force, only=only or [], run=run, name=id, limit=limit
    )
