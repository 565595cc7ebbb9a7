"""
Classes of words, such as relatives, deceptions or weapons: with a weight for a class, a model knows words of it that no sample has.

`word_classes.txt` has one class in a line: its name, a colon, and its words. A word that ends with a star stands for all words that begin with it.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, NamedTuple

WORDS: Final = Path(__file__).with_name("word_classes.txt")
MAX_TEXT: Final = 4_000  # characters that are read
MAX_WORD: Final = 40  # letters of a word that are read
LONG_STEM: Final = 4  # a shorter stem takes two more letters at most

_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
Classes = Mapping[str, frozenset[str]]


class Lexicon(NamedTuple):
    words: Classes
    stems: Classes
    lengths: tuple[int, ...]  # of the stems, in ascending order


@cache
def lexicon() -> Lexicon:
    """The words and stems with their classes, read from the file at the first use."""
    words: dict[str, set[str]] = {}
    stems: dict[str, set[str]] = {}
    for line in WORDS.read_text("utf-8").splitlines():
        name, _, entries = line.partition(": ")
        for entry in entries.split():
            table = stems if entry.endswith("*") else words
            table.setdefault(entry.rstrip("*"), set()).add(name)
    return Lexicon(
        {word: frozenset(names) for word, names in words.items()},
        {stem: frozenset(names) for stem, names in stems.items()},
        tuple(sorted({len(stem) for stem in stems})),
    )


def classes_of(text: str) -> frozenset[str]:
    """The classes of the words at the beginning of a text."""
    words = set(_WORD.findall(text[:MAX_TEXT].lower().replace("’", "'")))
    return frozenset[str]().union(*(_classes(word[:MAX_WORD]) for word in words))


@lru_cache(maxsize=10_000)
def _classes(word: str) -> frozenset[str]:
    known = lexicon()
    found = set(known.words.get(word, ()))
    for length in known.lengths:
        if length <= len(word) and (length >= LONG_STEM or len(word) - length <= 2):
            found |= known.stems.get(word[:length], frozenset())
    if word.endswith("'s"):
        found |= _classes(word[:-2])
    if not found and "-" in word:
        found.update(*(_classes(part) for part in word.split("-")))
    return frozenset(found)
