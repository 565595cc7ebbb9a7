"""`assay run --until decided`: tasks in a random order, in rounds, until a baseline or a bar is decided."""

from assay.agenteval.planning.run_header import EvalHeader, decided_part
from assay.agenteval.planning.stopping import EvalUntil
from assay.agenteval.results.baseline import BaselineRun
from assay.cli.agent_evals.run_setup import RunOptions
from assay.cli.render.decision import RunDecision
from assay.errors import UsageError
from assay.extras import require
from assay.ports import Run, Store
from assay.results.last_look import look_in

DECIDED = "decided"


def validate_run_until(options: RunOptions) -> None:
    """Refuse options that contradict --until, and those that need it."""
    given = {
        "--margin": options.margin is not None,
        "--seed": options.seed != 0,
        "--min-pass-rate": options.min_pass_rate is not None,
    }
    if options.until is None:
        for name, is_given in given.items():
            if is_given:
                raise UsageError(f"{name}: expected --until decided with it")
        return
    if options.until != DECIDED:
        raise UsageError(f"--until: expected {DECIDED}, got {options.until!r}")
    if (options.baseline is None) == (options.min_pass_rate is None):
        raise UsageError("--until decided: expected one thing to decide, --baseline RUN or --min-pass-rate X")
    if options.margin is not None and options.baseline is None:
        raise UsageError("--margin: expected --baseline with it, whose difference it is of")
    if options.margin is not None and not 0 < options.margin < 1:
        raise UsageError(f"--margin: expected a number above 0 and below 1, got {options.margin:g}")
    _refuse_others(options)
    require("a run that stops when it has decided", "compare")


def _refuse_others(options: RunOptions) -> None:
    others = {
        "--resume": options.resume is not None,
        "--only": options.selects,
        "--record": options.record is not None,
        "--server": options.server is not None,
        "--max-attack-success": options.max_attack_success is not None,
    }
    for name, is_given in others.items():
        if is_given:
            raise UsageError(f"--until and {name}: expected one of them, got both")
    if options.suite == "-":
        raise UsageError(
            "--until: expected a file, got standard input; the order is random, so all tasks are read first"
        )


def until_of(options: RunOptions, baseline: BaselineRun | None) -> EvalUntil | None:
    """The rule for the run. UsageError: there is no baseline."""
    if options.until is None:
        return None
    if options.min_pass_rate is not None:
        return EvalUntil(seed=options.seed, bar=options.min_pass_rate)
    if baseline is None:
        raise UsageError(
            "--until decided: expected a completed run of this suite for --baseline, and there is none"
        )
    scores = {task.task_id: task.score for task in baseline.report.tasks if task.score is not None}
    return EvalUntil(seed=options.seed, margin=options.margin, baseline=baseline.run_id, scores=scores)


async def last_look_text(store: Store, run: Run) -> str:
    """What the progress says of the last look; empty: there was none yet."""
    found = await store.run(run.id, tenant=run.tenant)
    last = None if found is None else look_in(found.metadata)
    return last.text if last else ""


def decision_of(run: Run, header: EvalHeader) -> RunDecision | None:
    """What a run with --until decided, from its metadata; None: it is another run."""
    until = header.until
    if until is None:
        return None
    part, last = decided_part(run), look_in(run.metadata)
    total = (part.of if part else None) or header.total
    ran = part.cases if part else run.metadata.get("done", 0) + run.metadata.get("unmeasured", 0)
    return RunDecision(
        look=last and last.look,
        baseline=until.baseline,
        bar=until.bar,
        seed=until.seed,
        rounds=last.rounds if last else 0,
        ran=ran,
        total=total,
        noun="task",
    )
