"""
Linear models of texts: the weights are data of the package, and `tests/support/text_training.py` fits them to the samples.

A model adds weights of named features and of hashed parts of a text: stems, pairs of stems and groups of letters. A part counts once, whatever
its number, and a group of parts is divided by the root of its size, so that the length of a text does not decide. Brackets do not count.
"""

import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

BUCKETS: Final = 1 << 16
NAMES: Final = ("refuses", "answers", "request", "compliance")
STEM: Final = 6
MAX_WORD: Final = 40  # letters of a word that are read
WEIGHTS: Final = Path(__file__).with_name("text_model.json")
TABLES: Final = Path(__file__).with_name("text_model.bin")

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
NO_BRACKETS: Final = {ord(one): None for one in "[]"}
_PLAIN: Final = {ord("’"): "'", **NO_BRACKETS}


class Parts(NamedTuple):
    """What a model reads of a text: named features, and groups of buckets with the scale of each group."""

    features: Mapping[str, float]
    groups: Sequence[tuple[float, frozenset[int]]]


class Model(NamedTuple):
    weights: Mapping[str, float]
    table: bytes  # the weights of the buckets in units of `step`, plus 128
    step: float

    def score(self, parts: Parts) -> float:
        total = sum(self.weights.get(name, 0.0) * value for name, value in parts.features.items() if value)
        for scale, places in parts.groups:
            if places:
                sum_of_weights = sum(map(self.table.__getitem__, places)) - 128 * len(places)
                total += scale * self.step * sum_of_weights / len(places) ** 0.5
        return total


@cache
def models() -> Mapping[str, Model]:
    """The four models of the package, which are read when they are first used."""
    data = json.loads(WEIGHTS.read_text("utf-8"))
    tables = zlib.decompress(TABLES.read_bytes())
    return {
        name: Model(
            data["models"][name]["weights"],
            tables[at * BUCKETS : (at + 1) * BUCKETS],
            data["models"][name]["step"],
        )
        for at, name in enumerate(NAMES)
    }


def whole_words(pattern: str) -> re.Pattern[str]:
    """The pattern, whose matches do not begin inside a word of Latin letters: "end it" is not in "send it"."""
    return re.compile(f"(?:(?<![a-z])|(?![a-z]))(?:{pattern})")


def plain(text: str) -> str:
    """The text in small letters, with plain apostrophes and without square brackets, which mark blanks in samples and not in real texts."""
    return text.lower().translate(_PLAIN)


def word_parts(tag: str, text: str, limit: int) -> frozenset[int]:
    """The buckets of the stems, of pairs of stems, of the first words, and of characters where words have no spaces."""
    lower = plain(text[:limit])
    stems = [word[:STEM] for word in _WORD.findall(_WIDE.sub(" ", lower))]
    wide = _WIDE.findall(lower)
    parts = {*stems, *wide, *(f"{a} {b}" for a, b in pairwise(stems))}
    parts.update(f"{a}_{b}" for a, b in zip(stems, stems[2:], strict=False))
    parts.update(a + b for a, b in pairwise(wide))
    if stems:
        parts.update(("^" + stems[0], "^" + " ".join(stems[:2])))
    return _buckets(tag, parts)


def letter_parts(tag: str, text: str, limit: int) -> frozenset[int]:
    """The buckets of the groups of three to five letters inside words."""
    words = set(_WORD.findall(_WIDE.sub(" ", plain(text[:limit]))))
    return frozenset[int]().union(*(_letter_groups(tag, word[:MAX_WORD]) for word in words))


@lru_cache(maxsize=4_096)  # most words of a text are frequent ones
def _letter_groups(tag: str, word: str) -> frozenset[int]:
    edged = f"<{word}>"
    sizes = ((at, size) for size in (3, 4, 5) for at in range(len(edged) - size + 1))
    return _buckets(tag, {edged[at : at + size] for at, size in sizes})


def _buckets(tag: str, parts: Iterable[str]) -> frozenset[int]:
    return frozenset(crc32((tag + part).encode("utf-8", "surrogatepass")) % BUCKETS for part in parts)
