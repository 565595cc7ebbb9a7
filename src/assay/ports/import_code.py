"""Loads code that an operator names: `module:name`, or `file.py:name` if the module is not on the path."""

import importlib
import sys
from pathlib import Path
from typing import Any


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
