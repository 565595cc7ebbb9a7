"""
Finds secrets by their format, in linear time.

One regular expression with all patterns as alternatives finds the same; a test compares the two. It is quadratic for
two patterns, on texts such as `eyJ-eyJ-eyJ-`, because each start reads to the end of the same run. Those two have a
scanner that reads a run once. The other patterns decide within a bounded number of characters, or consume what they
read; a search for a literal part finds their starts.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from assay.lazy_pattern import lazy_pattern

# The first pattern that matches names the secret. The group `secret_…` is the part to redact; without one, the whole
# match.
SHAPES: tuple[tuple[str, str], ...] = (
    ("private-key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    ("jwt", r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
    ("anthropic-key", r"\bsk-ant-[\w-]{16,}"),
    ("openai-key", r"\bsk-[A-Za-z0-9][\w-]{15,}"),
    ("stripe-key", r"\b[rsp]k_(?:live|test)_\w{16,}"),
    ("aws-key", r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b"),
    ("google-key", r"\bAIza[\w-]{35}"),
    ("github-token", r"\b(?:gh[pousr]_\w{30,}|github_pat_\w{22,})"),
    ("gitlab-token", r"\bglpat-[\w-]{20,}"),
    ("slack-token", r"\bxox[abeoprs]-[\w-]{10,}"),
    ("npm-token", r"\bnpm_\w{36}\b"),
    ("huggingface-token", r"\bhf_[A-Za-z0-9]{30,}"),
    ("assay-key", r"\bassay_[\w-]{24,}"),
    ("bearer", r"\b[Bb]earer\s+(?P<secret_bearer>[\w.~+/-]{16,}=*)"),
    ("basic", r"\b[Bb]asic\s+(?P<secret_basic>[A-Za-z0-9+/]{16,}={0,2})(?![\w+/])"),
    ("password", r"\b[a-z][a-z0-9+.-]*://[^\s:/@]*:(?P<secret_password>[^\s/@]+)@"),
)


# Formats are ASCII: a letter of another script before or after a secret is a boundary.
FLAGS = re.DOTALL | re.ASCII


class SecretSpan(NamedTuple):
    """A match in a text (start to end), and the part to redact (first to last)."""

    start: int
    end: int
    name: str
    first: int
    last: int


Finder = Callable[[str, int], SecretSpan | None]  # the next match from a position on

# A literal part of every pattern, and its distance from the start of a match.
_LETTERS: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    ("private-key", 0, ("-----BEGIN ",)),
    ("anthropic-key", 0, ("sk-ant-",)),
    ("openai-key", 0, ("sk-",)),
    ("stripe-key", 1, ("k_live_", "k_test_")),
    ("aws-key", 0, ("AKIA", "ASIA", "AROA", "AIDA")),
    ("google-key", 0, ("AIza",)),
    ("github-token", 0, ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_")),
    ("gitlab-token", 0, ("glpat-",)),
    ("slack-token", 0, ("xox",)),
    ("npm-token", 0, ("npm_",)),
    ("huggingface-token", 0, ("hf_",)),
    ("assay-key", 0, ("assay_",)),
    ("bearer", 1, ("earer",)),
    ("basic", 1, ("asic",)),
)
_OWN_ID = lazy_pattern(r"(?:eval|run)_[0-9a-f]+")  # a run's id, as in audit entries: it never matches
_RUN = lazy_pattern(r"[\w-]*", re.ASCII)
_LOGIN = lazy_pattern(r"://[^\s:/@]*:([^\s/@]+)@", re.ASCII)
_SMALL = frozenset("abcdefghijklmnopqrstuvwxyz")
_SCHEME = _SMALL | frozenset("0123456789+.-")


def hide(text: str) -> str:
    """Replace every secret with a marker, from left to right. If two patterns match at one position, the first wins."""
    if _OWN_ID.fullmatch(text):
        return text
    parts: list[str] = []
    done = 0
    for secret in find_secrets(text):
        parts += (text[done : secret.first], marker(secret.name), text[secret.last : secret.end])
        done = secret.end
    return "".join((*parts, text[done:])) if parts else text


def find_secrets(text: str) -> Iterator[SecretSpan]:
    """Every match that `hide` replaces, from left to right."""
    pending: list[tuple[Finder, SecretSpan]] = [
        (find, first)
        for letters, find in _FINDERS
        if letters in text and (first := find(text, 0)) is not None
    ]
    while pending:
        _, secret = min(pending, key=_start)  # min returns the first of equals: the order of the patterns
        yield secret
        done = secret.end
        pending = [
            (find, later)
            for find, one in pending
            if (later := one if one.start >= done else find(text, done)) is not None
        ]


def marker(name: str) -> str:
    return f"[REDACTED:{name}]"


def _start(match: tuple[Finder, SecretSpan]) -> int:
    return match[1].start


def _finder(name: str, letters: str, prefix_length: int) -> Finder:
    shape = re.compile(dict(SHAPES)[name], FLAGS)
    part = f"secret_{name}" if f"secret_{name}" in shape.groupindex else 0

    def find(text: str, at: int) -> SecretSpan | None:
        place = text.find(letters, at + prefix_length)
        while place >= 0:
            if (found := shape.match(text, place - prefix_length)) is not None:
                return SecretSpan(found.start(), found.end(), name, *found.span(part))
            place = text.find(letters, place + 1)
        return None

    return find


def _jwt(text: str, at: int) -> SecretSpan | None:
    """Three runs separated by dots. If a run is not followed by `.eyJ`, no start inside it can match."""
    while (at := text.find("eyJ", at)) >= 0:
        start = at
        at += 3
        if not _begins_word(text, start):
            continue
        at = head = _end(text, at)
        if head - start - 3 < _LEAST or not text.startswith(".eyJ", head):
            continue
        body = _end(text, head + 4)
        if body - head - 4 >= _LEAST and text.startswith(".", body):
            end = _end(text, body + 1)
            return SecretSpan(start, end, "jwt", start, end)
    return None


def _password(text: str, at: int) -> SecretSpan | None:
    """After `://` there is one way to match. The scheme begins as far left as possible, not before `at`."""
    place = text.find("://", at)
    while place >= 0:
        if (found := _LOGIN.match(text, place)) is not None:
            begin = place
            while begin > at and text[begin - 1] in _SCHEME:
                begin -= 1
            for start in range(begin, place):
                if text[start] in _SMALL and _begins_word(text, start):
                    return SecretSpan(start, found.end(), "password", *found.span(1))
        place = text.find("://", place + 1)
    return None


def _begins_word(text: str, at: int) -> bool:
    """Whether `\\b` matches here, before a letter."""
    before = text[at - 1] if at else " "
    return not (before.isascii() and (before.isalnum() or before == "_"))


def _end(text: str, at: int) -> int:
    found = _RUN.match(text, at)
    assert found is not None
    return found.end()


_LEAST = 8  # characters of each part of a JWT
_BY_NAME: dict[str, list[tuple[str, Finder]]] = {
    name: [(one, _finder(name, one, before)) for one in letters] for name, before, letters in _LETTERS
} | {"jwt": [("eyJ", _jwt)], "password": [("://", _password)]}
# Each with a literal part: most texts have none, and a search for it is quicker than a call.
_FINDERS: tuple[tuple[str, Finder], ...] = tuple(one for name, _ in SHAPES for one in _BY_NAME[name])
