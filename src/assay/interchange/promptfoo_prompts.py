"""The prompts of a promptfoo configuration: texts, files, and messages of a chat."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.interchange.imported import CannotCarry, ImportReport
from assay.interchange.own_files import CODE, SCHEME, OwnFiles
from assay.protocol.json_types import is_list, is_object

ELSEWHERE = "exec:", "package:", "langfuse://", "helicone://", "portkey://"


class Prompt(NamedTuple):
    """A template. `raw` is a text, or the messages of a chat."""

    label: str
    raw: Any


def prompts_of(given: Any, files: OwnFiles, name: str, report: ImportReport) -> Iterator[Prompt]:
    """Every prompt of a configuration. One that cannot be read is noted."""
    if is_object(given):
        several: list[Any] = [{"id": file, "label": label} for file, label in given.items()]
    else:
        several = given if is_list(given) else [given]
    for at, one in enumerate(several):
        try:
            yield from _prompt(one, files)
        except CannotCarry as why:
            report.leave(f"{name}: prompts[{at}]", "a prompt", str(why))


def _prompt(one: Any, files: OwnFiles) -> Iterator[Prompt]:
    label, raw = None, one
    if is_object(one):
        label, raw = one.get("label"), one.get("raw", one.get("id"))
        if one.get("config"):
            raise CannotCarry("a prompt with a config of its own belongs to a provider")
    if not isinstance(raw, str):
        raise CannotCarry("it is no text")
    if raw.startswith(ELSEWHERE):
        raise CannotCarry("prompts of programs and services are not fetched")
    if not raw.startswith(SCHEME) and not files.has(raw):
        yield Prompt(str(label or raw), messages_of(raw))
        return
    if any(f"{suffix}:" in raw or raw.endswith(suffix) for suffix in CODE):
        raise CannotCarry("code is not run")
    for path in files.find(raw):
        for text in _texts_of(files.text(path), path):
            yield Prompt(str(label or text), messages_of(text))


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
