"""A manifest as it lies in a folder: its prompt and its hand-off schemas beside it (openwop-contract §7.1, §7.3)."""

from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from assay.errors import InvalidRequest, Problem
from assay.protocol.agents import AgentCard, MemoryShape
from assay.protocol.duplicates import TWICE, duplicate_member
from assay.protocol.json_types import is_object
from assay.protocol.manifest import AgentManifest, read_manifest


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
        told = str(wrong).splitlines()[0]
        raise InvalidRequest(Problem(f"{setting}: {path}", f"not a JSON Schema: {told}")) from None
    return schema


def read_document(path: Path, setting: str) -> Any:
    try:
        data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        document = msgspec.json.decode(data)
        twice = duplicate_member(data, document)
    except OSError as refused:
        raise InvalidRequest(Problem(setting, f"{path} cannot be read: {refused.strerror}")) from None
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
        raise InvalidRequest(Problem(path, f"{ref} cannot be read: {refused}")) from None


def _check_inside(ref: str, setting: str) -> None:
    path = PurePosixPath(ref)
    if path.is_absolute() or ".." in path.parts or "\\" in ref:
        raise InvalidRequest(Problem(setting, f"{ref!r} leaves the folder of the manifest"))


def _or_default(value: Any, default: Any) -> Any:
    return default if value is UNSET else value
