"""An actor that writes a release note, and a critic that reads it; each is a function of what it is given."""

from typing import Any


def write(task: Any) -> str:
    """The first draft says too little; a draft after notes says what they ask for."""
    notes = task["notes"] if isinstance(task, dict) else []
    draft = "2.1 is faster."
    if any("upgrade" in note or "command" in note for note in notes):
        draft += " To upgrade, run migrate once."
    return draft


def read(about: dict[str, Any]) -> dict[str, Any]:
    """A verdict on the draft, and what the writer should know for the next."""
    if "migrate" in about["result"]:
        return {"verdict": "pass", "confidence": 0.9}
    return {"verdict": "revise", "notes": "say how to upgrade"}
