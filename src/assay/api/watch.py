"""
The windows of a project of traces, and whether the newest complete one is worse than its baseline.

A gate decides: `comparison/gate_run.py`. The windows are those of `fep/trace_windows/window.py`.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Literal

from msgspec import Struct

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
from assay.fep.trace_windows.window import Window, windows_of
from assay.host import parts
from assay.ports import LOCAL_TENANT, Services
from assay.runs.run_names import name_of

LOOK_BACK = 50  # windows in which a baseline is looked for

State = Literal["open", "complete", "stopped", "erased"]


class WatchedWindow(Struct, frozen=True, kw_only=True):
    """A window with what came in it. `level` is None if it is open or erased, or if nothing was scored."""

    run: str
    name: str
    start: datetime
    end: datetime
    state: State
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
    return run_to_end(lambda: _watch(options, _policy(options.policy)))


def _policy(text: str | None) -> GatePolicy:
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
        candidates = [one for one in found if _state(one) == "complete"]
        judged = candidates[0] if candidates else None
        before = next((one for one in candidates[1:] if one.counts.scored), None)
        if judged is None:
            return _undecided(options, shown, None, _no_window(options.project, owner, found))
        source = sources[judged.run.id]
        async with _baseline(options, None if before is None else sources[before.run.id]) as baseline:
            if baseline is None and policy.min_mean is None:
                reason = (
                    f"no complete window before {_title(judged)} has a scored trace: there is nothing to compare it"
                    f" with; {hint_of('baseline')} names another run, and a policy with min_mean needs none"
                )
                return _undecided(options, shown, judged.run.id, reason)
            if baseline is not None and baseline.is_same(source):
                raise UsageError(
                    f"{place_of('baseline', options.baseline)}: expected another run, got {_title(judged)} itself"
                )
            result, _ = await gate_result(source, baseline, policy, read, allow_partial=False)
            return Watch(
                project=options.project,
                outcome=result.outcome,
                exit_code=result.exit_code,
                reason=f"{_title(judged)}: {result.reason}",
                run=judged.run.id,
                baseline=None if baseline is None else baseline.name,
                windows=tuple(shown),
                gate=result,
            )


@asynccontextmanager
async def _baseline(options: WatchOptions, before: RunSource | None) -> AsyncGenerator[RunSource | None]:
    """What the newest complete window is compared with: the one before it, or a run or file by name."""
    if options.baseline is None:
        yield before
        return
    async with open_sources([options.baseline], ["baseline"], options.tenant) as (source,):
        yield source


def _undecided(options: WatchOptions, shown: Sequence[WatchedWindow], run: str | None, reason: str) -> Watch:
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


def _no_window(project: str, tenant: str, found: Sequence[Window]) -> str:
    if found:
        return f"no window of {project} is complete: there is nothing to decide on"
    return f"no window of {project} is stored for the tenant {tenant}: nothing was measured"


def _title(window: Window) -> str:
    return name_of(window.run.metadata) or window.run.id


def _state(window: Window) -> State:
    if window.is_open:
        return "open"
    if window.run.erased:
        return "erased"
    return "complete" if window.run.status == "completed" else "stopped"


async def _row(window: Window, source: RunSource, read: ReadOptions) -> WatchedWindow:
    state, counts = _state(window), window.counts
    level = None
    if state in ("complete", "stopped") and counts.scored:
        level = await _level(source, read)
    return WatchedWindow(
        run=window.run.id,
        name=_title(window),
        start=window.plan.start,
        end=window.plan.end,
        state=state,
        sample=window.plan.sample,
        seen=counts.seen,
        sampled=counts.sampled,
        scored=counts.scored,
        filtered=counts.filtered,
        late_spans=counts.late_spans,
        not_measured=window.not_measured,
        level=level,
    )


async def _level(source: RunSource, read: ReadOptions) -> RunLevel | None:
    """The mean of the metric with its interval. None: the window has no such number, which the gate explains."""
    scores = await source.scores(read)
    try:
        return await in_thread(lambda: LevelReader(scores, chosen_metric([scores])).level())
    except InvalidRequest:
        return None
