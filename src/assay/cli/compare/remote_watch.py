"""`assay watch --server`: the windows of a project on another host, and its gate on the newest complete one."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct, structs

from assay.api.watch import (
    LOOK_BACK,
    Watch,
    WatchedWindow,
    WatchOptions,
    decided,
    is_itself,
    judged_windows,
    no_baseline,
    no_window,
    policy_of,
    undecided,
)
from assay.cli.console.client import HostClient
from assay.comparison.gate_verdict import GateResult
from assay.comparison.policy import PRESETS
from assay.comparison.run_level import RunLevel
from assay.errors import UsageError
from assay.fep.trace_windows.window import WindowRow
from assay.inputs.files import document_of
from assay.settings import load


class _Score(Struct, rename="camel"):
    value: float
    low: float | None = None
    high: float | None = None
    cases: int = 0


class _Window(WindowRow, frozen=True, kw_only=True):
    """A row of the answer of the server."""

    score: _Score | None = None

    @property
    def watched(self) -> WatchedWindow:
        members = structs.asdict(self)
        score: _Score | None = members.pop("score")
        level = None
        if score is not None and self.state in ("complete", "stopped"):
            level = RunLevel(
                metric="passed", mean=score.value, low=score.low, high=score.high, cases=score.cases
            )
        return WatchedWindow(**members, level=level)


class _Windows(Struct, rename="camel"):
    windows: list[_Window]


def watch_host(host: HostClient, options: WatchOptions) -> Watch:
    """Read the windows there, and let the host decide by the policy. Raises UsageError."""
    policy, rules = policy_of(options.policy), _rules(options.policy)
    limit = max(options.windows, LOOK_BACK)
    path = f"/v1/host/assay/traces/{quote(options.project, safe='')}/windows?limit={limit}"
    found = msgspec.json.decode(host.request("GET", path), type=_Windows).windows
    shown = [one.watched for one in found[: options.windows]]
    judged, before = judged_windows([(one.run, one.state, one.scored) for one in found])
    if judged is None:
        return undecided(options, shown, None, no_window(options.project, "of the key", there=bool(found)))
    title = next(one.name for one in found if one.run == judged)
    baseline = _baseline(host, options.baseline) if options.baseline is not None else before
    if baseline is None and policy.min_mean is None:
        return undecided(options, shown, judged, no_baseline(title))
    if baseline == judged:
        raise is_itself(options, title)
    body = {"policy": rules} | ({} if baseline is None else {"baseline": baseline})
    answer = host.request("POST", f"/v1/host/assay/runs/{quote(judged, safe='')}:gate", body)
    result = msgspec.json.decode(answer, type=GateResult)
    return decided(options, shown, result, title, judged, baseline)


def _rules(text: str | None) -> dict[str, Any]:
    """The rules of a file, which `policy_of` has checked, or a preset by its name."""
    if text is None or text in PRESETS:
        return {} if text is None else {"preset": text}
    return document_of(text, load().limits)


def _baseline(host: HostClient, reference: str) -> str:
    if Path(reference).is_file():
        raise UsageError(f"--baseline {reference}: expected a run of the server, got a file")
    return host.find_run(reference, "evaluation")
