"""A model that records metrics by provider: calls, durations, costs."""

from assay.errors import Fault
from assay.ports import Completion, CompletionRequest, Model
from assay.ports.telemetry import telemetry


class MeteredModel:
    def __init__(self, inner: Model, provider: str) -> None:
        self._inner, self._provider = inner, provider

    async def complete(self, request: CompletionRequest) -> Completion:
        try:
            reply = await self._inner.complete(request)
        except Fault as fault:
            telemetry.add("assay_model_calls", 1, self._provider, fault.type)
            raise
        telemetry.add("assay_model_calls", 1, self._provider, "ok")
        telemetry.observe("assay_model_seconds", reply.seconds, self._provider)
        for direction, many in (("input", reply.input_tokens), ("output", reply.output_tokens)):
            telemetry.add("assay_model_tokens", many or 0, self._provider, direction)
        telemetry.add("assay_model_cost_usd", reply.cost_usd or 0, self._provider)
        return reply

    async def close(self) -> None:
        await self._inner.close()
