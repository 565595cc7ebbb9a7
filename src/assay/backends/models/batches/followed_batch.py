"""A batch that is looked at until it ends, and the calls that wait for its answers."""

import asyncio

from assay.ports.batches import BatchAnswers, BatchResponse, OpenBatch

SLICE = 1024 * 1024  # bytes of answers that are given to their calls before these go on


class WaitingCall:
    """A call that waits. Its answer is a response, or None if its batch ended without one."""

    def __init__(self, number: int, model: str, body: bytes, digest: str, estimate: float) -> None:
        self.number = number  # of its arrival: a run writes results in order, and needs the first first
        self.model, self.body, self.digest, self.estimate = model, body, digest, estimate
        self.answer: asyncio.Future[BatchResponse | None] = asyncio.get_running_loop().create_future()

    def resolve(self, answer: BatchResponse | Exception | None) -> None:
        if self.answer.done():
            return
        if isinstance(answer, Exception):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


class FollowedBatch:
    """A batch that is looked at until it ends. Calls may still join one of a dead process."""

    def __init__(
        self, batch: OpenBatch, candidates: list[str], waiting: dict[str, WaitingCall] | None
    ) -> None:
        """
        `waiting` None: a dead process submitted it. Of several candidates, the answers say which one it is: until then
        the batch has no id, and none of them is cancelled.
        """
        self.batch, self.waiting = batch, waiting or {}
        self.candidates = candidates
        self.inherited = waiting is None
        self.ended = False
        self.answers: BatchAnswers | Exception | None = None  # once it ended, while calls may still join
        self.read: BatchAnswers | None = None  # to be closed
        self.task: asyncio.Task[None] | None = None

    @property
    def candidates(self) -> list[str]:
        return self._candidates

    @candidates.setter
    def candidates(self, ids: list[str]) -> None:
        self._candidates = ids
        self.batch.id = ids[0] if len(ids) == 1 else ""

    @property
    def under_way(self) -> bool:
        return self.task is not None and not self.ended

    def join(self, request: str, call: WaitingCall) -> None:
        if self.answers is None:
            self.waiting[request] = call
        else:
            self._answer(request, call, self.answers)

    async def end(self, answers: BatchAnswers | Exception) -> None:
        """Answer the calls. They go on meanwhile, so that few answers are in memory."""
        size = 0
        while self.waiting:
            first = next(iter(self.waiting))
            size += self._answer(first, self.waiting.pop(first), answers)
            if size > SLICE:
                size = 0
                await asyncio.sleep(0)
        self.ended, self.answers = True, answers
        if not self.inherited:  # nothing joins it later
            self.close()
            self.batch.requests = []

    def close(self) -> None:
        if self.read is not None:
            self.read.close()
        self.read = self.answers = None

    def _answer(self, request: str, call: WaitingCall, answers: BatchAnswers | Exception) -> int:
        """Answer a call. Returns the size of its answer."""
        answer = answers if isinstance(answers, Exception) else answers.get(request)
        call.resolve(answer)
        return len(answer.body) if isinstance(answer, BatchResponse) else 0
