"""What is kept of a workflow's run besides its events: the request, and every step with what came back (evidence, never shown)."""

import msgspec

from assay.errors import NotFound
from assay.ports import EvidenceChunk, Store
from assay.workflow.effects import Kept
from assay.workflow.flow import Request

REQUEST = "workflow-request"
STEP = "step"
PAGE = 100
_step = msgspec.json.Decoder(Kept).decode
_request = msgspec.json.Decoder(Request).decode


def request_piece(request: Request) -> EvidenceChunk:
    return EvidenceChunk(kind=REQUEST, data=msgspec.json.encode(request))


def step_piece(number: int, kept: Kept) -> EvidenceChunk:
    return EvidenceChunk(kind=STEP, first=number, last=number, data=msgspec.json.encode(kept))


async def read_request(store: Store, run: str) -> Request:
    pieces = await store.pieces(run, REQUEST)
    if not pieces:
        raise NotFound(f"what run {run} was asked for is no longer kept")
    return _request(pieces[0].data)


async def kept_steps(store: Store, run: str) -> list[Kept]:
    found: list[Kept] = []
    while pieces := await store.pieces(run, STEP, start=len(found), limit=PAGE):
        found += [_step(piece.data) for piece in pieces]
    return found
