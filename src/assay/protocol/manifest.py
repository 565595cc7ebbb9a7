"""
AgentManifest (RFC 0003, openwop-contract §7.1): the description of one agent in a pack, with the `role` of RFC 0131.
Unknown members are refused.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.errors import Problem
from assay.protocol.agents import MemoryShape, ModelClass
from assay.protocol.json_types import is_object
from assay.protocol.validation_messages import message_of, path_in

# \Z and not $, which allows a newline after the end
AGENT_ID = r"^(core|vendor|community|private|local)\.[a-z][a-z0-9_-]*(\.[a-z][a-zA-Z0-9_-]*)+\Z"
ManifestText = Annotated[str, msgspec.Meta(min_length=1)]


class _Closed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    pass


class Confidence(_Closed, frozen=True, kw_only=True):
    default_threshold: Annotated[float, msgspec.Meta(ge=0, le=1)] | UnsetType = UNSET


class Handoff(_Closed, frozen=True, kw_only=True):
    task_schema_ref: ManifestText | UnsetType = UNSET
    return_schema_ref: ManifestText | UnsetType = UNSET


class AgentManifest(_Closed, frozen=True, kw_only=True):
    agent_id: Annotated[str, msgspec.Meta(pattern=AGENT_ID, min_length=3, max_length=256)]
    persona: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    model_class: ModelClass
    system_prompt: ManifestText | UnsetType = UNSET
    system_prompt_ref: ManifestText | UnsetType = UNSET
    eval_suite_ref: ManifestText | UnsetType = UNSET
    tool_allowlist: tuple[ManifestText, ...] | UnsetType = UNSET
    requires_capabilities: tuple[ManifestText, ...] | UnsetType = UNSET
    memory_shape: MemoryShape | UnsetType = UNSET
    confidence: Confidence | UnsetType = UNSET
    handoff: Handoff | UnsetType = UNSET
    label: Annotated[str, msgspec.Meta(min_length=1, max_length=100)] | UnsetType = UNSET
    description: Annotated[str, msgspec.Meta(max_length=500)] | UnsetType = UNSET
    prompt_library_ref: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,127}\Z")] | UnsetType = (
        UNSET
    )
    prompt_overrides: dict[Literal["system", "user", "few-shot", "schema-hint"], Any] | UnsetType = UNSET
    role: Literal["skill", "assistant"] | UnsetType = UNSET


class AgentDefinition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent of a pack with everything it needs to run. A run stores it, so that the run does not need the pack."""

    pack: str
    version: str  # of the pack, and so of the agent
    manifest: AgentManifest
    prompt: str
    task_schema: dict[str, Any] | None = None
    return_schema: dict[str, Any] | None = None
    suite_path: str = ""  # of its own suite in the pack
    optional_peers: dict[str, str] = {}  # capabilities that its pack can do without


FIELDS = {field.encode_name: field for field in msgspec.structs.fields(AgentManifest)}


def read_manifest(document: Any) -> tuple[AgentManifest | None, list[Problem]]:
    """Parse a manifest; return it, or all problems of the document with their places."""
    if not is_object(document):
        return None, [Problem("", "expected an object, which is an agent's manifest")]
    problems = [
        Problem(name, f"a manifest has no such member; it may have {', '.join(FIELDS)}")
        for name in document
        if name not in FIELDS
    ]
    for name, field in FIELDS.items():
        if name not in document:
            problems += [Problem(name, "is required")] if field.required else []
            continue
        try:
            msgspec.convert(document[name], field.type)
        except msgspec.ValidationError as wrong:
            problems.append(Problem(name + path_in(wrong), message_of(wrong, field.type)))
    problems += _rules(document)
    return (None, problems) if problems else (msgspec.convert(document, AgentManifest), [])


def _rules(document: dict[str, Any]) -> list[Problem]:
    """The schema's `oneOf` and `uniqueItems`, and RFC 0131's rules for a skill."""
    problems: list[Problem] = []
    if ("systemPrompt" in document) == ("systemPromptRef" in document):
        problems.append(Problem("systemPrompt", "expected exactly one of systemPrompt and systemPromptRef"))
    needs: Any = document.get("requiresCapabilities")
    if isinstance(needs, list) and len(set(map(repr, needs))) < len(needs):  # pyright: ignore[reportUnknownArgumentType]
        problems.append(Problem("requiresCapabilities", "expected unique values, got a duplicate"))
    if document.get("role") == "skill":
        if "handoff" not in document:
            problems.append(Problem("handoff", "a skill requires it"))
        shape: Any = document.get("memoryShape")
        problems += [
            Problem(f"memoryShape.{name}", "expected false: a skill has no memory beyond its task")
            for name in ("conversation", "longTerm")
            if is_object(shape) and shape.get(name)
        ]
    return problems
