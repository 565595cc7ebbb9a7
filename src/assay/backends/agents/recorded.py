"""An agent whose answers are in a file. Several records of one task are its trials, in their order."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.backends.agents.frames import ProtocolError, parse_end, read_end, read_json
from assay.errors import ForeignFault, Problem, UsageError
from assay.ports.agents import AgentContext
from assay.protocol.agent_evals import EvalTask
from assay.protocol.agents import AgentCard, InvocationResult
from assay.protocol.canonical import canonical
from assay.protocol.json_types import is_list, is_object

KEYS = ("taskId", "input")
LISTED = 20  # problems that a refusal lists


class Record(Struct, frozen=True):
    """One answer and its place in the file: `answers.jsonl:3`."""

    place: str
    end: dict[str, Any]


class RecordedAgent:
    """
    The file is a JSON object of results by task id, or a list (or lines) of `{"taskId" or "input", "result", …}`.

    The first record of a task is its first trial, the second its second. A trial without a record is not measured.
    """

    system_prompt: str | None = None

    def __init__(self, card: AgentCard, file: str, path: str = "") -> None:
        self.card, self._file = card, Path(file).name
        self._by_id: defaultdict[str, list[Record]] = defaultdict(list)
        self._by_input: defaultdict[str, list[Record]] = defaultdict(list)
        self._inputs: list[tuple[str, Record]] = []  # of records without a task id
        path = path or card.agent_id
        for where, record in _records(Path(file), path):
            self._add(record, where, f"{path}: {file}: {where}")

    async def invoke(self, task: Any, context: AgentContext) -> InvocationResult:
        records = self._records_of(context.task_id, task)
        if context.trial >= len(records):
            trial = f"trial {context.trial + 1} of " if records else ""
            raise ForeignFault(f"{self._file} has no answer for {trial}{context.task_id or 'this input'}")
        try:
            return read_end(records[context.trial].end, context)
        except ValueError as wrong:
            return InvocationResult(outcome="failed", error=f"its record is invalid: {wrong}")

    async def close(self) -> None: ...

    def problems(
        self, suite: Sequence[EvalTask], tasks: Sequence[EvalTask], trials: int, *, noun: str = "task"
    ) -> list[Problem]:
        """Every covered task needs one record a trial; a record of a task that the suite does not have is a mistake."""
        found = [
            *self._unknown(suite, noun),
            *self._count_problems(tasks, trials, noun),
            *self._shape_problems(tasks, noun),
        ]
        rest = len(found) - LISTED
        return [*found[:LISTED], *([Problem(self._file, f"and {rest} more like these")] if rest > 0 else [])]

    def _unknown(self, suite: Sequence[EvalTask], noun: str) -> Iterator[Problem]:
        whole = "suite" if noun == "task" else "dataset"
        ids = {task.task_id for task in suite}
        for task_id, records in self._by_id.items():
            if task_id not in ids:
                for record in records:
                    yield Problem(
                        record.place, f"expected a record of a {noun} of the {whole}, got {task_id!r}"
                    )
        if self._inputs:
            inputs = {canonical(task.input) for task in suite}
            for text, record in self._inputs:
                if text not in inputs:
                    yield Problem(
                        record.place, f"expected a record of a {noun} of the {whole}, got another input"
                    )

    def _count_problems(self, tasks: Sequence[EvalTask], trials: int, noun: str) -> Iterator[Problem]:
        for task in tasks:
            records = self._records_of(task.task_id, task.input)
            if len(records) != trials:
                surplus = records[trials:]
                place = surplus[0].place if surplus else records[-1].place if records else self._file
                have = f"{len(records)} record{'' if len(records) == 1 else 's'}"
                need = f"{trials} trial{'' if trials == 1 else 's'}"
                yield Problem(
                    place, f"{noun} {task.task_id!r}: expected a record for each of {need}, got {have}"
                )

    def _shape_problems(self, tasks: Sequence[EvalTask], noun: str) -> Iterator[Problem]:
        """A mistake in the file is not an answer of the agent, and gets no score."""
        for task in tasks:
            for record in self._records_of(task.task_id, task.input):
                try:
                    parse_end(record.end)
                except ProtocolError as wrong:
                    yield Problem(record.place, f"a record of {noun} {task.task_id!r}: {wrong}")

    def _records_of(self, task_id: str, task: Any) -> list[Record]:
        """The records of a task, by its id or else by its input."""
        if task_id in self._by_id:
            return self._by_id[task_id]
        return self._by_input.get(canonical(task), []) if self._by_input else []

    def _add(self, record: Any, location: str, path: str) -> None:
        if not is_object(record) or not (record.keys() & set(KEYS)):
            raise UsageError(f"{path}: expected an object with taskId or input, and result")
        entry = Record(location, {name: value for name, value in record.items() if name not in KEYS})
        task_id = record.get("taskId")
        if isinstance(task_id, str):
            self._by_id[task_id].append(entry)
        if "input" in record:
            text = canonical(record["input"])
            self._by_input[text].append(entry)
            if not isinstance(task_id, str):
                self._inputs.append((text, entry))


def _records(file: Path, path: str) -> list[tuple[str, Any]]:
    """Each record with its place: a line of a `.jsonl`, or its number in the list."""
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as refused:
        raise UsageError(f"{path}: {file}: expected a file that can be read, got {refused}") from None
    where = file.name
    try:
        if file.suffix == ".jsonl":
            lines = enumerate(text.split("\n"), 1)
            return [(where := f"{file.name}:{at}", read_json(line)) for at, line in lines if line.strip()]
        document = read_json(text)
    except ProtocolError as wrong:
        raise UsageError(f"{path}: {file.parent / where}: {wrong}") from None
    if is_object(document):
        return [(file.name, {"taskId": task_id, "result": result}) for task_id, result in document.items()]
    if not is_list(document):
        raise UsageError(
            f"{path}: {file}: expected an object of results, or a list of records, got {json.dumps(document)[:40]}"
        )
    return [(f"{file.name}: record {at}", record) for at, record in enumerate(document, 1)]
