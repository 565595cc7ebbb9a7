"""Keeps a key out of everything a provider says back."""

import re

from assay.errors import WrongUsage
from assay.ports import Provider

REDACTED = "[REDACTED]"
TELLING = 8  # this many characters of a key in a row are not said by chance


def checked_key(provider: Provider) -> str:
    """The provider's key, or "": refused here, where no message repeats it, if no header can carry it."""
    key = provider.api_key.reveal() if provider.api_key else ""
    if not all("!" <= character <= "~" for character in key):
        raise WrongUsage(
            f"the key of provider {provider.name!r} holds a space, a line break or another character "
            "that no HTTP header can carry; copy it again"
        )
    return key


def scrubbed_body(body: bytes, key: str) -> bytes:
    """The body without the key, should somebody echo it."""
    return body.replace(key.encode(), REDACTED.encode()) if key else body


def scrubbed(text: str, key: str) -> str:
    """The text without any word that holds a telling part of the key: some providers quote it masked."""
    if not key:
        return text
    text = text.replace(key, REDACTED)
    parts = {key[at : at + TELLING] for at in range(len(key) - TELLING + 1)}
    return re.sub(
        r"[^\s\"'`(),;]+", lambda word: REDACTED if any(p in word[0] for p in parts) else word[0], text
    )
