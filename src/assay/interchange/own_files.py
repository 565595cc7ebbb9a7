"""Files that a file names. Only those in its own folder are read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.errors import InvalidRequest, Refusal
from assay.interchange.imported import CannotCarry
from assay.interchange.sources import whole_document
from assay.ports import Limits

MOST_FILES = 10_000
SCHEME = "file://"
CODE = frozenset((".py", ".js", ".ts", ".cjs", ".mjs", ".cts", ".mts", ".rb", ".sh"))


class OwnFiles:
    """The files in the folder of a file. A name that leads out of it, also by a link, is refused."""

    def __init__(self, name: str, limits: Limits) -> None:
        self._root = Path(name).resolve().parent
        self._limits = limits

    def find(self, reference: str) -> list[Path]:
        """The files of `file://…`, which may have wildcards, in their order."""
        name = reference.removeprefix(SCHEME)
        if not name or "\0" in name or Path(name).is_absolute() or ".." in Path(name).parts:
            raise CannotCarry(f"{name[:100]!r} is not in the folder")
        if any(character in name for character in "*?["):
            found: list[Path] = []
            for path in self._matches(name):
                found.append(path)
                if len(found) > MOST_FILES:
                    raise CannotCarry(f"{name[:100]!r} names more than {MOST_FILES:,} files")
            if not found:
                raise CannotCarry(f"there is no file {name[:100]!r}")
            return [self._inside(one) for one in sorted(found)]
        path = self._root / name
        if not path.is_file():
            raise CannotCarry(f"there is no file {name[:100]!r}")
        return [self._inside(path)]

    def has(self, name: str) -> bool:
        """Whether a text is the name of a file there."""
        if "\n" in name or "\0" in name or len(name) > 1_000:  # a prompt
            return False
        try:
            return bool(self.find(name))
        except CannotCarry:
            return False

    def text(self, path: Path) -> str:
        """The text of a file, in UTF-8."""
        if path.suffix in CODE:
            raise CannotCarry("code is not run")
        if path.stat().st_size > self._limits.max_line_bytes:
            raise CannotCarry(f"{path.name} has more than {self._limits.max_line_bytes:,} bytes")
        try:
            return path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise CannotCarry(f"{path.name} is not UTF-8") from None

    def document(self, path: Path) -> Any:
        """The document of a .json, .jsonl, .yaml or .csv file."""
        try:
            return whole_document(str(path), self._limits)
        except InvalidRequest as refusal:
            raise CannotCarry(f"{path.name}: {refusal.problems[0]}") from None
        except Refusal as refusal:
            raise CannotCarry(str(refusal)) from None

    def value(self, reference: str) -> Any:
        """What a value that is `file://…` stands for: a document, or the text of the file."""
        (path,) = self.find(reference)[:1]
        if path.suffix.lower() in (".json", ".yaml", ".yml"):
            return self.document(path)
        return self.text(path).strip()

    def _matches(self, pattern: str) -> Iterator[Path]:
        try:
            for path in self._root.glob(pattern):
                if path.is_file():
                    yield path
        except (ValueError, NotImplementedError, OSError) as wrong:
            raise CannotCarry(f"{pattern[:100]!r}: {wrong}") from None

    def _inside(self, path: Path) -> Path:
        resolved = path.resolve()
        if not resolved.is_relative_to(self._root):
            raise CannotCarry(f"{path.name!r} is a link out of the folder")
        return resolved
