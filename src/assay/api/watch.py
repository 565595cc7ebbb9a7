"""
The windows of a project of traces, and whether the newest complete one is worse than its baseline.

A gate decides: `comparison/gate_run.py`. The windows are those of `fep/trace_windows/window.py`.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from msgspec import Struct, structs

from assay import settings
from assay.api.sources import open_sources
from assay.auth.audit import audit_read
from assay.checks import STANDARD
from assay.comparison.gate_run import CODES, PolicyOptions, gate_options, gate_result, policy_with
from assay.comparison.gate_verdict import GateOutcome, GateResult
from assay.comparison.policy import PRESETS, GatePolicy, read_gate_policy
from assay.comparison.run_level import LevelReader, RunLevel
from assay.comparison.run_scores import ReadOptions, chosen_metric
from assay.comparison.sources import RunSource, StoredSource
from assay.concurrency.event_loop import run_to_end
from assay.concurrency.threads import in_thread
from assay.errors import InvalidRequest, UsageError
from assay.errors.door import hint_of, place_of
from assay.errors.nearest import did_you_mean
from assay.fep.records.service import EvaluationService
from assay.fep.trace_windows.window import Window, WindowStatus, windows_of
from assay.host import parts
from assay.ports import LOCAL_TENANT, Services

LOOK_BACK = 50  # windows in which a baseline is looked for


class WatchedWindow(Struct, frozen=True, kw_only=True):
    """A window with what came in it. `level` is None if it is open or erased, or if nothing was scored."""

    run: str
    name: str
    start: datetime
    end: datetime
    state: WindowStatus
    sample: float
    seen: int
    sampled: int
    scored: int
    filtered: int
    late_spans: int
    not_measured: int
    level: RunLevel | None = None


class Watch(Struct, frozen=True, kw_only=True):
    """
    The newest windows of a project, the newest first, and the decision of the gate on the newest complete one.

    `run` is that window and `baseline` what it is compared with. `gate` is None if there is nothing to decide on.
    """

    project: str
    outcome: GateOutcome
    exit_code: int
    reason: str
    run: str | None
    baseline: str | None
    windows: tuple[WatchedWindow, ...]
    gate: GateResult | None = None


class WatchOptions(Struct, frozen=True, kw_only=True):
    """The command line of `assay watch`."""

    project: str
    windows: int = 8
    baseline: str | None = None
    policy: str | None = None
    tenant: str | None = None


def watch_project(options: WatchOptions) -> Watch:
    """Read the windows and decide. Raises UsageError for an unknown project and a wrong policy."""
    return run_to_end(lambda: _watch(options, policy_of(options.policy)))


def policy_of(text: str | None) -> GatePolicy:
    """A preset by its name, or the rules of a file."""
    if text is None or text in PRESETS:
        return policy_with(GatePolicy(), PolicyOptions(preset=text), has_baseline=True)
    return policy_with(read_gate_policy(text, settings.load().limits), PolicyOptions(), has_baseline=True)


async def _watch(options: WatchOptions, policy: GatePolicy) -> Watch:
    chosen, owner = settings.load(), options.tenant or LOCAL_TENANT
    read = gate_options(policy)
    async with parts.store(chosen, light=True) as store:
        evaluations = EvaluationService(store, STANDARD, Services(limits=chosen.limits))
        found = await windows_of(store, owner, options.project, limit=max(options.windows, LOOK_BACK))
        if not found and options.project not in chosen.traces:
            raise UsageError(_unknown(options.project, list(chosen.traces)))
        sources = {one.run.id: StoredSource(evaluations, one.run) for one in found}
        for one in found[: options.windows]:
            await audit_read(store, one.run)
        shown = [await _row(one, sources[one.run.id], read) for one in found[: options.windows]]
        judged, before = judged_windows([(one.run.id, one.state, one.counts.scored) for one in found])
        if judged is None:
            return undecided(options, shown, None, no_window(options.project, owner, there=bool(found)))
        source = sources[judged]
        title = next(one.title for one in found if one.run.id == judged)
        async with _baseline(options, None if before is None else sources[before]) as baseline:
            if baseline is None and policy.min_mean is None:
                return undecided(options, shown, judged, no_baseline(title))
            if baseline is not None and baseline.is_same(source):
                raise is_itself(options, title)
            result, _ = await gate_result(source, baseline, policy, read, allow_partial=False)
            return decided(options, shown, result, title, judged, None if baseline is None else baseline.name)


def judged_windows(found: Sequence[tuple[str, WindowStatus, int]]) -> tuple[str | None, str | None]:
    """
    The newest complete window, and the newest complete one before it that has scored traces. `found`: the run, the
    state and the scored traces of each, the newest first.
    """
    complete = [(run, scored) for run, state, scored in found if state == "complete"]
    before = next((run for run, scored in complete[1:] if scored), None)
    return (complete[0][0] if complete else None), before


def decided(
    options: WatchOptions,
    shown: Sequence[WatchedWindow],
    result: GateResult,
    title: str,
    run: str,
    baseline: str | None,
) -> Watch:
    """What a gate decided on the window with this title."""
    return Watch(
        project=options.project,
        outcome=result.outcome,
        exit_code=result.exit_code,
        reason=f"{title}: {result.reason}",
        run=run,
        baseline=baseline,
        windows=tuple(shown),
        gate=result,
    )


def no_baseline(title: str) -> str:
    return (
        f"no complete window before {title} has a scored trace: there is nothing to compare it with;"
        f" {hint_of('baseline')} names another run, and a policy with min_mean needs none"
    )


def is_itself(options: WatchOptions, title: str) -> UsageError:
    return UsageError(f"{place_of('baseline', options.baseline)}: expected another run, got {title} itself")


@asynccontextmanager
async def _baseline(options: WatchOptions, before: RunSource | None) -> AsyncGenerator[RunSource | None]:
    """What the newest complete window is compared with: the one before it, or a run or file by name."""
    if options.baseline is None:
        yield before
        return
    async with open_sources([options.baseline], ["baseline"], options.tenant) as (source,):
        yield source


def undecided(options: WatchOptions, shown: Sequence[WatchedWindow], run: str | None, reason: str) -> Watch:
    return Watch(
        project=options.project,
        outcome="undecided",
        exit_code=CODES["undecided"],
        reason=reason,
        run=run,
        baseline=None,
        windows=tuple(shown),
    )


def _unknown(project: str, configured: Sequence[str]) -> str:
    there = ", ".join(configured[:20]) or "none"
    return (
        f"{project[:100]!r}: no project of traces has this name; the settings have [traces.NAME] for {there}"
        f"{did_you_mean(project, configured, before='; ')}"
    )


def no_window(project: str, tenant: str, *, there: bool) -> str:
    """Why there is nothing to decide on. `there`: the project has windows."""
    if there:
        return f"no window of {project} is complete: there is nothing to decide on"
    return f"no window of {project} is stored for the tenant {tenant}: nothing was measured"


async def _row(window: Window, source: RunSource, read: ReadOptions) -> WatchedWindow:
    level = None
    if window.state in ("complete", "stopped") and window.counts.scored:
        level = await _level(source, read)
    return WatchedWindow(**structs.asdict(window.row), level=level)


async def _level(source: RunSource, read: ReadOptions) -> RunLevel | None:
    """The mean of the metric with its interval. None: the window has no such number, which the gate explains."""
    scores = await source.scores(read)
    try:
        return await in_thread(lambda: LevelReader(scores, chosen_metric([scores])).level())
    except InvalidRequest:
        return None
