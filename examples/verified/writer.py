"""An actor that writes a release note, and a critic that reviews it. Both are pure functions."""

from typing import Any


def write(task: Any) -> str:
    """Return a short first draft; after notes, return a draft that follows them."""
    notes = task["notes"] if isinstance(task, dict) else []
    draft = "2.1 is faster."
    if any("upgrade" in note or "command" in note for note in notes):
        draft += " To upgrade, run migrate once."
    return draft


def read(about: dict[str, Any]) -> dict[str, Any]:
    """Return a verdict on the draft, with notes for the next turn."""
    if "migrate" in about["result"]:
        return {"verdict": "pass", "confidence": 0.9}
    return {"verdict": "revise", "notes": "say how to upgrade"}
