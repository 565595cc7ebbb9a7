"""Redaction of secrets, found by a member's name (FEP-17) or by the format of a text (openwop-contract §6.5)."""

import re
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import msgspec

from assay.lazy_pattern import lazy_pattern
from assay.protocol.json_types import is_list, is_mapping, is_object
from assay.protocol.secret_patterns import hide, marker

TELLING = lazy_pattern(
    r"(key|keys|token|tokens|secret|secrets|password|passwords|passwd|passphrase|authorization|auth|bearer|cookie"
    r"|credential|credentials)\Z",
    re.IGNORECASE,
)

# Members whose text is always redacted. `key` and `next_token` are not among them: they may be anything.
HIDDEN = lazy_pattern(
    r"(pass(word|wd|phrase)|secrets?|authorization|credentials?|(api|access|private|secret)[_-]?keys?"
    r"|(access|auth|bearer|refresh|session|api|id)[_-]?tokens?)\Z",
    re.IGNORECASE,
)

# The name of a provider or model in an event.
_NAME = lazy_pattern(r"[\w.:@/-]{1,128}", re.ASCII)
UNKNOWN = "unknown"


# A quick test for encoded ASCII JSON: every secret format and every redacted name contains one of these.
_SHAPED = (b"-----BEGIN", b"eyJ", b"k_live_", b"k_test_", b"AKIA", b"ASIA", b"AROA", b"AIDA", b"AIza", b"ghp_", b"gho_", b"ghu_", b"ghs_",
           b"ghr_", b"_pat_", b"glpat", b"xox", b"npm_", b"hf_", b"assay_", b"earer", b"asic", b"://")  # fmt: skip
_NAMED = (b"passw", b"passphrase", b"secret", b"authorization", b"credential")
# only some of these are redacted: a number of tokens is not a secret
_ENDING = lazy_pattern(rb'(key|token)s?"')
_BEFORE = {
    word: tuple(name + between for name in names for between in (b"", b"_", b"-"))
    for word, names in (
        (b"key", (b"api", b"access", b"private", b"secret")),
        (b"token", (b"access", b"auth", b"bearer", b"refresh", b"session", b"api", b"id")),
    )
}
_BEGUN = lazy_pattern(rb"(?:\b|\\[bfnrt])sk-")


def redact_json(line: bytes) -> bytes:
    """Redact encoded JSON. Without a secret, the bytes are returned unchanged."""
    if not line or not _maybe_secret(line):
        return line
    value = msgspec.json.decode(line)
    clean = redact(value)
    return line if clean == value else msgspec.json.encode(clean)


def _maybe_secret(line: bytes) -> bool:
    """False: certainly no secret. Escaped or non-ASCII text may decode to anything."""
    if not line.isascii() or b"\\u" in line or b"\\/" in line:
        return True
    for part in _SHAPED:  # every stored line comes here: a generator for `any` takes twice the time
        if part in line:
            return True
    small = line.lower()
    for part in _NAMED:
        if part in small:
            return True
    if b"key" in small or b"token" in small:
        for end in _ENDING.finditer(small):
            if small.endswith(_BEFORE[end[1]], 0, end.start()):
                return True
    return b"sk-" in line and _BEGUN.search(line) is not None


def redact(value: Any) -> Any:
    """
    Copy a JSON value without its secrets: found by format in every text, and by name in the members of objects.

        redact({"url": "see sk-0123456789abcdefgh", "api_key": "x"})
        == {"url": "see [REDACTED:openai-key]", "api_key": "[REDACTED:api_key]"}
    """
    if isinstance(value, str):
        return redact_text(value)
    with suppress(TypeError, ValueError, OverflowError, RecursionError):  # not JSON: then part by part
        line = msgspec.json.encode(value)
        if not _maybe_secret(line) and b"null" not in line:  # which may be NaN
            return msgspec.json.decode(line)
    return redact_parts(value)


def redact_parts(value: Any) -> Any:
    """The same without the quick test, part by part and without recursion."""
    result: list[Any] = []
    pending: list[tuple[Any, Any]] = [([value], result)]  # sources and their copies
    while pending:
        source, copy = pending.pop()
        for name, part in source.items() if is_mapping(source) else enumerate(source):
            clean: Any = part
            if isinstance(part, str):
                secret = part and is_object(copy) and HIDDEN.search(str(name))
                clean = marker(str(name)) if secret else redact_text(part)
            elif is_mapping(part) or isinstance(part, list | tuple):
                clean = {} if is_mapping(part) else []
                pending.append((part, clean))  # pyright: ignore[reportUnknownArgumentType]
            if isinstance(copy, list):
                copy.append(clean)  # pyright: ignore[reportUnknownMemberType]
            else:
                copy[redact_text(str(name))] = clean
    return result[0]


def redact_text(text: str) -> str:
    """Replace what looks like a secret with `[REDACTED:<id>]`, and lone surrogates with `?`."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return hide(text)


def safe_name(name: str) -> str:
    """A provider's or model's name for `provider.usage`; `unknown` if it is not a name or looks like a secret."""
    return name if _NAME.fullmatch(name) and _is_clean(name) else UNKNOWN


@lru_cache(256)  # a run has few models, and names one with each of its calls
def _is_clean(name: str) -> bool:
    return redact_text(name) == name


def is_secret(name: str, value: Any) -> bool:
    """Whether a word of the name says so: `api_key`, `X-Auth-Token`, `clientSecret`. A number of tokens is none."""
    words = [word for word in re.split(r"[^a-zA-Z]+|(?<=[a-z])(?=[A-Z])", name) if TELLING.search(word)]
    counted = isinstance(value, int | float) and all(word.lower().endswith("tokens") for word in words)
    return bool(words) and not counted and value is not None


# Redacts secret members of a configuration, recognised by their names, as `[REDACTED]` (FEP-17).

REDACTED = "[REDACTED]"
CONFIGURATION = frozenset({"provider_config", "model_config"})
PARTS = "checks"  # of a combination


def without_secrets(value: Any) -> Any:
    """
    The configuration as it may be shown.

        without_secrets({"api_key": "sk-1", "timeout": 30}) == {"api_key": "[REDACTED]", "timeout": 30}
    """
    if is_object(value):
        return {
            name: REDACTED if is_secret(name, one) else without_secrets(one) for name, one in value.items()
        }
    if is_list(value):
        return [without_secrets(one) for one in value]
    return redact_url(value) if isinstance(value, str) else value


def redact_checks(checks: Any) -> Any:
    """Checks as they may be stored, one list or one list per case: without the secrets of their configuration."""
    if is_list(checks):
        return [redact_checks(one) for one in checks]
    if not is_object(checks) or not is_object(checks.get("arguments")):
        return checks
    arguments = {
        name: without_secrets(one) if name in CONFIGURATION else redact_checks(one) if name == PARTS else one
        for name, one in checks["arguments"].items()
    }
    return {**checks, "arguments": arguments}


def redact_url(text: str) -> str:
    """A URL without its user and password, and without its query, which may hold keys."""
    if "://" not in text:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        return REDACTED
    _, at, host = parts.netloc.rpartition("@")
    query = REDACTED if parts.query else ""
    return parts._replace(netloc=f"{REDACTED}@{host}" if at else host, query=query).geturl()
