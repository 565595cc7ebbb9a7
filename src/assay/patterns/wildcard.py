"""Wildcards of a shell: `*`, `?` and `[…]`. `fnmatch` keeps patterns of any length in caches that count entries."""

import re
from fnmatch import translate

from assay.cache import memoize
from assay.concurrency.workers import batch
from assay.patterns.charsets import compiler
from assay.patterns.search import estimated_bytes

CACHED = 4 << 20  # bytes of all compiled wildcards


def matches_wildcard(text: str, pattern: str) -> bool:
    """Whether the whole text matches the pattern; upper and lower case differ."""
    return _compile(pattern).match(text) is not None


@memoize(CACHED, estimated_bytes, batch.owner.get)
def _compile(text: str) -> "re.Pattern[str]":
    return compiler.compile(translate(text))
