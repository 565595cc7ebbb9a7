"""The argument `parse` of checks (FEP-49): texts that hold JSON or a number. What cannot be parsed does not pass."""

import re
from collections.abc import Callable, Iterator
from math import isfinite
from typing import Annotated, Any, Literal, Protocol

import msgspec
from msgspec import Meta, UnsetType

from assay.checks.checker import Answer, AnswerWithMetadata, Number
from assay.checks.worker_tasks import WorkerTask
from assay.ports import Limits, Services
from assay.protocol.json_types import is_deeper, kind_of, preview
from assay.protocol.validation_messages import message_of

Parse = Annotated[
    Literal["json", "number"],
    Meta(description="how to read a text: as JSON or as a number, also inside a fenced code block"),
]
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")
_decode = msgspec.json.Decoder().decode


class Unparsable(ValueError):
    """A text does not hold what `parse` asks for."""


def not_parsed(reason: Unparsable) -> AnswerWithMetadata:
    """
    The answer for a text that cannot be parsed, whatever `negate` says. The reason is in the metadata of the result.
    """
    return AnswerWithMetadata({"passed": False}, {"parse_error": str(reason)})


class Runs(Protocol):
    """A check that does not wait."""

    def run(self, services: Services, /) -> Answer | WorkerTask: ...


def run_parsed(parse: Callable[[], Runs], services: Services) -> Answer | WorkerTask:
    """Run the check that `parse` makes of its texts. A text that cannot be parsed does not pass."""
    try:
        return parse().run(services)
    except Unparsable as reason:
        return not_parsed(reason)


def parse_value(value: Any, mode: Parse | UnsetType, limits: Limits) -> Any:
    """The value that a text holds. A value that is not a text stays as it is. Raises Unparsable."""
    if not isinstance(value, str) or isinstance(mode, UnsetType):
        return value
    read = _json if mode == "json" else _number
    try:
        return read(value, limits)
    except Unparsable as reason:
        for block in fenced_blocks(value):
            try:
                return read(block, limits)
            except Unparsable:
                continue  # perhaps the next block; the reason is that of the whole text
        raise reason from None


def parse_number(value: Any, mode: Parse, limits: Limits) -> int | float:
    """
    The number that a text holds, as JSON or as a number. Raises Unparsable, or ValueError if the value is not a text.
    """
    parsed = parse_value(value, mode, limits)
    if isinstance(value, str) and type(parsed) not in (int, float):
        raise Unparsable(f"expected a number, got JSON that is {kind_of(parsed)}")
    return number(parsed)


def number(value: Any) -> int | float:
    """The value if it is a JSON number. Raises ValueError that says what it is instead."""
    if type(value) is float or type(value) is int:
        return value
    try:
        return msgspec.convert(value, Number)
    except msgspec.ValidationError as wrong:
        message = message_of(wrong, Number).replace(", got", " but got")
        raise ValueError(
            message if " but got" in message else f"{message} but got {preview(value)}"
        ) from None


def fenced_blocks(text: str) -> Iterator[str]:
    """
    Yield the content of each fenced code block of a Markdown text. A block without its closing fence ends with the
    text.
    """
    if "```" not in text and "~~~" not in text:
        return
    fence = ""
    content: list[str] = []
    for line in text.splitlines():
        found = _FENCE.fullmatch(line)
        if not fence:
            if found and not (found[1][0] == "`" and "`" in found[2]):
                fence, content = found[1], []
        elif found and found[1].startswith(fence) and not found[2].strip():
            yield "\n".join(content)
            fence = ""
        else:
            content.append(line)
    if fence:
        yield "\n".join(content)


def _json(text: str, limits: Limits) -> Any:
    if not text.strip():
        raise Unparsable("expected JSON, got an empty text")
    try:
        value = _decode(text)
    except RecursionError:
        raise Unparsable("the JSON is nested too deeply to be read") from None
    except (msgspec.DecodeError, UnicodeError) as wrong:
        reason = str(wrong).removeprefix("JSON is malformed: ")
        raise Unparsable(f"not JSON: {reason[:1].lower()}{reason[1:]}") from None
    if is_deeper(value, limits.max_depth):
        raise Unparsable(f"the JSON is nested more than {limits.max_depth} deep, which is the limit")
    return value


def _number(text: str, limits: Limits) -> int | float:
    text = text.strip()
    if not text:
        raise Unparsable("expected a number, got an empty text")
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise Unparsable("the text is not a number")
    try:
        value = int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:  # Python limits the digits of an integer
        raise Unparsable("the number has too many digits") from None
    if not isfinite(value):
        raise Unparsable("the number is too large")
    return value
