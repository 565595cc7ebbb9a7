"""A pack as a directory: the same files that `assay pack build` puts into the archive."""

import os
import stat
from pathlib import Path

from assay.errors import EnvironmentFailure, Problem, UsageError
from assay.packs.archive import MAX_FILES, PackLimits, check_path
from assay.packs.refusal import PackRefused, PackTooLarge

MAX_FOLDERS = 1_000
PRIVATE_KEY = b"PRIVATE KEY-----"


def read_directory(root: Path, limits: PackLimits = PackLimits()) -> dict[str, bytes]:  # noqa: B008  # a value
    """
    The files below a folder by path, sorted. Hidden files and folders are left out.

    Links, devices and pipes are refused, and so is a private key: a pack is public.
    """
    if not root.is_dir():
        raise UsageError(f"{root}: expected a folder with a pack.json")
    files: dict[str, bytes] = {}
    folders, visited, size = [""], 0, 0
    while folders:
        folder = folders.pop()
        visited += 1
        if visited > MAX_FOLDERS:
            raise PackTooLarge("tarball_too_large", f"the pack has more than {MAX_FOLDERS} folders")
        for name in _names(root / folder):
            path = f"{folder}{name}"
            check_path(path)
            mode = (root / path).lstat().st_mode
            if stat.S_ISDIR(mode):
                folders.append(f"{path}/")
                continue
            if not stat.S_ISREG(mode):
                message = "expected files and folders only, got a link, a device or a pipe"
                code = "tarball_path_traversal" if stat.S_ISLNK(mode) else "tarball_tar_parse_failed"
                raise PackRefused(code, Problem(path, message))
            if len(files) == MAX_FILES:
                raise PackTooLarge("tarball_too_large", f"the pack has more than {MAX_FILES} files")
            files[path] = _content(root, path, limits.file)
            size += len(files[path])
            if size > limits.unpacked:
                raise PackTooLarge(
                    "tarball_too_large", f"the files have more than {limits.unpacked:,} bytes in all"
                )
    return dict(sorted(files.items()))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        raise EnvironmentFailure(f"{folder}: {error.strerror}") from None


def _content(root: Path, path: str, limit: int) -> bytes:
    try:
        descriptor = os.open(root / path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with open(descriptor, "rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise EnvironmentFailure(f"{root / path}: {error.strerror}") from None
    if len(content) > limit:
        raise PackTooLarge("tarball_entry_too_large", Problem(path, f"expected at most {limit:,} bytes"))
    if PRIVATE_KEY in content:
        message = "this file holds a private key, and a pack is public: move the key out of the folder"
        raise PackRefused("invalid_manifest", Problem(path, message))
    return content
