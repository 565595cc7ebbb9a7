"""The definition of a workflow (`workflow-definition.schema.json`), and why it cannot run (openwop-contract §13.3)."""

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.errors import InvalidRequest, Problem
from assay.protocol.validation_messages import message_of, path_in


class Node(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    typeId: str  # noqa: N815  # the wire's names
    name: str
    position: dict[str, float]
    config: dict[str, Any]
    inputs: dict[str, dict[str, Any]]
    agent: dict[str, Any] | UnsetType = UNSET
    settings: dict[str, Any] | UnsetType = UNSET

    @property
    def channel(self) -> str | None:
        """The channel of the agent's deployment, if the author bound one (RFC 0082)."""
        return None if self.agent is UNSET else self.agent.get("channel")

    @property
    def agent_id(self) -> str | None:
        """The agent that the author assigned to this node."""
        return self.config.get("agentId") or (self.agent["agentId"] if self.agent is not UNSET else None)


class Edge(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    sourceNodeId: str  # noqa: N815
    targetNodeId: str  # noqa: N815
    condition: dict[str, Any] | UnsetType = UNSET
    triggerRule: str | UnsetType = UNSET  # noqa: N815


class Variable(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    type: str
    description: str | UnsetType = UNSET
    required: bool = False
    defaultValue: Any = UNSET  # noqa: N815


class Workflow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    name: str
    version: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    triggers: tuple[dict[str, Any], ...]
    variables: tuple[Variable, ...]
    metadata: dict[str, Any]
    settings: dict[str, Any]
    description: str | UnsetType = UNSET
    configurableSchema: dict[str, Any] | UnsetType = UNSET  # noqa: N815

    def node(self, id: str) -> Node | None:
        return next((node for node in self.nodes if node.id == id), None)

    @property
    def gates(self) -> bool:
        """Whether every verdict decides, and none is only recorded."""
        places = [place for node in self.nodes for place in (node.config, node.settings)]
        return all(place.get("gating", True) for place in places if isinstance(place, dict))


DISPATCH = "core.dispatch"
SUPERVISOR = "core.orchestrator.supervisor"
TURN = "assay.turn"
TEST_ONLY = "core.conformance."  # node types
CONFORMANCE = "conformance-"  # workflows
AFTER_A_DECISION = (DISPATCH, TURN)
DISPATCH_CONFIG = {
    "askUserRouting": ("auto", "clarification", "conversation"),
    "workerDispatchModel": ("child-run",),
    "fanOutPolicy": ("sequential", "reject"),
}
MAPPINGS = ("inputMapping", "outputMapping")
PER_WORKER = ("perWorkerInputMappings", "perWorkerOutputMappings")


def read(document: Any) -> Workflow:
    """Parse a definition. A problem is an InvalidRequest with its JSON path."""
    try:
        return msgspec.convert(document, Workflow)
    except msgspec.ValidationError as wrong:
        raise InvalidRequest(Problem(path_in(wrong).lstrip("."), message_of(wrong, Workflow))) from None


def document_of(workflow: Workflow) -> dict[str, Any]:
    """The JSON of a definition (openwop-contract §1.3)."""
    document: dict[str, Any] = msgspec.to_builtins(workflow)
    return document


def problems(workflow: Workflow, types: Collection[str]) -> list[Problem]:
    """Every reason why it cannot be registered here. `types` are the node types of this host."""
    ids = [node.id for node in workflow.nodes]
    found = [Problem("nodes", "expected at least one node")] if not ids else []
    found += [
        Problem(f"nodes[{at}].id", f"expected an id of its own, got {id!r}, which an earlier node has")
        for at, id in enumerate(ids)
        if id in ids[:at]
    ]
    for at, node in enumerate(workflow.nodes):
        if node.typeId not in types:
            what = f"there is no node type {node.typeId!r}; there are {', '.join(sorted(types))}"
            found.append(Problem(f"nodes[{at}].typeId", what))
        if node.typeId.startswith(TEST_ONLY) and not workflow.id.startswith(CONFORMANCE):
            found.append(Problem(f"nodes[{at}].typeId", "expected a workflow of a conformance suite with it"))
        if node.agent is not UNSET and {"version", "channel"} <= node.agent.keys():
            found.append(Problem(f"nodes[{at}].agent", "expected a version or a channel, got both"))
        found += _mock_problems(workflow, node, f"nodes[{at}].config")
        if node.typeId == DISPATCH:
            found += _dispatch_problems(node, f"nodes[{at}].config")
    found += _edge_problems(workflow, ids)
    present = {node.typeId for node in workflow.nodes}
    for type in AFTER_A_DECISION:
        if type in present and SUPERVISOR not in present:
            found.append(Problem("nodes", f"a {type} node needs a {SUPERVISOR} node, which decides for it"))
    return found


def _mock_problems(workflow: Workflow, node: Node, path: str) -> list[Problem]:
    """Mock settings are expected a workflow of a conformance suite with it (openwop-contract §13.2, §13.4)."""
    mocked = [name for name in node.config if name.startswith("mock")]
    if mocked and not workflow.id.startswith(CONFORMANCE):
        return [
            Problem(f"{path}.{name}", "expected a workflow of a conformance suite with it") for name in mocked
        ]
    calls: Any = node.config.get("mockToolCalls", ())
    return [
        Problem(f"{path}.mockToolCalls[{at}]", "expected either a result or an error")
        for at, call in enumerate(calls)
        if ("result" in call) == ("error" in call)
    ]


def _edge_problems(workflow: Workflow, ids: list[str]) -> list[Problem]:
    found: list[Problem] = []
    for at, edge in enumerate(workflow.edges):
        ends = {"sourceNodeId": edge.sourceNodeId, "targetNodeId": edge.targetNodeId}
        found += [
            Problem(f"edges[{at}].{name}", f"there is no node {end!r}")
            for name, end in ends.items()
            if end not in ids
        ]
        if edge.condition is not UNSET or edge.triggerRule not in (UNSET, "all_success"):
            found.append(Problem(f"edges[{at}]", "this host has no conditions and trigger rules"))
    return found


def _dispatch_problems(node: Node, path: str) -> list[Problem]:
    """`dispatch-config.schema.json`, which is closed."""
    found: list[Problem] = []
    for name, value in node.config.items():
        at = f"{path}.{name}"
        if name in DISPATCH_CONFIG:
            if value not in DISPATCH_CONFIG[name]:
                found.append(
                    Problem(at, f"expected one of {', '.join(DISPATCH_CONFIG[name])}, got {value!r}")
                )
            elif value == "conversation":
                found.append(Problem(at, "this host has no conversations; use auto or clarification"))
        elif name == "iterationCap":
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                found.append(Problem(at, f"expected a whole number from 1, got {value!r}"))
        elif name in MAPPINGS or name in PER_WORKER:
            maps = {"": value} if name in MAPPINGS else value
            if not _is_mapping_of_texts(maps):
                found.append(Problem(at, "expected an object with a name for each name"))
        else:
            found.append(Problem(at, "no such member of a dispatch node"))
    return found


def _is_mapping_of_texts(maps: Any) -> bool:
    try:
        msgspec.convert(maps, dict[str, dict[str, str]])
    except msgspec.ValidationError:
        return False
    return True


def starts_and_backs(workflow: Workflow) -> tuple[str, frozenset[str]]:
    """Where it begins, and the ids of the edges that lead back to a node on the way there."""
    targets = {edge.targetNodeId for edge in workflow.edges}
    first = next((node.id for node in workflow.nodes if node.id not in targets), workflow.nodes[0].id)
    backs: set[str] = set()
    done: set[str] = set()

    def walk(node: str, path: tuple[str, ...]) -> None:
        for edge in workflow.edges:
            if edge.sourceNodeId == node:
                if edge.targetNodeId in (*path, node):
                    backs.add(edge.id)
                elif edge.targetNodeId not in done:
                    walk(edge.targetNodeId, (*path, node))
        done.add(node)

    for node in workflow.nodes:
        if node.id == first or node.id not in targets:
            walk(node.id, ())
    return first, frozenset(backs)
