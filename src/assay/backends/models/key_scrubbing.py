"""Removes API keys from everything that is shown or stored of a provider's answer. Parsing uses the original bytes."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from assay.errors import UsageError
from assay.ports import Provider
from assay.protocol.json_types import is_list, is_object
from assay.protocol.redaction import is_secret

REDACTED = "[REDACTED]"
TELLING = 8  # this many characters of a key in a row are not said by chance
SEARCHED = 16  # characters of a key that is searched for in content
LONG = 32  # characters that no text repeats by chance, digits or not
_KIND = re.compile(r"[A-Za-z]+|[0-9]+")


def valid_key(provider: Provider) -> str:
    """The provider's key, or "". A key that is not valid in a header is refused, without quoting it."""
    key = provider.api_key.reveal() if provider.api_key else ""
    if not all("!" <= character <= "~" for character in key):
        raise UsageError(
            f"the key of provider {provider.name!r}: expected printable ASCII characters, got a space, a line "
            "break or another; copy it again"
        )
    return key


def content_key(provider: Provider) -> str:
    """The key if content must be searched for it, else ""."""
    key = provider.api_key.reveal() if provider.api_key else ""
    return key if looks_random(key) else ""


@lru_cache(256)
def looks_random(key: str) -> bool:
    """
    Whether the key is no word of any text: only such a key is searched for in content (ADR-0036).

    At least 16 characters in which letters and digits take turns four times or more, or 32 characters, twelve of them
    different: `sk-canary-7d1f9b3e5a`, and neither `test` nor `a-key-of-words-1`.
    """
    if len(key) < SEARCHED:
        return False
    return len(_KIND.findall(re.sub(r"[^A-Za-z0-9]", "", key))) > 4 or (
        len(key) >= LONG and len(set(key)) >= 12
    )


def without_key(value: Any, key: str) -> Any:
    """A parsed JSON value without the key, in case the provider repeats it."""
    if not key:
        return value
    if isinstance(value, str):
        return value.replace(key, REDACTED) if key in value else value
    if is_object(value):
        return {without_key(name, key): without_key(one, key) for name, one in value.items()}
    return [without_key(one, key) for one in value] if is_list(value) else value


class HiddenWords:
    """
    The secrets of configured headers or variables, taken out of what an agent or a tool says back, after it was parsed.

    A secret is known by the name of its header or variable, and is searched for only if it looks random.
    """

    def __init__(self, *tables: Mapping[str, str]) -> None:
        words = {
            word
            for table in tables
            for name, value in table.items()
            if is_secret(name, value)
            for word in value.split()
            if looks_random(word)
        }
        self._words = tuple(sorted(words, key=len, reverse=True))

    def out_of(self, value: Any) -> Any:
        for word in self._words:
            value = without_key(value, word)
        return value


def scrub(text: str, key: str) -> str:
    """
    A failure's message without any word that holds a telling part of the key: some providers quote it masked.

    A key that has fewer than eight characters, or no digit, is a placeholder or a word: the message stays as it is.
    """
    if len(key) < TELLING or not any(map(str.isdigit, key)):
        return text
    text = text.replace(key, REDACTED)
    last = len(key) - TELLING if looks_random(key) else -1
    parts = {key[at : at + TELLING] for at in range(last + 1)}
    return re.sub(
        r"[^\s\"'`(),;]+", lambda word: REDACTED if any(p in word[0] for p in parts) else word[0], text
    )
