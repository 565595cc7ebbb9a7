"""pack.json (openwop-contract §7.2): unknown members are refused, and all problems are reported together."""

import re
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.errors import MOST_PROBLEMS, InvalidRequest, Problem
from assay.packs.archive import MAX_ELEMENTS, PackRefused
from assay.protocol.duplicates import TWICE, check_elements, duplicate_member
from assay.protocol.json_types import is_deeper, is_list, is_object
from assay.protocol.manifest import AGENT_ID, AgentManifest, read_manifest
from assay.protocol.validation_messages import message_of, path_in
from assay.protocol.versions import VersionRange

PACK_JSON = "pack.json"
DEEPEST = 64  # levels of nesting
MAX_DEPENDENCIES = 100  # packs
NAME = AGENT_ID  # `local.` besides the scopes of a registry
VERSION = r"^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?\Z"
OPEN_NAMESPACES = ("private.", "local.")  # packs of these need no signature and no digest
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Closed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    pass


class PackRuntime(_Closed, frozen=True, kw_only=True):
    language: Literal["javascript", "python", "go", "wasm", "wasm-component", "remote"]
    entry: str
    format: (
        Literal["esm", "cjs", "wheel", "binary", "shared-library", "wasm", "wasm-component"] | UnsetType
    ) = UNSET
    min_runtime_version: str | UnsetType = UNSET
    requires: (
        tuple[
            Literal[
                "net.dns", "net.outbound", "crypto", "subprocess", "fs.read", "fs.write", "env.read", "clock"
            ],
            ...,
        ]
        | UnsetType
    ) = UNSET


class Signing(_Closed, frozen=True, kw_only=True):
    public_key_ref: _Text | UnsetType = UNSET
    signature_ref: _Text | UnsetType = UNSET
    method: Literal["manual", "sigstore"] | UnsetType = UNSET


class PeerDependency(_Closed, frozen=True, kw_only=True):
    optional: bool = False


class Engines(Struct, frozen=True, kw_only=True):
    openwop: _Text


