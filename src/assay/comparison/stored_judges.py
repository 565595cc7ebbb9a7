"""The judge of a stored run beside the labels that people stored with it: for `assay judge`, the library and REST."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import Struct

from assay.agenteval.planning.run_header import KIND as AGENT_EVAL
from assay.agenteval.results.judge_labels import read_judged, read_panel
from assay.comparison.judged_results import JudgedResults
from assay.comparison.labels import LabelSource, stored_labels
from assay.ports import Run, Store
from assay.protocol.annotations import Annotation
from assay.results.judge_check import JudgedCases, PanelReport
from assay.results.judge_samples import recorded_sample
from assay.runs.labels import people_labels

Feed = Callable[[Callable[[bytes], None]], Awaitable[None]]  # gives each line of results to a function


class JudgeChoice(Struct, frozen=True, kw_only=True):
    """
    Which check is the judge, and other labels than those of the run. `first`: of several judges the first, not a
    refusal. `seed`: the labelled cases must be a draw with it, if the run has no recorded sample.
    """

    labels: Sequence[LabelSource] = ()
    check: str | None = None
    bar: float | None = None
    seed: int | None = None
    first: bool = False


class StoredJudge(Struct, frozen=True, kw_only=True):
    """The judged cases of a run with their labels, what a panel says, and the names of all its judges."""

    judged: JudgedCases
    panel: PanelReport | None
    judges: list[str]


async def read_stored_judge(
    store: Store, run: Run, notes: Sequence[Annotation], feed: Feed, choice: JudgeChoice
) -> StoredJudge:
    """The judge of a run that has ended. `feed` reads the results of an evaluation."""
    if run.kind == AGENT_EVAL:
        return StoredJudge(
            judged=await read_judged(store, run, notes), panel=await read_panel(store, run), judges=[]
        )
    sample = recorded_sample(notes)
    labels = choice.labels or stored_labels(people_labels(notes, lambda note: note.target.node_id))
    results = JudgedResults(labels, check=choice.check, bar=choice.bar, first=choice.first)

    def add(line: bytes) -> None:
        results.add(line, run.id)

    await feed(add)
    judged = results.judged(choice.seed if sample is None else None)
    if sample is not None:
        judged = msgspec.structs.replace(judged, sample=sample)
    return StoredJudge(judged=judged, panel=results.panel(), judges=results.judges)
