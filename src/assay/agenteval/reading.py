"""What is recorded of an eval run, read back: its scorecard and its evidence (contract §6.4)."""

from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct

from assay.agenteval.run_header import KIND, RESULTS
from assay.ports import Run, Store
from assay.protocol.event_record import read_stored
from assay.protocol.scorecard import EvalSummary
from assay.runs.paging import read_chunks


class _Outputs(Struct):
    outputs: EvalSummary | None = None


_outputs = msgspec.json.Decoder(_Outputs).decode


async def recorded_summary(store: Store, run: Run) -> EvalSummary | None:
    """The scorecard of a run that completed, as it was recorded; none of any other."""
    if run.status != "completed" or run.kind != KIND:
        return None
    (last,) = await store.events(run.id, after=run.events - 2)
    return _outputs(read_stored(last.data).payload).outputs


async def recorded_results(
    store: Store, run: Run, start: int = 0, stop: int | None = None
) -> AsyncIterator[bytes]:
    """The evidence, a TestCaseResult a trial, in the suite's order; what was not begun has none."""
    async for chunk in read_chunks(store, run.id, RESULTS, start=start, stop=stop):
        yield chunk.data
