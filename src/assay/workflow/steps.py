"""The stored request and steps of a workflow run. They are evidence and are never shown."""

import msgspec

from assay.concurrency.tenant_threads import off_loop
from assay.ports import EvidenceChunk, Store
from assay.runs.erasure import request_data
from assay.runs.log_reader import read_chunks
from assay.workflow.effects import StepRecord
from assay.workflow.execution_state import WorkflowRequest

REQUEST = "workflow-request"
STEP = "step"
PAGE = 100
_step = msgspec.json.Decoder(StepRecord).decode
_request = msgspec.json.Decoder(WorkflowRequest).decode


def request_chunk(request: WorkflowRequest) -> EvidenceChunk:
    return EvidenceChunk(kind=REQUEST, data=msgspec.json.encode(request))


def step_chunk(number: int, record: StepRecord) -> EvidenceChunk:
    return EvidenceChunk(kind=STEP, first=number, last=number, data=msgspec.json.encode(record))


async def read_request(store: Store, run: str) -> WorkflowRequest:
    """The stored request. Erased: its content is gone."""
    data = await request_data(store, run, REQUEST)
    return await off_loop(len(data), lambda: _request(data))


async def read_steps(store: Store, run: str) -> list[StepRecord]:
    return [_step(chunk.data) async for chunk in read_chunks(store, run, STEP, limit=PAGE)]
