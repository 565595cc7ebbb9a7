"""Modules that take seconds to import, imported by the first test that uses them: every worker collects all tests."""

from importlib import import_module
from typing import Any


class LazyModule:
    """Stands for a module of this name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)  # pytest looks for fixtures in everything that a module has
        return getattr(import_module(self.name), attribute)


def lazy_module(name: str) -> Any:
    return LazyModule(name)
