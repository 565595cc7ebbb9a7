"""A verifier loop from the settings (`[workflows."ID"]` in assay.toml), and the workflow built from it."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from assay.errors import InvalidRequest, Problem
from assay.ports.config import VerifierLoopConfig
from assay.protocol.json_types import is_object
from assay.protocol.validation_messages import message_of, path_in
from assay.workflow.library import Library
from assay.workflow.nodes import NODES
from assay.workflow.nodes.turn import WORKFLOW
from assay.workflow.state.definition import SUPERVISOR, TURN, Workflow, read

NAME = re.compile(r"[a-z][a-z0-9_-]{0,127}")
CHECKS = "checks"  # the critic that runs the criteria as checks


def read_loop(id: str, table: Any) -> VerifierLoopConfig:
    """Parse a loop. An InvalidRequest lists every problem."""
    place = f'workflows."{id}"'
    if not is_object(table):
        raise InvalidRequest(Problem(place, "expected a table"))
    try:
        loop = msgspec.convert(table, VerifierLoopConfig)
    except msgspec.ValidationError as wrong:
        raise InvalidRequest(Problem(place + path_in(wrong), message_of(wrong, VerifierLoopConfig))) from None
    if found := loop_problems(id, loop):
        raise InvalidRequest(
            [Problem(f"{place}.{one.place}" if one.place else place, one.message) for one in found]
        )
    return loop


def loop_problems(id: str, loop: VerifierLoopConfig) -> list[Problem]:
    found: list[Problem] = []
    if NAME.fullmatch(id) is None:
        found.append(
            Problem(
                "", "expected an id of at most 128 characters, a-z, 0-9, - and _, that starts with a letter"
            )
        )
    keys = list(loop.criteria)
    if any(not key.strip() for key in keys):
        found.append(Problem("criteria", "expected a name for each criterion"))
    found += [Problem("criteria", f"{key!r} is named twice") for key in sorted(_duplicates(keys))]
    if CHECKS in loop.critics and not is_object(loop.criteria):
        found.append(Problem("critics", "`checks` needs criteria that are checks"))
    found += [
        Problem("critics", f"{critic!r} is named twice") for critic in sorted(_duplicates(loop.critics))
    ]
    if not loop.allow_self and loop.actor in loop.critics:
        found.append(
            Problem(
                "critics", f"{loop.actor!r} is the actor: expected critics of another agent, or allow_self"
            )
        )
    return found


def _duplicates(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _indirect_self_verification(
    loop: VerifierLoopConfig, loops: Mapping[str, VerifierLoopConfig]
) -> list[Problem]:
    """The problem that a critic would verify its own work, because the actor is a workflow in which it is the actor."""
    actor, through = loop.actor, set[str]()
    while actor.startswith(WORKFLOW) and actor not in through:
        through.add(actor)
        inner = loops.get(actor.removeprefix(WORKFLOW))
        actor = actor if inner is None else inner.actor
    if loop.allow_self or not through or actor not in loop.critics:
        return []
    message = f"{actor!r} may not verify its own work, and it is the actor of {loop.actor!r} (allow_self)"
    return [Problem("critics", message)]


def library(
    loops: Mapping[str, VerifierLoopConfig],
    workflows: Iterable[Workflow] = (),
    nodes: Collection[str] = NODES,
) -> Library:
    """The declared loops and the other workflows that can be started here. All problems are reported together."""
    found = [
        Problem(f'workflows."{id}".{one.place}'.rstrip("."), one.message)
        for id, loop in loops.items()
        for one in (*loop_problems(id, loop), *_indirect_self_verification(loop, loops))
    ]
    if found:
        raise InvalidRequest(found)
    made = Library(workflows, nodes)
    for id, loop in loops.items():
        made.add(workflow_of(id, loop))
    return made


def workflow_of(id: str, loop: VerifierLoopConfig) -> Workflow:
    """A workflow with a supervisor node, a turn node, and an edge back."""
    critics: list[dict[str, Any]] = [{"agent": one} for one in loop.critics if one != CHECKS]
    if is_object(loop.criteria) and loop.criteria:
        critics.append({"checks": loop.criteria, "failing": loop.failing})
    keys = list(loop.criteria)
    decides = {"actor": loop.actor, "criteria": keys, "supervisor": loop.supervisor}
    turn: dict[str, Any] = {
        "actor": loop.actor,
        "critics": critics,
        "criteria": keys,
        "maxTurns": loop.max_turns,
        "gating": loop.gating,
        "onFail": loop.on_fail,
        "verify": loop.verify,
    }
    if loop.floors is not None:
        turn["floors"] = msgspec.structs.asdict(loop.floors)
    if loop.approval_seconds is not None:
        turn["expiresSeconds"] = decides["expiresSeconds"] = loop.approval_seconds  # pyright: ignore[reportArgumentType]
    if loop.memory:
        turn["memoryRef"] = loop.memory
    if loop.actor.startswith(WORKFLOW):
        turn["requireApproval"] = loop.approve
    nodes = [("supervisor", SUPERVISOR, decides), ("actor", TURN, turn)]
    return read(
        {
            "id": id,
            "name": id.replace("-", " "),
            "version": "1.0",
            "nodes": [
                {
                    "id": name,
                    "typeId": type,
                    "name": name,
                    "position": {"x": 200 * at, "y": 0},
                    "config": config,
                    "inputs": {},
                }
                for at, (name, type, config) in enumerate(nodes)
            ],
            "edges": [
                {"id": "go", "sourceNodeId": "supervisor", "targetNodeId": "actor"},
                {"id": "back", "sourceNodeId": "actor", "targetNodeId": "supervisor"},
            ],
            "triggers": [{"id": "manual", "type": "manual", "enabled": True}],
            "variables": [{"name": "task", "type": "object", "required": True}],
            "metadata": {"tags": ["verified"]},
            "settings": {},
        }
    )
