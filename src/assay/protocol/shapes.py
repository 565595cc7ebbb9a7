"""
Secrets that give themselves away by their shape, found in time that grows with the text and no faster.

One alternation of all shapes finds the same; a test compares the two. The alternation is quadratic for two shapes, on texts such
as `eyJ-eyJ-eyJ-`: each beginning reads to the end of the same run. These two have a scanner that reads a run once. The others
decide within a bounded number of characters, or take the run that they read; a search for their letters finds where they begin.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

# What gives itself away. The first that fits names it; `(?P<secret>…)` is the part that goes, else all of it.
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


class Secret(NamedTuple):
    """A place in a text: what is found, and the part of it that goes."""

    start: int
    end: int
    name: str
    first: int
    last: int


Finder = Callable[[str, int], Secret | None]  # the next from a place on

# letters that every secret of a shape has, and how far from its beginning they stand
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
_OWN_ID = re.compile(
    r"(?:eval|run)_[0-9a-f]+"
)  # of a run, in its audit line: no letters of any shape are in it
_RUN = re.compile(r"[\w-]*")
_LOGIN = re.compile(r"://[^\s:/@]*:([^\s/@]+)@")
_SMALL = frozenset("abcdefghijklmnopqrstuvwxyz")
_SCHEME = _SMALL | frozenset("0123456789+.-")


def hidden(text: str) -> str:
    """The text with a marker for every secret: from left to right, the first shape of those that begin at one place."""
    if _OWN_ID.fullmatch(text):
        return text
    found: list[tuple[Finder, Secret]] = [
        (find, first) for find in _FINDERS if (first := find(text, 0)) is not None
    ]
    parts: list[str] = []
    done = 0
    while found:
        _, secret = min(found, key=_start)  # the first of equals, which is the order of the shapes
        parts += (text[done : secret.first], marker(secret.name), text[secret.last : secret.end])
        done = secret.end
        found = [
            (find, later)
            for find, one in found
            if (later := one if one.start >= done else find(text, done)) is not None
        ]
    return "".join((*parts, text[done:])) if parts else text


def marker(name: str) -> str:
    return f"[REDACTED:{name}]"


def _start(found: tuple[Finder, Secret]) -> int:
    return found[1].start


def _finder(name: str, letters: str, before: int) -> Finder:
    shape = re.compile(dict(SHAPES)[name], re.DOTALL)
    part = f"secret_{name}" if f"secret_{name}" in shape.groupindex else 0

    def find(text: str, at: int) -> Secret | None:
        place = text.find(letters, at + before)
        while place >= 0:
            if (found := shape.match(text, place - before)) is not None:
                return Secret(found.start(), found.end(), name, *found.span(part))
            place = text.find(letters, place + 1)
        return None

    return find


def _jwt(text: str, at: int) -> Secret | None:
    """Three runs with a dot between; where a run does not end in `.eyJ`, no beginning inside it is one."""
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
            return Secret(start, end, "jwt", start, end)
    return None


def _password(text: str, at: int) -> Secret | None:
    """From `://` on there is one way to read it; its scheme begins as far left as it can, not before `at`."""
    place = text.find("://", at)
    while place >= 0:
        if (found := _LOGIN.match(text, place)) is not None:
            begin = place
            while begin > at and text[begin - 1] in _SCHEME:
                begin -= 1
            for start in range(begin, place):
                if text[start] in _SMALL and _begins_word(text, start):
                    return Secret(start, found.end(), "password", *found.span(1))
        place = text.find("://", place + 1)
    return None


def _begins_word(text: str, at: int) -> bool:
    """What `\\b` says before a letter."""
    return at == 0 or not (text[at - 1].isalnum() or text[at - 1] == "_")


def _end(text: str, at: int) -> int:
    found = _RUN.match(text, at)
    assert found is not None
    return found.end()


_LEAST = 8  # characters of a part of a JSON Web Token
_BY_NAME: dict[str, list[Finder]] = {
    name: [_finder(name, one, before) for one in letters] for name, before, letters in _LETTERS
} | {"jwt": [_jwt], "password": [_password]}
_FINDERS: tuple[Finder, ...] = tuple(find for name, _ in SHAPES for find in _BY_NAME[name])
