"""The prompts of a promptfoo configuration: texts, files, and messages of a chat."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.interchange.imported import CannotCarry, ImportReport
from assay.interchange.own_files import CODE, SCHEME, OwnFiles
from assay.protocol.json_types import is_list, is_object

_WHY = {"config": "it belongs to a provider", "function": "code is not run", "id": "tests name prompts by it"}
ELSEWHERE = "exec:", "package:", "langfuse://", "helicone://", "portkey://"


class Prompt(NamedTuple):
    """A template. `raw` is a text, or the messages of a chat."""

    label: str
    raw: Any
    id: str | None = None

    def is_one_of(self, references: list[Any]) -> bool:
        """Whether a test that names prompts names this one: whole, by its file, or with `*` at the end."""
        own = [one for one in (self.label, self.id) if one]
        return any(
            name == one or name.startswith(f"{one}:") or (one.endswith("*") and name.startswith(one[:-1]))
            for one in references
            if isinstance(one, str)
            for name in own
        )


def prompts_of(given: Any, files: OwnFiles, name: str, report: ImportReport) -> Iterator[Prompt]:
    """Every prompt of a configuration. One that cannot be read is noted."""
    if is_object(given):
        several: list[Any] = [{"id": file, "label": label} for file, label in given.items()]
    else:
        several = given if is_list(given) else [given]
    for at, one in enumerate(several):
        try:
            yield from _prompt(one, files)
            if is_object(one):
                carried = ("id", "label") if "raw" not in one else ("raw", "label")
                report.leave_others(one, carried, f"{name}: prompts[{at}]", "prompt.", _WHY)
        except CannotCarry as why:
            report.leave(f"{name}: prompts[{at}]", "a prompt", str(why))


def _prompt(one: Any, files: OwnFiles) -> Iterator[Prompt]:
    label, raw, identity = None, one, None
    if is_object(one):
        label, raw, identity = one.get("label"), one.get("raw", one.get("id")), one.get("id")
    identity = identity if isinstance(identity, str) else None
    if not isinstance(raw, str):
        raise CannotCarry("it is no text")
    if raw.startswith(ELSEWHERE):
        raise CannotCarry("prompts of programs and services are not fetched")
    if not raw.startswith(SCHEME) and not files.has(raw):
        yield Prompt(str(label or raw), messages_of(raw), identity)
        return
    if any(f"{suffix}:" in raw or raw.endswith(suffix) for suffix in CODE):
        raise CannotCarry("code is not run")
    for path in files.find(raw):
        for text in _texts_of(files.text(path), path):
            yield Prompt(f"{label or path.name}: {text}", messages_of(text), identity)


def _texts_of(text: str, path: Path) -> list[str]:
    """A text file has several prompts, between lines of three dashes."""
    if path.suffix != ".txt":
        return [text.strip()]
    parts = (part.strip() for part in text.replace("\r\n", "\n").split("\n---\n"))
    return [part for part in parts if part]


def messages_of(text: str) -> Any:
    """The messages of a chat, if a prompt is a JSON list of them; else the text."""
    if not text.lstrip().startswith("["):
        return text
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text
    chat = is_list(found) and bool(found) and all(is_object(one) and "role" in one for one in found)
    return found if chat else text
