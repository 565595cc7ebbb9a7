"""Which texts are nobody's business: told by a member's name (decision 17), or by their own shape (contract §6.5)."""

import re
from contextlib import suppress
from typing import Any

import msgspec

from assay.protocol.json_types import is_mapping, is_object
from assay.protocol.shapes import hidden, marker

TELLING = re.compile(
    r"(key|keys|token|tokens|secret|secrets|password|passwords|passwd|passphrase|authorization|auth|bearer|cookie"
    r"|credential|credentials)\Z",
    re.IGNORECASE,
)

# Members whose text is hidden wherever they stand; `key` and `next_token` may be anything.
HIDDEN = re.compile(
    r"(pass(word|wd|phrase)|secrets?|authorization|credentials?|(api|access|private|secret)[_-]?keys?"
    r"|(access|auth|bearer|refresh|session|api|id)[_-]?tokens?)\Z",
    re.IGNORECASE,
)

# Who was asked, as an event says it: a name, and no text.
_NAME = re.compile(r"[\w.:@/-]{1,128}", re.ASCII)
UNKNOWN = "unknown"


# a quick no for JSON as it is written, in plain ASCII: a part of every shape and of every name that is hidden
_SHAPED = (b"-----BEGIN", b"eyJ", b"k_live_", b"k_test_", b"AKIA", b"ASIA", b"AROA", b"AIDA", b"AIza", b"ghp_", b"gho_", b"ghu_", b"ghs_",
           b"ghr_", b"_pat_", b"glpat", b"xox", b"npm_", b"hf_", b"assay_", b"earer", b"asic", b"://")  # fmt: skip
_NAMED = (b"passw", b"passphrase", b"secret", b"authorization", b"credential")
_ENDING = re.compile(rb'(key|token)s?"')  # of these only some are hidden: a count of tokens is no secret
_BEFORE = {
    word: tuple(name + between for name in names for between in (b"", b"_", b"-"))
    for word, names in (
        (b"key", (b"api", b"access", b"private", b"secret")),
        (b"token", (b"access", b"auth", b"bearer", b"refresh", b"session", b"api", b"id")),
    )
}
_BEGUN = re.compile(rb"(?:\b|\\[bfnrt])sk-")


def redacted_json(line: bytes) -> bytes:
    """The same of a value that is written as JSON; where there is nothing to hide it stays as it is written."""
    if not line or not _maybe_secret(line):
        return line
    said = msgspec.json.decode(line)
    kept = redacted(said)
    return line if kept == said else msgspec.json.encode(kept)


def _maybe_secret(line: bytes) -> bool:
    """No: surely not. What is escaped or in other letters may read as anything."""
    if not line.isascii() or b"\\u" in line or b"\\/" in line:
        return True
    small = line.lower()
    return (
        any(part in line for part in _SHAPED)
        or any(part in small for part in _NAMED)
        or any(small.endswith(_BEFORE[end[1]], 0, end.start()) for end in _ENDING.finditer(small))
        or (b"sk-" in line and _BEGUN.search(line) is not None)
    )


def redacted(value: Any) -> Any:
    """
    A copy of a JSON value without what is secret: by shape in every text, by name in the members of objects.

        redacted({"url": "see sk-0123456789abcdefgh", "api_key": "x"})
        == {"url": "see [REDACTED:openai-key]", "api_key": "[REDACTED:api_key]"}
    """
    if isinstance(value, str):
        return redacted_text(value)
    with suppress(TypeError, ValueError, OverflowError, RecursionError):  # no JSON: then part by part
        line = msgspec.json.encode(value)
        if not _maybe_secret(line) and b"null" not in line:  # which may be NaN
            return msgspec.json.decode(line)
    return each_redacted(value)


def each_redacted(value: Any) -> Any:
    """The same, looked at part by part."""
    whole: list[Any] = []
    left: list[tuple[Any, Any]] = [([value], whole)]  # what is to be copied, and where to; without recursion
    while left:
        source, copy = left.pop()
        for name, one in source.items() if is_mapping(source) else enumerate(source):
            kept: Any = one
            if isinstance(one, str):
                telling = one and is_object(copy) and HIDDEN.search(str(name))
                kept = marker(str(name)) if telling else redacted_text(one)
            elif is_mapping(one) or isinstance(one, list | tuple):
                kept = {} if is_mapping(one) else []
                left.append((one, kept))  # pyright: ignore[reportUnknownArgumentType]
            if isinstance(copy, list):
                copy.append(kept)  # pyright: ignore[reportUnknownMemberType]
            else:
                copy[redacted_text(str(name))] = kept
    return whole[0]


def redacted_text(text: str) -> str:
    """The text with `[REDACTED:<id>]` for everything in it that looks like a secret; half a character, which nobody could write down, is `?`."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return hidden(text)


def safe_name(said: str) -> str:
    """The name of a provider or a model as `provider.usage` may have it; `unknown` for a text and for what looks like a secret."""
    return said if _NAME.fullmatch(said) and redacted_text(said) == said else UNKNOWN


def is_secret(name: str, value: Any) -> bool:
    """By one word of its name: `api_key`, `X-Auth-Token`, `clientSecret`. A number of tokens is none."""
    words = [word for word in re.split(r"[^a-zA-Z]+|(?<=[a-z])(?=[A-Z])", name) if TELLING.search(word)]
    counted = isinstance(value, int | float) and all(word.lower().endswith("tokens") for word in words)
    return bool(words) and not counted and value is not None
