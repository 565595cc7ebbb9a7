"""The references of a pack: each is a file of the pack, resolved when the pack is read (openwop-contract §7.3)."""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, UnsetType

from assay.checks.schema_validator import validator_for
from assay.errors import MOST_PROBLEMS, InvalidRequest, Problem
from assay.packs.archive import MAX_ELEMENTS, Code, PackRefused, check_path, hex_digest
from assay.packs.pack_manifest import PACK_JSON, PackManifest
from assay.packs.requirements import optional_peers
from assay.protocol.agent_evals import AgentEvalSuite
from assay.protocol.duplicates import TWICE, check_elements, duplicate_member
from assay.protocol.json_types import is_deeper, is_object
from assay.protocol.manifest import AgentDefinition, AgentManifest

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DEEPEST_SCHEMA, DEEPEST_SUITE = 200, 500  # levels of nesting
SuiteReader = Callable[[Any], AgentEvalSuite]
T = TypeVar("T")


class PackSuite(Struct, frozen=True, kw_only=True, rename="camel"):
    """A suite in a pack. `digest` is the SHA-256 of the file's octets, in hex."""

    suite_id: str
    version: str
    path: str
    digest: str

    @property
    def key(self) -> str:
        return f"{self.suite_id}@{self.version}"


class References(Struct, frozen=True):
    agents: tuple[AgentDefinition, ...]
    suites: tuple[PackSuite, ...]


def resolve(manifest: PackManifest, files: Mapping[str, bytes], read_suite: SuiteReader) -> References:
    """Read every file that the manifest refers to. A refusal lists all that are missing or invalid."""
    resolver = _Resolver(manifest, files, read_suite)
    agents = tuple(resolver.agent(at, agent) for at, agent in enumerate(manifest.agents))
    entry = manifest.runtime.entry
    if "://" not in entry:
        resolver.read(entry, "runtime.entry", lambda data: data)
    if resolver.problems:
        code = resolver.problems[0][0]
        raise PackRefused(code, [problem for _, problem in resolver.problems])
    return References(agents, tuple(resolver.suites.values()))


class _Resolver:
    def __init__(self, manifest: PackManifest, files: Mapping[str, bytes], read_suite: SuiteReader) -> None:
        self._manifest, self._files, self._read_suite = manifest, files, read_suite
        self.problems: list[tuple[Code, Problem]] = []
        self.suites: dict[str, PackSuite] = {}  # by path

    def agent(self, at: int, agent: AgentManifest) -> AgentDefinition:
        place = f"agents[{at}]"
        prompt = agent.system_prompt
        if isinstance(agent.system_prompt_ref, str):
            prompt = self.read(agent.system_prompt_ref, f"{place}.systemPromptRef", _text)
        task = result = None
        if not isinstance(agent.handoff, UnsetType):
            task = self._schema(agent.handoff.task_schema_ref, f"{place}.handoff.taskSchemaRef")
            result = self._schema(agent.handoff.return_schema_ref, f"{place}.handoff.returnSchemaRef")
        suite_path = ""
        if isinstance(agent.eval_suite_ref, str):
            suite_path = agent.eval_suite_ref
            if suite_path not in self.suites:
                self.read(suite_path, f"{place}.evalSuiteRef", lambda data: self._suite(suite_path, data))
        return AgentDefinition(
            pack=self._manifest.name,
            version=self._manifest.version,
            manifest=agent,
            prompt=prompt if isinstance(prompt, str) else "",
            task_schema=task,
            return_schema=result,
            suite_path=suite_path,
            optional_peers=optional_peers(self._manifest),
        )

    def read(self, path: str, place: str, parse: Callable[[bytes], T]) -> T | None:
        """What the file holds, or None after a problem."""
        place = f"{PACK_JSON}: {place}"
        try:
            check_path(path)
        except PackRefused as refused:
            problem = Problem(place, f"{path[:255]}: {refused.problems[0].message}")
            self.problems.append(("tarball_path_traversal", problem))
            return None
        data = self._files.get(path)
        if data is None:
            self.problems.append(
                ("tarball_entry_missing", Problem(place, f"there is no file {path} in the pack"))
            )
            return None
        try:
            return parse(data)
        except InvalidRequest as wrong:
            found = (Problem(f"{path}: {one.place}".rstrip(": "), one.message) for one in wrong.problems)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as wrong:
            found = (Problem(path, str(wrong)),)
        left = MOST_PROBLEMS - len(self.problems)
        self.problems.extend(("invalid_manifest", problem) for problem in islice(found, max(0, left)))
        return None

    def _schema(self, path: str | UnsetType, place: str) -> dict[str, Any] | None:
        return None if isinstance(path, UnsetType) else self.read(path, place, _schema)

    def _suite(self, path: str, data: bytes) -> None:
        suite = self._read_suite(_json(data, DEEPEST_SUITE))
        found = PackSuite(suite_id=suite.suite_id, version=suite.version, path=path, digest=hex_digest(data))
        for other in self.suites.values():
            if other.key == found.key:
                raise InvalidRequest(f"{other.path} has the same suite, {found.key}")
        self.suites[path] = found


def _text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as wrong:
        raise ValueError(f"not UTF-8: {wrong.reason} at byte {wrong.start:,}") from None
    if not text.strip():
        raise ValueError("expected a prompt, got an empty file")
    return text


def _json(data: bytes, deepest: int) -> Any:
    check_elements(data, MAX_ELEMENTS, setting="")
    try:
        document = msgspec.json.decode(data)
        twice = duplicate_member(data, document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise ValueError(f"not JSON: {wrong}") from None
    if twice is not None:
        raise ValueError(f"{twice}: {TWICE}")
    if is_deeper(document, deepest):
        raise ValueError(f"expected at most {deepest} levels of nesting")
    return document


def _schema(data: bytes) -> dict[str, Any]:
    document = _json(data, DEEPEST_SCHEMA)
    if not is_object(document):
        raise ValueError("expected a JSON Schema, which is an object")
    dialect = document.get("$schema", DIALECT)
    if not isinstance(dialect, str) or dialect.rstrip("#") != DIALECT:
        raise ValueError(f"expected a schema of 2020-12 ({DIALECT}), got {str(dialect)[:200]!r}")
    validator_for(data)
    return document
