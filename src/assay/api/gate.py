"""`assay.gate`: does a run pass? One verdict, one sentence why, an exit code, and reports for CI."""

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from assay import settings
from assay.api.arguments import check_arguments
from assay.api.sources import Results, open_sources
from assay.comparison.gate_run import (
    GateDecision,
    PolicyOptions,
    ReportFiles,
    decide_sources,
    gate_options,
    policy_with,
    rules_in,
    write_reports,
)
from assay.comparison.policy import GatePolicy, gate_policy_of, read_gate_policy
from assay.concurrency.event_loop import run_to_end
from assay.errors import UsageError
from assay.errors.door import place_of, rules_of

File = str | PathLike[str]


def gate(
    run: Results,
    *,
    baseline: Results | None = None,
    policy: File | Mapping[str, Any] | None = None,
    preset: str | None = None,
    min_mean: float | None = None,
    margin: float | None = None,
    metric: str | None = None,
    by: str | Sequence[str] = (),
    max_unmeasured: int | None = None,
    allow_partial: bool = False,
    markdown: File | None = None,
    junit: File | None = None,
    sarif: File | None = None,
    tenant: str | None = None,
) -> GateDecision:
    """
    Decide whether a run passes, alone or beside a baseline.

        decision = assay.gate(result, baseline="before.jsonl", min_mean=0.9)
        sys.exit(decision.exit_code)

    `run` and `baseline` are what `compare` takes. `policy` is a file with rules, or the rules themselves; the other
    arguments are the options of `assay gate`, and win. `markdown`, `junit` and `sarif` are names of reports to write.
    A data frame or a list does not say whether it is complete: `allow_partial` decides on what it has.
    """
    check_arguments(
        policy=policy, preset=preset, min_mean=min_mean, margin=margin, metric=metric, by=by,
        max_unmeasured=max_unmeasured, markdown=markdown, junit=junit, sarif=sarif, tenant=tenant,
    )  # fmt: skip
    options = PolicyOptions(
        preset=preset, min_mean=min_mean, margin=margin, metric=metric, max_unmeasured=max_unmeasured,
        by=(by,) if isinstance(by, str) else tuple(by) or None,
    )  # fmt: skip
    given = _policy(policy)
    file = "policy" if policy is None or isinstance(policy, Mapping) else fspath(policy)
    members = rules_in(given, options)
    with rules_of(file, members):
        rules = policy_with(given, options, has_baseline=baseline is not None)
        read = gate_options(rules)
    named: dict[str, Results] = {"run": run} if baseline is None else {"baseline": baseline, "run": run}

    async def work() -> GateDecision:
        async with open_sources(list(named.values()), list(named), tenant) as sources:
            source, first = sources[-1], sources[0] if len(sources) == 2 else None
            if first is not None and first.is_same(source):
                name = baseline if isinstance(baseline, str) else first.name
                raise UsageError(
                    f"{place_of('baseline', name)}: expected another run, got {source.name} itself"
                )
            with rules_of(file, members):
                return await decide_sources(source, first, rules, read, allow_partial=allow_partial)

    decision = run_to_end(work)
    names = {"markdown": markdown, "junit": junit, "sarif": sarif}
    files = {name: fspath(file) for name, file in names.items() if file is not None}
    write_reports(decision, ReportFiles(**files))
    return decision


def _policy(policy: File | Mapping[str, Any] | None) -> GatePolicy:
    if policy is None:
        return GatePolicy()
    if isinstance(policy, Mapping):
        return gate_policy_of(dict(policy), "policy", settings.load().limits)
    return read_gate_policy(fspath(policy), settings.load().limits)
