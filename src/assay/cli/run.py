"""`assay run`: an agent against a suite, a scorecard at the end (RFC 0081)."""

from typing import Annotated

import typer

HELP = """Run an agent against a suite, and see whether it is good enough to ship.

    assay run suite.yaml --agent shop:answer

The agent is module:function, an address, 'cmd:COMMAND', a manifest.json, recorded:FILE, or the id of one in assay.toml.
The run is kept, so that `assay show` shows it, --baseline compares with it, and --resume completes it.

Exit codes: 0 passed; 3 measured, and not passed; 1 something could not be measured; 2 wrong usage.
"""


def run(
    suite: Annotated[
        str | None, typer.Argument(help="A suite: .yaml or .json; '-' is standard input.", metavar="[SUITE]")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Who is run.", metavar="WHAT")] = None,
    mode: Annotated[
        list[str] | None,
        typer.Option(
            help="golden, rubric, regression or live-shadow; several may be given. Without it, those of the suite.",
            metavar="M",
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="For regression: the run to compare with, or `latest`.", metavar="RUN")
    ] = None,
    trials: Annotated[
        int, typer.Option(help="How often each task is tried.", metavar="K", min=1, max=100)
    ] = 1,
    model: Annotated[
        str | None, typer.Option(help="The model of a manifest agent, PROVIDER:MODEL.", metavar="NAME")
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="The model that judges rubrics, PROVIDER:MODEL.", metavar="NAME")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Tasks at the same time.", metavar="N", min=1)
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds the agent has for a task.", metavar="S", min=0.001)
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(help="Complete a run that was cut off or left tasks unmeasured.", metavar="RUN"),
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="k=v, kept with the run; several may be given.", metavar="K=V")
    ] = None,
    any_agent: Annotated[
        bool, typer.Option("--any-agent", help="Run a suite that was written for another agent.")
    ] = False,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--output",
            help="Where it goes: .json is the scorecard, .jsonl and .csv the results. Several may be given.",
            metavar="F",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The scorecard as JSON instead of a table.")] = False,
    server: Annotated[
        str | None,
        typer.Option(help="Run it on another host; --agent is then the id of an agent there.", metavar="URL"),
    ] = None,
    key_file: Annotated[
        str | None,
        typer.Option(help="The file with the key for --server; without it, ASSAY_API_KEY.", metavar="F"),
    ] = None,
) -> None:
    from assay.cli.running import carry_out  # a lazy door: the help needs none of it
    from assay.cli.wanted import RunOptions  # a lazy door

    code = carry_out(
        RunOptions(
            suite=suite,
            agent=agent,
            modes=tuple(mode) if mode else None,
            baseline=baseline,
            trials=trials,
            model=model,
            judge=judge,
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
    )
    raise typer.Exit(code)
