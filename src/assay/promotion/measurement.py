"""How an eval run was measured: whether it ran the agent and the suite as they are installed, and the whole suite."""

from collections.abc import AsyncIterator
from typing import NamedTuple

from assay.agenteval.planning.run_header import EvalHeader, read_request
from assay.agenteval.suites.suite_store import SuiteResolver, SuiteStore, digest_of, suite_digest
from assay.errors import InvalidRequest
from assay.errors.storage import Erased
from assay.packs.store import PackStore
from assay.ports import Run, Store

REGRESSION = "regression"  # the mode
# Options of a run that make another agent of it.
OVERRIDES = ("model", "temperature", "maxTokens", "promptOverrides")


class Deviation(NamedTuple):
    """
    A reason why a run did not measure the installed agent on the installed suite: the code of the condition, and a
    text.
    """

    code: str
    text: str


async def read_deviations(store: Store, run: Run, *, compares: bool) -> list[Deviation]:
    """
    Every deviation of a run that has its content.

    A run without its content has none here: its erasure is a condition of its own.

    `compares`: the mode `regression` may not be left out. Without another active version there is no baseline to
    compare with.
    """
    try:
        header = await read_request(store, run.id)
    except Erased:
        return []
    return [deviation async for deviation in _deviations(store, run.tenant, header, compares=compares)]


async def baseline_deviation(store: Store, baseline: Run, suite_version: str) -> str:
    """Why the baseline of a run does not show the score of its version; "": it does."""
    if baseline.metadata.get("sourceRunId"):
        return "its baseline is a copy of another run"
    if baseline.erased:
        return f"its baseline has no content: {baseline.erasure}"
    if baseline.metadata.get("suiteVersion") != suite_version:
        return f"its baseline ran version {baseline.metadata.get('suiteVersion')} of the suite"
    return next(
        (f"its baseline {one.text}" for one in await read_deviations(store, baseline, compares=False)), ""
    )


async def _deviations(
    store: Store, tenant: str, header: EvalHeader, *, compares: bool
) -> AsyncIterator[Deviation]:
    if header.agent_spec not in ("", header.agent_id):
        yield Deviation("eval_run_ad_hoc", "ran an agent that its command line described")
    changed = [name for name in OVERRIDES if header.configurable.get(name) is not None]
    if changed:
        yield Deviation("eval_run_overridden", f"ran the agent with other settings: {', '.join(changed)}")
    left_out = [mode for mode in header.left_out if compares or mode != REGRESSION]
    if left_out:
        text = f"left out modes of its suite: {', '.join(left_out)}"
        yield Deviation("eval_run_partial", text)
    if not await _has_installed_content(store, tenant, header):
        name = f"{header.suite_id} {header.suite_version}"
        yield Deviation("eval_suite_content", f"ran other content than the installed suite {name} has")


async def _has_installed_content(store: Store, tenant: str, header: EvalHeader) -> bool:
    """
    Whether the suite of the run is the installed one of its id and version. A suite that is not installed has no other
    content.
    """
    resolver = SuiteResolver(SuiteStore(store), PackStore(store))
    try:
        found = await resolver.resolve(tenant, f"{header.suite_id}@{header.suite_version}")
    except InvalidRequest:
        return True
    return header.suite_digest in (digest_of(found.document), suite_digest(found.suite))
