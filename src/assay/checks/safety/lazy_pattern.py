"""Patterns that are compiled when they are first used: every command imports the detectors, and few commands run them."""

import re
from typing import Any, cast


class LazyPattern:
    """A pattern that compiles itself when one of its methods is first read."""

    def __init__(self, source: str, flags: int) -> None:
        self.source = source
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self.source, self.flags), name)
        setattr(self, name, value)
        return value


def lazy_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern with the methods of `re.compile(source, flags)`."""
    return cast("re.Pattern[str]", LazyPattern(source, flags))
