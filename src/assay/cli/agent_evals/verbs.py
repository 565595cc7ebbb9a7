"""Declares the options of `assay annotate`."""

from typing import Annotated

import typer

from assay.agenteval.planning.mode_names import MODE_NOTES
from assay.cli.agent_evals.judge_verbs import judge as judge
from assay.cli.agent_evals.suite_verbs import suite as suite
from assay.cli.console.options import (
    RUN_HELP,
    Batch,
    BatchHours,
    CheckModules,
    KeyFile,
    RunName,
    RunTags,
    Server,
    any_of,
)


def annotate(
    run: Annotated[str, typer.Argument(help=RUN_HELP, metavar="RUN")],
    task: Annotated[
        str | None,
        typer.Option("--task", "--case", help="Task of an eval run, or case of an evaluation.", metavar="ID"),
    ] = None,
    event: Annotated[str | None, typer.Option(help="Event to annotate.", metavar="ID")] = None,
    score: Annotated[
        float | None, typer.Option(help="Correct the score, 0 to 1.", metavar="X", min=0, max=1)
    ] = None,
    passed: Annotated[bool, typer.Option("--passed", help="Correct the result: it passed.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Correct the result: it failed.")] = False,
    rating: Annotated[int | None, typer.Option(help="Rate it, 1 to 5.", metavar="N", min=1, max=5)] = None,
    label: Annotated[str | None, typer.Option(help="Add a label.", metavar="TEXT")] = None,
    flag: Annotated[bool, typer.Option("--flag", help="Flag it for review.")] = False,
    note: Annotated[str | None, typer.Option(help="Add the reason as a text.", metavar="TEXT")] = None,
    tenant: Annotated[str | None, typer.Option(help="Tenant of the run.", metavar="T")] = None,
    server: Server = None,
    key_file: KeyFile = None,
) -> None:
    from assay.cli.agent_evals import annotate

    annotate.main(
        run=run,
        task=task,
        event=event,
        score=score,
        passed=passed,
        failed=failed,
        rating=rating,
        label=label,
        flag=flag,
        note=note,
        tenant=tenant,
        server=server,
        key_file=key_file,
    )


# Declares the options of `assay init`.


def init(
    folder: Annotated[
        str,
        typer.Argument(help="Folder to write to. Default: this one.", metavar="FOLDER", show_default=False),
    ] = ".",
    table: Annotated[
        str | None,
        typer.Option(
            help="You have a table of answers; a .csv that is not there is written as an example.",
            metavar="F",
        ),
    ] = None,
    function: Annotated[
        str | None, typer.Option(help="You have a function, module:function.", metavar="NAME")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="You have an agent that does tasks, module:function.", metavar="NAME")
    ] = None,
    endpoint: Annotated[str | None, typer.Option(help="You have an HTTP endpoint.", metavar="URL")] = None,
    must: Annotated[
        str | None,
        typer.Option(
            help="What the answer must do with the expected value: contain (default) or equal.",
            metavar="WHAT",
        ),
    ] = None,
    map: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of --table, as for `assay evaluate` (repeatable).", metavar="TARGET=COLUMN"
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask; write the example of a function.")
    ] = False,
) -> None:
    from assay.cli.agent_evals.init import InitOptions, main
    from assay.errors import UsageError

    given = {"table": table, "function": function, "agent": agent, "endpoint": endpoint}
    named = [(kind, source) for kind, source in given.items() if source is not None]
    if len(named) > 1:
        names = " and ".join(f"--{kind}" for kind, _ in named)
        raise UsageError(f"expected one of --table, --function, --agent and --endpoint; got {names}")
    kind, source = named[0] if named else (None, "")
    main(
        InitOptions(
            folder=folder, kind=kind, source=source, must=must, columns=map or [], force=force, yes=yes
        )
    )


