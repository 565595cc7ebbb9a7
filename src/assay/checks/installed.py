"""
Finds the entry points of installed packages under `assay.checks`.

Most environments have none, and `importlib.metadata` takes longer to find that out than a first evaluation takes
otherwise. So the files are searched for the name of the group first. A test compares both.
"""

import os
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "assay.checks"
METADATA = (".dist-info", ".egg-info")


def installed_entry_points() -> "tuple[EntryPoint, ...]":
    """The entry points, cached until a package is installed or removed: reading them takes milliseconds."""
    return _entry_points(tuple(map(_directory_state, sys.path)))


@lru_cache(maxsize=8)
def _entry_points(directories: tuple[tuple[str, int], ...]) -> "tuple[EntryPoint, ...]":
    if not may_offer_checks([directory for directory, _ in directories], sys.meta_path):
        return ()
    from importlib.metadata import entry_points  # deferred import

    return tuple(entry_points(group=GROUP))


def may_offer_checks(path: Iterable[str], finders: Iterable[Any]) -> bool:
    """
    Whether the metadata of a package on this path names the group, or the path has a part that only Python's finders
    can read.
    """
    others = [finder for finder in finders if getattr(finder, "__name__", "") != "PathFinder"]
    if any(hasattr(finder, "find_distributions") for finder in others):
        return True
    return any(map(_names_group, path))


def _names_group(directory: str) -> bool:
    try:
        names = os.listdir(directory or ".")
    except NotADirectoryError:
        return True  # an archive
    except OSError:
        return False
    if any(name.lower().endswith(".egg") for name in (directory, *names)):
        return True
    found = (
        f"{directory or '.'}/{name}/entry_points.txt" for name in names if name.lower().endswith(METADATA)
    )
    return any(map(_file_names_group, found))


def _file_names_group(file: str) -> bool:
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError:
        return False  # most packages have no entry points
    with open(descriptor, "rb", buffering=0) as opened:
        return GROUP.encode() in opened.read()


def _directory_state(directory: str) -> tuple[str, int]:
    """A folder with packages, and the time of its last change."""
    try:
        return directory, os.stat(directory or ".").st_mtime_ns
    except OSError:
        return directory, 0
