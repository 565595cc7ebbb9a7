"""
Regular expressions that are compiled when they are first used: most programs use few of those that their modules have.
"""

import re
from typing import Any, AnyStr, cast


class _LazyPattern:
    """Has the methods of a compiled pattern. The first one that is asked for compiles it; then it is an attribute."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)  # `re` holds the compiled pattern
        setattr(self, name, found)
        return found


def lazy_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile` later. An invalid pattern raises at its first use, so a test must use it."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(text, flags))
