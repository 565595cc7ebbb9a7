"""`assay evaluate --shard I/N`: one of N runs that divide an input, whose results `assay merge` joins."""

from pathlib import Path

from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.errors import UsageError
from assay.fep.planning.plan import Plan
from assay.inputs.files import format_of
from assay.inputs.places import Places
from assay.results.run_part import RunPart


def validate_shard(options: EvaluateOptions) -> None:
    """Refuse what a shard cannot have. Raises UsageError."""
    if options.shard is None:
        return
    name = options.contexts
    if (
        name is None
        or not Path(name).is_file()
        or format_of(name, "jsonl") not in (("jsonl", False), ("parquet", False))
    ):
        got = name or " and ".join(options.inputs) or "none"
        raise UsageError(
            f"--shard: expected a .jsonl or .parquet file of cases with their outputs, got {got}"
        )
    if len(options.to) != 1 or not options.to[0].endswith((".jsonl", ".ndjson")):
        raise UsageError(
            f"--shard: expected one .jsonl file that -o names, got {', '.join(options.to) or 'none'}"
        )
    others = {
        "--agent": options.agent,
        "--only": options.only,
        "--limit": options.limit,
        "--until": options.until,
        "--baseline": options.baseline,
        "--min-pass-rate": options.bars,
        "--save, --name, --tag and --to": options.save,
        "--max-cost": options.max_cost,
        "--batch": options.batch,
        "--fail-fast": options.fail_fast,
    }
    for other, value in others.items():
        if value:
            raise UsageError(
                f"--shard and {other}: expected one of them, got both; a shard is a part of a run"
            )


def require_shared(plan: Plan, options: EvaluateOptions) -> None:
    """Raise UsageError unless all cases of a shard have the same checks."""
    if options.shard is not None and plan.shared is None:
        raise UsageError("--shard: expected one list of checks for all cases, got checks of each case")


def begin_part(options: EvaluateOptions) -> None:
    """The part is not finished until its manifest is written again."""
    if options.shard is None:
        return
    from assay.fep.outputs.part_manifest import remove_manifest  # deferred import: most runs are no shards

    remove_manifest(options.to[0])


def shard_part(options: EvaluateOptions, cases: int) -> RunPart | None:
    """The part of the run that a shard is."""
    if options.shard is None:
        return None
    return RunPart(cases=cases, of=None, rule="shard", shard=options.shard.text)


def finish_part(options: EvaluateOptions, plan: Plan, columns: Places, results: int, bad_lines: int) -> None:
    """Write the manifest of a shard that came to its end. It is written last."""
    if options.shard is None:
        return
    from assay.fep.outputs.part_manifest import write_manifest  # deferred import: most runs are no shards

    write_manifest(options.to[0], plan, options.inputs, options.shard, columns, results, bad_lines)
