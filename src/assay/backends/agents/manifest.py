"""An agent from a manifest (openwop-contract §7.1): a prompt, a model and tools, in a loop until the model answers."""

from collections.abc import Callable
from copy import copy
from typing import Any

import msgspec

from assay.concurrency.foreign_code import with_deadline
from assay.ports import Completion, CompletionRequest, Message, Model, ToolCall
from assay.ports.agents import AgentContext, ModelOverrides, ToolFailure
from assay.protocol.agents import AgentCard, InvocationResult, MemoryEntry, ToolSpec, Usage
from assay.protocol.manifest import AgentDefinition

ENTRIES = 100  # of its memory, in the prompt
WRITE = ToolSpec(
    id="memory:write",
    description="Remember something for later conversations.",
    input_schema={
        "type": "object",
        "required": ["content"],
        "properties": {
            "content": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    },
)
Choose = Callable[[ModelOverrides], tuple[Model, CompletionRequest]]


class ManifestAgent:
    """
    Calls its model, executes the requested tool calls, and repeats.

    A failure of the model is a fault: nothing was measured.

    `choose` returns the model when it is first needed. With memory, the prompt lists the entries and the agent may
    write.
    """

    def __init__(
        self,
        card: AgentCard,
        prompt: str,
        choose: Choose,
        *,
        max_rounds: int = 8,
        seconds: float | None = None,
        overrides: ModelOverrides = ModelOverrides(),  # noqa: B008  # a value
    ) -> None:
        self.card, self._prompt, self._choose = card, prompt, choose
        self.system_prompt: str | None = prompt  # as detectors know it
        self._max_rounds, self._seconds, self._overrides = max_rounds, seconds, overrides
        self._models: set[Model] = set()

    def ready(self) -> None:
        """Refuse before anything runs if there is no model."""
        self._choose(self._overrides)

    def with_overrides(self, overrides: ModelOverrides) -> "ManifestAgent":
        agent = copy(self)  # it shares the set of models, so closing the original closes them
        agent._overrides = overrides
        agent.ready()
        return agent

    async def invoke(self, task: Any, context: AgentContext) -> InvocationResult:
        model, ask = self._choose(self._overrides)
        self._models.add(model)
        return await with_deadline(context, self._seconds, self._loop(model, ask, task, context))

    async def close(self) -> None:
        """Close this event loop's connections to the models."""
        for model in self._models:
            await model.close()

    async def _loop(
        self, model: Model, ask: CompletionRequest, task: Any, context: AgentContext
    ) -> InvocationResult:
        messages = [*await self._opening(context), Message("user", _text(task))]
        tools = (*context.tools, WRITE) if self.card.takes_memory else tuple(context.tools)
        for _ in range(self._max_rounds):
            reply = await model.complete(
                msgspec.structs.replace(
                    ask, messages=tuple(messages), tools=tools, schema=self.card.return_schema
                )
            )
            context.record_usage(_usage(reply))
            if not reply.tool_calls:
                return self._finish(reply)
            if reply.text:
                context.reason(reply.text)
            messages.append(Message("assistant", reply.text, reply.tool_calls))
            answers = [(call.id, await _answer(call, context, self.card)) for call in reply.tool_calls]
            messages += [Message("tool", text, tool_call_id=id) for id, text in answers]
        return InvocationResult(
            outcome="failed", error=f"no answer after {self._max_rounds} calls of its model"
        )

    async def _opening(self, context: AgentContext) -> list[Message]:
        if not self.card.takes_memory:
            return [Message("system", self._prompt)]
        entries = await context.memory.list(limit=ENTRIES)
        told = "\n\nWhat you remember:\n" + "\n".join(map(_memory_line, entries)) if entries else ""
        return [Message("system", self._prompt + told)]

    def _finish(self, reply: Completion) -> InvocationResult:
        if reply.refusal is not None or reply.finish_reason == "content_filter":
            return InvocationResult(outcome="refused", error=reply.refusal or "its answer was filtered")
        if reply.finish_reason == "length":
            return InvocationResult(outcome="failed", error="its answer was cut off")
        if self.card.return_schema is None:
            return InvocationResult(outcome="completed", result=reply.text)
        if reply.problem is not None:
            return InvocationResult(
                outcome="failed", error=f"its answer {reply.problem}", schema_validated=False
            )
        return InvocationResult(outcome="completed", result=reply.value)


class PackAgent(ManifestAgent):
    """A manifest agent of an installed pack, or of a run whose pack may be gone."""

    def __init__(self, card: AgentCard, definition: AgentDefinition, choose: Choose) -> None:
        super().__init__(card, definition.prompt, choose)
        self.definition = definition


async def _answer(call: ToolCall, context: AgentContext, card: AgentCard) -> str:
    """The tool's answer for the model, or the error, after which it may continue."""
    try:
        if call.problem is not None:
            raise ToolFailure("invalid_arguments", f"the text of the arguments {call.problem}")
        if call.tool == WRITE.id and card.takes_memory:
            return await _write(call.arguments, context)
        outcome = await context.call(call.tool, call.arguments)
    except ToolFailure as failure:
        outcome = {"error": {"code": failure.code, "message": str(failure)}}
    return _text(outcome)


async def _write(arguments: dict[str, Any], context: AgentContext) -> str:
    content, tags = arguments.get("content"), arguments.get("tags", [])
    if not isinstance(content, str) or not isinstance(tags, list):
        raise ToolFailure("invalid_arguments", "expected content, a text, and tags, a list of texts")
    entry = await context.memory.write(content, tags=[str(tag) for tag in tags])  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return _text({"id": entry.id})


def _usage(reply: Completion) -> Usage:
    return Usage(
        provider=reply.provider,
        model=reply.model,
        input_tokens=reply.input_tokens or 0,
        output_tokens=reply.output_tokens or 0,
        cost_usd=reply.cost_usd,
        cached=reply.cached,
    )


def _memory_line(entry: MemoryEntry) -> str:
    return f"- {entry.content}" + (f" ({', '.join(entry.tags)})" if entry.tags else "")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