# Declares the options of `assay run`.


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
        str | None,
        typer.Option(help="Run of this suite to compare with, or its name, or `latest`.", metavar="RUN"),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Compare with --baseline even if the suite changed and its version did not."
        ),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="`failing`: only the tasks that did not pass in the latest run of this suite and agent; "
            "failing:RUN, in that run; or the id of a task (repeatable).",
            metavar="WHICH",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="The first N tasks only.", metavar="N", min=1)] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="`decided`: run tasks in random order until --baseline or --min-pass-rate is decided, and stop.",
            metavar="WHEN",
        ),
    ] = None,
    min_pass_rate: Annotated[
        float | None,
        typer.Option(
            help="Lowest share of passed tasks that is good enough, for --until.", metavar="X", min=0, max=1
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
    trials: Annotated[
        int, typer.Option(help="How often each task is tried.", metavar="K", min=1, max=100)
    ] = 1,
    k: Annotated[
        list[str] | None,
        typer.Option(
            help="Show pass@k (one of k trials passes) and pass^k (all k pass) for these k, such as 1,3 (repeatable).",
            metavar="K",
        ),
    ] = None,
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
        typer.Option(help="File with checks for every task; they do not change the score.", metavar="F"),
    ] = None,
    check_module: CheckModules = None,
    fixtures: Annotated[
        str | None,
        typer.Option(
            help="File with answers of tools, by their arguments, as --record writes it.", metavar="F"
        ),
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(
            help="New .yaml file: call live tools once, and write their answers for --fixtures.", metavar="F"
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Policy of tool calls, .toml or .yaml, for the mode adversarial. Default: [safety] of assay.toml.",
            metavar="F",
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
    max_cost: Annotated[
        float | None,
        typer.Option(
            help="Start no more tasks once judges and the agent have cost this much.", metavar="USD"
        ),
    ] = None,
    batch: Batch = False,
    batch_hours: BatchHours = None,
    resume: Annotated[
        str | None,
        typer.Option(help="Complete a run that was interrupted or has unmeasured tasks.", metavar="RUN"),
    ] = None,
    tag: RunTags = None,
    name: RunName = None,
    any_agent: Annotated[
        bool, typer.Option("--any-agent", help="Accept a suite that was written for another agent.")
    ] = False,
    traces: Annotated[
        bool,
        typer.Option(
            "--traces",
            help="Receive the spans of an agent that is a URL or a command; they are its trajectory.",
        ),
    ] = False,
    traces_port: Annotated[
        int | None,
        typer.Option(
            help="Port of --traces on 127.0.0.1. Default: 4318 for a URL, a free one for a command.",
            metavar="N",
            min=1,
            max=65535,
        ),
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--output",
            help="File to write: .json for the scorecard, .jsonl or .csv for the results (repeatable).",
            metavar="F",
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also name the methods of the intervals.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the scorecard as JSON instead of a table.")
    ] = False,
    server: Annotated[
        str | None,
        typer.Option(help="Run it on another host; --agent is the id of an agent there.", metavar="URL"),
    ] = None,
    key_file: KeyFile = None,
) -> None:
    from assay.cli.agent_evals.run import main
    from assay.cli.agent_evals.run_setup import RunOptions
    from assay.cli.console.only import read_only
    from assay.cli.render.repeats import read_ks
    from assay.runs.run_names import name_tag

    options = RunOptions(
        suite=suite,
        agent=agent,
        modes=tuple(mode) if mode else None,
        baseline=baseline,
        force=force,
        only=read_only(only or []),
        limit=limit,
        until=until,
        min_pass_rate=min_pass_rate,
        margin=margin,
        seed=seed,
        trials=trials,
        ks=read_ks(k or []),
        model=model,
        judge=judge,
        checks=checks,
        modules=tuple(check_module or ()),
        fixtures=fixtures,
        record=record,
        policy=policy,
        max_attack_success=max_attack_success,
        concurrency=concurrency,
        timeout=timeout,
        max_cost=max_cost,
        batch=batch,
        batch_hours=batch_hours,
        resume=resume,
        tags=(*(tag or ()), *(() if name is None else (name_tag(name, "--name"),))),
        any_agent=any_agent,
        traces=traces,
        traces_port=traces_port,
        to=tuple(output or ()),
        verbose=verbose,
        json=json,
        server=server,
        key_file=key_file,
    )
    raise typer.Exit(main(options))


# Declares the options of `assay suite`.
