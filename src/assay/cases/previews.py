"""The text of a value that a row shows: what a person would read of it first, not its JSON."""

from typing import Any

import msgspec

from assay.protocol.json_types import is_list, is_object

PREVIEW = 300  # characters
MEMBERS = ("text", "content", "answer")  # of an object, in this order


def preview_of(value: Any, role: str) -> str:
    """
    The beginning of a value: of a conversation the last message of this role, of an object its `text`, `content` or
    `answer`; else the value as JSON.
    """
    words = words_of(value, role)
    text = msgspec.json.encode(value).decode() if words is None else words
    return text if len(text) <= PREVIEW else f"{text[: PREVIEW - 1]}…"


def words_of(value: Any, role: str) -> str | None:
    """The words of a value, as `preview_of` finds them; None: it is JSON without any."""
    if isinstance(value, str):
        return value
    messages = value.get("messages") if is_object(value) else value
    if is_list(messages) and (content := _last_message(messages, role)):
        return content
    if is_object(value):
        for name in MEMBERS:
            if content := _content(value.get(name)):
                return content
    return None


def _last_message(messages: list[Any], role: str) -> str:
    """The last text of this role; else the last text of all. Empty if these are no messages."""
    if not all(is_object(one) and isinstance(one.get("role"), str) for one in messages):
        return ""
    own = [one for one in messages if one["role"] == role]
    return next(
        (content for one in (*own[::-1], *messages[::-1]) if (content := _content(one.get("content")))), ""
    )


def _content(content: Any) -> str:
    """A text, or the texts of the parts of a message."""
    if is_list(content):
        texts = [part.get("text") for part in content if is_object(part)]
        return "\n".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""
