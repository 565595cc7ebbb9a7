"""A dataset of OpenInference, as Phoenix takes it (`.jsonl`): an example for each result."""

from typing import Any

import msgspec

from assay.interchange.exports.exported import ExportedCase, ExportedRun, Write
from assay.protocol.json_types import JSON, is_object


class OpenInferenceDataset:
    """`output` of an example is the expected value, as experiments read it. What came is in `metadata.assay`."""

    def __init__(self, run: ExportedRun, write: Write) -> None:
        self._run, self._write = run, write
        self._ids: set[str] = set()  # Phoenix refuses a dataset where one occurs twice

    def add(self, case: ExportedCase) -> None:
        scores = {
            one.label: {
                **({} if one.score is None else {"score": one.score}),
                **({} if one.passed is None else {"label": "pass" if one.passed else "fail"}),
                "explanation": one.reason,
            }
            for one in case.scores
            if one.is_measured
        }
        about: JSON = {
            "run": self._run.id,
            "id": case.id,
            "trial": case.trial,
            "output": case.output,
            "scores": scores,
        }
        if case.not_measured:
            about["not_measured"] = case.not_measured
        if case.error is not None:
            about["error"] = case.error
        example = {
            "id": self._id_of(case),
            "input": _members("input", case.input),
            "output": _members("output", case.expected) if case.has_expected else {},
            "metadata": {**case.metadata, "assay": about},
        }
        self._write(msgspec.json.encode(example) + b"\n")

    def close(self) -> None: ...

    def _id_of(self, case: ExportedCase) -> str:
        """The id of the case, with the number of its trial after the first."""
        id, trial = case.id, case.trial
        while id in self._ids or (trial > 1 and id == case.id):
            id, trial = f"{case.id}#{trial}", trial + 1
        self._ids.add(id)
        return id


def _members(name: str, value: Any) -> JSON:
    """The value if it is an object; else an object with one member, as datasets have it."""
    return value if is_object(value) else {name: value}
