"""Loads code that an operator names: `module:name`, or `file.py:name` if the module is not on the path."""

import importlib
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.errors import UsageError


def import_object(spec: str) -> Any:
    """
    Import the object. The working directory and the folder of a file are importable, as for `python file.py`.

    It is foreign code: loading it may raise anything.
    """
    module, _, name = spec.rpartition(":")
    _add_to_path(Path.cwd())
    value: Any = _from_file(Path(module)) if module.endswith(".py") else importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _from_file(file: Path) -> Any:
    if not file.is_file():
        raise ImportError(f"there is no file {file}")
    _add_to_path(file.resolve().parent)
    module = importlib.import_module(file.stem)
    path = getattr(module, "__file__", None)
    if path is None or Path(path).resolve() != file.resolve():
        raise ImportError(f"another module is called {file.stem!r} already: rename {file}")
    return module


def _add_to_path(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


# Loads `module:function` and inspects its parameters.

CONTEXT = frozenset({"ctx", "context", "scene"})


def load(target: str, path: str) -> Callable[..., Any]:
    """Import `module:function` or `file.py:function`. Any failure is a UsageError."""
    found = load_object(target, path)
    if not callable(found):
        raise UsageError(f"{path}: {target!r} is {type(found).__name__}: expected a function")
    return found


def load_object(target: str, path: str) -> Any:
    """Import `module:name` or `file.py:name`. Any failure is a UsageError."""
    module, _, name = target.partition(":")
    if not module or not name:
        raise UsageError(
            f"{path}: {target!r}: expected module:function or file.py:function, such as my_agents:answer"
        )
    try:
        return import_object(target)
    except (Exception, SystemExit) as surprise:  # a module is foreign code
        raise UsageError(
            f"{path}: {target!r}: expected code that can be loaded, got {type(surprise).__name__}: {surprise}"
        ) from surprise


def takes_context(function: Callable[..., Any], path: str) -> bool:
    """Whether its second parameter is required, or is called `ctx`, `context` or `scene`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin: it gets only the task
        return False
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = [one for one in parameters if one.default is one.empty and one not in positional[:2]]
    needed = [one for one in needed if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    if needed or not (positional or any(one.kind is one.VAR_POSITIONAL for one in parameters)):
        raise UsageError(f"{path}: expected a function of the task, or of the task and its context")
    second = positional[1] if len(positional) > 1 else None
    return second is not None and (second.default is second.empty or second.name in CONTEXT)


def is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # an object whose call is a coroutine
    )


def local_id(*words: str) -> str:
    """`local.<module>.<function>` as a valid agent id."""
    parts = [
        re.sub(r"[^a-z0-9_-]+", "-", part.lower()).lstrip("-_0123456789").rstrip("-_")
        for word in words
        for part in word.split(".")
    ]
    return ".".join(["local", *(part or "agent" for part in parts)])
