"""An agent from a manifest (openwop-contract §7.1): a prompt, a model and tools, in a loop until the model answers."""

from collections.abc import Callable
from copy import copy
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from assay.concurrency.foreign_code import with_deadline
from assay.errors import InvalidRequest, Problem
from assay.ports import Completion, CompletionRequest, Message, Model, ToolCall
from assay.ports.agents import AgentContext, ModelOverrides, ToolFailure
from assay.protocol.agents import AgentCard, InvocationResult, MemoryEntry, MemoryShape, ToolSpec, Usage
from assay.protocol.duplicates import TWICE, duplicate_member
from assay.protocol.json_types import is_object
from assay.protocol.manifest import AgentDefinition, AgentManifest, read_manifest

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
        remembered = "\n\nWhat you remember:\n" + "\n".join(map(_memory_line, entries)) if entries else ""
        return [Message("system", self._prompt + remembered)]

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


# A manifest as it lies in a folder: its prompt and its hand-off schemas beside it (openwop-contract §7.1, §7.3).


class Manifest(NamedTuple):
    manifest: AgentManifest
    prompt: str
    task_schema: dict[str, Any] | None
    return_schema: dict[str, Any] | None

    def card(self) -> AgentCard:
        manifest = self.manifest
        shape = _or_default(manifest.memory_shape, MemoryShape())
        remembers = shape.scratchpad or shape.conversation or shape.longTerm
        return AgentCard(
            agent_id=manifest.agent_id,
            kind="manifest",
            persona=manifest.persona,
            label=_or_default(manifest.label, manifest.persona),
            description=_or_default(manifest.description, ""),
            model_class=manifest.model_class,
            tools=_or_default(manifest.tool_allowlist, ()),  # a manifest that names none has none
            memory=shape,
            takes_tools=bool(_or_default(manifest.tool_allowlist, ())),
            takes_memory=remembers,
            threshold=None
            if isinstance(manifest.confidence, UnsetType)
            else _or_default(manifest.confidence.default_threshold, None),
            requires=_or_default(manifest.requires_capabilities, ()),
            task_schema=self.task_schema,
            return_schema=self.return_schema,
        )


def open_manifest(path: Path, setting: str) -> Manifest:
    """The agent in this file, or everything that is wrong with it."""
    document = read_document(path, setting)
    manifest, problems = read_manifest(document)
    if manifest is None:
        raise InvalidRequest(
            [
                Problem(f"{setting}: {path}: {problem.place}".rstrip(": "), problem.message)
                for problem in problems
            ]
        )
    prompt, schemas = manifest.system_prompt, [None, None]
    if isinstance(manifest.system_prompt_ref, str):
        prompt = _read_sibling(path, manifest.system_prompt_ref, f"{setting}: {path}: systemPromptRef")
    if not isinstance(manifest.handoff, UnsetType):
        refs = {
            "taskSchemaRef": manifest.handoff.task_schema_ref,
            "returnSchemaRef": manifest.handoff.return_schema_ref,
        }
        schemas = [
            None
            if isinstance(ref, UnsetType)
            else _schema_beside(path, ref, f"{setting}: {path}: handoff.{name}")
            for name, ref in refs.items()
        ]
    assert isinstance(prompt, str)
    return Manifest(manifest, prompt, *schemas)


def read_schema(path: Path, setting: str) -> dict[str, Any]:
    schema = read_document(path, setting)
    if not is_object(schema):
        raise InvalidRequest(Problem(f"{setting}: {path}", "expected a JSON Schema, which is an object"))
    import jsonschema_rs  # deferred import: most agents have none

    try:
        jsonschema_rs.meta.validate(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as wrong:
        message = str(wrong).splitlines()[0]
        raise InvalidRequest(Problem(f"{setting}: {path}", f"not a JSON Schema: {message}")) from None
    return schema


def read_document(path: Path, setting: str) -> Any:
    try:
        data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        document = msgspec.json.decode(data)
        twice = duplicate_member(data, document)
    except OSError as refused:
        raise InvalidRequest(
            Problem(setting, f"{path}: expected a file that can be read, got {refused.strerror}")
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidRequest(Problem(setting, f"{path} is not JSON: {wrong}")) from None
    if twice is not None:
        raise InvalidRequest(Problem(setting, f"{path}: {twice}: {TWICE}"))
    return document


def _schema_beside(manifest: Path, ref: str, path: str) -> dict[str, Any]:
    _check_inside(ref, path)
    return read_schema(manifest.parent / ref, path)


def _read_sibling(manifest: Path, ref: str, path: str) -> str:
    _check_inside(ref, path)
    try:
        return (manifest.parent / ref).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as refused:
        raise InvalidRequest(
            Problem(path, f"{ref}: expected a file that can be read, got {refused}")
        ) from None


def _check_inside(ref: str, setting: str) -> None:
    path = PurePosixPath(ref)
    if path.is_absolute() or ".." in path.parts or "\\" in ref:
        raise InvalidRequest(Problem(setting, f"{ref!r}: expected a path in the folder of the manifest"))


def _or_default(value: Any, default: Any) -> Any:
    return default if value is UNSET else value
