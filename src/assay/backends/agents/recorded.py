"""An agent that said it before: answers from a file, by task id or by input."""

import json
from pathlib import Path
from typing import Any

from assay.backends.agents.said import Unheard, read_end, read_json
from assay.errors import ForeignFault, WrongUsage
from assay.ports.agents import Scene
from assay.protocol.agents import AgentCard, Finish
from assay.protocol.canonical import canonical
from assay.protocol.values import is_list, is_object

KEYS = ("taskId", "input")


class RecordedAgent:
    """
    The file is a JSON object of results by task id, or a list (or lines) of `{"taskId" or "input", "result", …}`.

    A task it has no answer to was not measured: nobody was asked.
    """

    def __init__(self, card: AgentCard, file: str, place: str = "") -> None:
        self.card, self._file = card, file
        self._by_id: dict[str, dict[str, Any]] = {}
        self._by_input: dict[str, dict[str, Any]] = {}
        for at, record in enumerate(_records(Path(file), place or card.agent_id), 1):
            self._add(record, f"{place or card.agent_id}: {file}: record {at}")

    async def invoke(self, task: Any, scene: Scene) -> Finish:
        said = self._by_id.get(scene.task_id)
        if said is None:
            said = self._by_input.get(canonical(task)) if self._by_input else None
        if said is None:
            raise ForeignFault(f"{self._file} has no answer for {scene.task_id or 'this input'}")
        try:
            return read_end(said, scene)
        except ValueError as wrong:
            return Finish(outcome="failed", error=f"its record makes no sense: {wrong}")

    async def close(self) -> None: ...

    def _add(self, record: Any, place: str) -> None:
        if not is_object(record) or not (record.keys() & set(KEYS)):
            raise WrongUsage(f"{place}: wanted an object with taskId or input, and result")
        said = {name: value for name, value in record.items() if name not in KEYS}
        if isinstance(task_id := record.get("taskId"), str):
            self._by_id[task_id] = said
        if "input" in record:
            self._by_input[canonical(record["input"])] = said


def _records(file: Path, place: str) -> list[Any]:
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as refused:
        raise WrongUsage(f"{place}: {file} cannot be read: {refused}") from None
    try:
        if file.suffix == ".jsonl":
            return [read_json(line) for line in text.splitlines() if line.strip()]
        told = read_json(text)
    except Unheard as wrong:
        raise WrongUsage(f"{place}: {file}: {wrong}") from None
    if is_object(told):
        return [{"taskId": task_id, "result": result} for task_id, result in told.items()]
    if not is_list(told):
        raise WrongUsage(
            f"{place}: {file}: wanted an object of results, or a list of records, got {json.dumps(told)[:40]}"
        )
    return told
