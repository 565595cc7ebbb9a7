"""Code that an operator names: `module:name`, or `file.py:name` where it is not on the path."""

import importlib
import sys
from pathlib import Path
from typing import Any


def import_object(spec: str) -> Any:
    """
    What the text names. The working directory is importable, and so is the folder of a file, as it is for `python file.py`.

    It is foreign code: loading it may raise anything.
    """
    module, _, name = spec.rpartition(":")
    _importable(Path.cwd())
    found: Any = _from_file(Path(module)) if module.endswith(".py") else importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _from_file(file: Path) -> Any:
    if not file.is_file():
        raise ImportError(f"there is no file {file}")
    _importable(file.resolve().parent)
    found = importlib.import_module(file.stem)
    there = getattr(found, "__file__", None)
    if there is None or Path(there).resolve() != file.resolve():
        raise ImportError(f"another module is called {file.stem!r} already: rename {file}")
    return found


def _importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