class PackManifest(_Closed, frozen=True, kw_only=True):
    name: Annotated[str, msgspec.Meta(pattern=NAME, max_length=256)]
    version: Annotated[str, msgspec.Meta(pattern=VERSION, max_length=64)]
    engines: Engines
    runtime: PackRuntime
    kind: Literal["node"] | UnsetType = UNSET
    description: Annotated[str, msgspec.Meta(max_length=1024)] | UnsetType = UNSET
    author: str | UnsetType = UNSET
    license: str | UnsetType = UNSET
    homepage: str | UnsetType = UNSET
    repository: str | UnsetType = UNSET
    keywords: (
        Annotated[tuple[Annotated[str, msgspec.Meta(max_length=64)], ...], msgspec.Meta(max_length=50)]
        | UnsetType
    ) = UNSET
    dependencies: dict[str, str] | UnsetType = UNSET
    peer_dependencies: dict[str, str] | UnsetType = UNSET
    peer_dependencies_meta: dict[str, PeerDependency] | UnsetType = UNSET
    nodes: tuple[dict[str, Any], ...] | UnsetType = UNSET
    agents: tuple[AgentManifest, ...] = ()
    signing: Signing | UnsetType = UNSET
    connector: dict[str, Any] | UnsetType = UNSET

    @property
    def key(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def is_open(self) -> bool:
        """Whether its namespace allows a pack without a signature and a digest."""
        return self.name.startswith(OPEN_NAMESPACES)


FIELDS = {field.encode_name: field for field in msgspec.structs.fields(PackManifest)}


def parse_json(data: bytes) -> Any:
    """The value of pack.json."""
    try:
        check_elements(data, MAX_ELEMENTS, setting="")
        document = msgspec.json.decode(data)
        twice = duplicate_member(data, document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise PackRefused("tarball_manifest_not_json", Problem(PACK_JSON, f"not JSON: {wrong}")) from None
    except InvalidRequest as wrong:
        raise PackRefused("invalid_manifest", Problem(PACK_JSON, wrong.problems[0].message)) from None
    if twice is not None:
        raise PackRefused("invalid_manifest", Problem(twice, TWICE))
    if is_deeper(document, DEEPEST):
        message = f"expected at most {DEEPEST} levels of nesting"
        raise PackRefused("invalid_manifest", Problem(PACK_JSON, message))
    return document


def read_pack_manifest(document: Any) -> PackManifest:
    """Parse pack.json; a refusal lists all problems."""
    if not is_object(document):
        raise PackRefused("invalid_manifest", Problem(PACK_JSON, "expected an object"))
    problems = [
        Problem(name, f"pack.json has no such member; it may have {', '.join(FIELDS)}")
        for name in islice((name for name in document if name not in FIELDS), MOST_PROBLEMS)
    ]
    for name, field in FIELDS.items():
        if name not in document:
            problems += [Problem(name, "is required")] if field.required else []
        elif name != "agents":
            try:
                msgspec.convert(document[name], field.type)
            except msgspec.ValidationError as wrong:
                problems.append(Problem(name + path_in(wrong), message_of(wrong, field.type)))
    problems += _agent_problems(document)
    problems += _range_problems(document)
    if problems:
        raise PackRefused(
            "invalid_manifest", [Problem(f"{PACK_JSON}: {one.place}", one.message) for one in problems]
        )
    manifest = msgspec.convert(document, PackManifest)
    if manifest.nodes or not manifest.agents or manifest.runtime.language != "remote":
        message = (
            "this host runs the agents of packs and no nodes or code:"
            ' expected agents, no nodes, and runtime.language "remote"'
        )
        raise PackRefused("unsupported_runtime", Problem(f"{PACK_JSON}: runtime", message))
    return manifest


def _range_problems(document: dict[str, Any]) -> list[Problem]:
    """Ranges of versions that are malformed, and dependencies that name no pack."""
    engines, dependencies = document.get("engines"), document.get("dependencies", {})
    ranges: dict[str, Any] = {"engines.openwop": engines.get("openwop")} if is_object(engines) else {}
    problems: list[Problem] = []
    if is_object(dependencies):
        ranges |= {f"dependencies.{name[:256]}": value for name, value in dependencies.items()}
        if len(dependencies) > MAX_DEPENDENCIES:
            message = f"expected at most {MAX_DEPENDENCIES} packs, got {len(dependencies)}"
            problems.append(Problem("dependencies", message))
        problems += [
            Problem(f"dependencies.{name[:256]}", "expected the name of another pack")
            for name in islice(dependencies, MAX_DEPENDENCIES)
            if not re.search(NAME, name) or name == document.get("name")
        ]
    for place, value in islice(ranges.items(), MAX_DEPENDENCIES + 1):
        try:
            VersionRange(value if isinstance(value, str) else "*")
        except ValueError as wrong:
            message = f"expected a range of versions such as >=1.1.0 <2.0.0, got {value[:80]!r}: {wrong}"
            problems.append(Problem(place, message))
    return problems


def _agent_problems(document: dict[str, Any]) -> list[Problem]:
    """Problems of the agents, and the rule that their ids begin with the name of the pack."""
    agents, nodes = document.get("agents", []), document.get("nodes")
    if not is_list(agents):
        return [Problem("agents", "expected a list of manifests")]
    if not agents and not nodes:
        return [Problem("agents", "expected at least one agent")]
    problems: list[Problem] = []
    seen: set[str] = set()
    for at, agent in enumerate(agents):
        _, found = read_manifest(agent)
        problems += [Problem(f"agents[{at}].{one.place}".rstrip("."), one.message) for one in found]
        id: Any = agent.get("agentId") if is_object(agent) else None
        name = document.get("name")
        if not isinstance(id, str):
            continue
        if isinstance(name, str) and re.search(NAME, name) and not id.startswith(f"{name}."):
            message = f"expected an id that begins with {name}., got {id[:256]!r}"
            problems.append(Problem(f"agents[{at}].agentId", message))
        if id in seen:
            problems.append(
                Problem(
                    f"agents[{at}].agentId",
                    f"expected an id of its own, got {id[:256]!r}, which another agent has",
                )
            )
        if len(problems) >= MOST_PROBLEMS:
            break
        seen.add(id)
    return problems
