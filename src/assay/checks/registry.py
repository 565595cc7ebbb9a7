"""A registry of checks: an immutable value to pass down and to extend (FEP-5, FEP-37, FEP-38)."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeGuard

from assay.checks.checker import Checker
from assay.checks.function_check import FunctionCheck, function_checker, is_function
from assay.errors import InvalidRequest, Problem, UnknownCheck, UsageError
from assay.errors.nearest import did_you_mean
from assay.import_code import import_object
from assay.protocol.versions import Precedence, is_version, newest, precedence

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class Registry:
    """
    Checks by type and version. `registry.with_checks([Mine])` is another registry; this one stays as it was.

    `deferred` has checks by type as `module:Class`. Each is imported when its type is first used.
    """

    def __init__(
        self, checkers: Iterable[type[Checker]] = (), deferred: Mapping[str, str] | None = None
    ) -> None:
        self._deferred = dict(deferred or {})
        # in the order in which they were given, whenever each is imported
        self._by_type: dict[str, dict[Precedence, type[Checker]]] = {name: {} for name in self._deferred}
        for checker in checkers:
            self._add(checker)

    def __iter__(self) -> Iterator[type[Checker]]:
        for name in list(self._deferred):
            self._load(name)
        for by_version in list(self._by_type.values()):
            yield from by_version.values()

    @property
    def types(self) -> list[str]:
        return sorted(self._by_type)

    def with_checks(self, checkers: Iterable[type[Checker]]) -> Self:
        if not isinstance(checkers, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"with_checks(): expected a list of checks, such as [{_name(checkers)}]")
        extended = type(self)()
        extended._deferred = dict(
            self._deferred
        )  # before the others: a check that is imported now is in one of the two
        extended._by_type = {name: dict(by_version) for name, by_version in list(self._by_type.items())}
        for checker in checkers:
            extended._add(checker)
        return extended

    def find(self, type: str, version: str | None, path: str = "") -> type[Checker]:
        """
        The newest release. With `version`: the newest of the same major version that is not below it.

        Pre-releases count only if there is no release.
        """
        self._load(type)
        by_version = self._by_type.get(type)
        if not by_version:
            hint = did_you_mean(type[:200], self.types, " (", ")")
            raise UnknownCheck(f"{path}.type".lstrip("."), type, version, f"{hint}; {_listed(self.types)}")
        if version is None:
            return by_version[newest(by_version)]
        if not is_version(version):
            raise InvalidRequest(
                Problem(
                    f"{path}.version".lstrip("."),
                    f"expected a semantic version such as '1.0.0', got {version[:100]!r}",
                )
            )
        lowest = precedence(version)
        (major, *_), *_ = lowest
        compatible = [one for one in by_version if one[0][0] == major and one >= lowest]
        if not compatible:
            available = [f"{one.type}@{one.version}" for one in by_version.values()]
            raise UnknownCheck(f"{path}.version".lstrip("."), type, version, f"; {_listed(available)}")
        return by_version[newest(compatible)]

    def _load(self, name: str) -> None:
        """Import the check of this type if that is still to be done. Threads that do it at once agree."""
        spec = self._deferred.get(name)
        if spec is not None:
            module, _, attribute = spec.partition(":")
            checker: type[Checker] = getattr(import_module(module), attribute)
            self._by_type.setdefault(name, {}).setdefault(precedence(checker.version), checker)
            self._deferred.pop(name, None)

    def _add(self, checker: type[Checker]) -> None:
        if not _is_check(checker):
            raise UsageError(f"{_name(checker)} is not a check: expected a subclass of assay.Checker")
        name = f"{checker.__module__}:{checker.__qualname__}"
        if not checker.type or not isinstance(checker.type, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"{name} has no `type`: give it one, such as type = 'polite'")
        if not is_version(checker.version):
            raise UsageError(
                f"{name} has version {checker.version!r}: expected a semantic version such as '1.0.0'"
            )
        if checker.run is Checker.run:
            raise UsageError(f"{name} has no `run`: define run(self, services), or async def run")
        try:
            checker.validate_class()
        except ValueError as wrong:
            raise UsageError(f"{name}: {wrong}") from None
        self._load(checker.type)
        by_version = self._by_type.setdefault(checker.type, {})
        other = by_version.setdefault(precedence(checker.version), checker)
        if other is not checker:
            raise UsageError(
                f"{name} and {other.__module__}:{other.__qualname__}: expected two types or versions, got"
                f" {checker.type}@{checker.version} twice"
            )


def _listed(types: Iterable[str]) -> str:
    return f"there are {', '.join(sorted(types))}"


def _is_check(value: Any) -> TypeGuard[type[Checker]]:
    return isinstance(value, type) and issubclass(value, Checker)


def _name(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)


def installed_checkers() -> list[type[Checker]]:
    """The checks that installed packages offer under the entry point `assay.checks`."""
    return [
        _load_checker(f"entry point {point.name!r} ({point.value})", lambda point=point: point.load())
        for point in installed_entry_points()
    ]


def from_module(spec: str) -> type[Checker]:
    """`module:Class`, `module:function` or the same of a `file.py`, as the operator gives it on the command line."""
    module, _, name = spec.partition(":")
    if not module or not name:
        raise UsageError(
            f"--check-module {spec!r}: expected module:name or file.py:name of a class or function, such as "
            "my_checks:Polite"
        )
    return _load_checker(f"--check-module {spec!r}", lambda: import_object(spec))


def function_checks(modules: Iterable[str]) -> list[dict[str, Any]] | None:
    """The checks of a run without checks: all functions among `--check-module`; None if there is none."""
    checkers = [from_module(spec) for spec in modules]
    types = [one.type for one in checkers if issubclass(one, FunctionCheck)]
    return [{"type": one, "arguments": dict[str, Any]()} for one in types] or None


def unused_modules(modules: Iterable[str], types: Iterable[str]) -> dict[str, str]:
    """The checks of `--check-module` that have none of these types: each module with the type of its check."""
    used = set(types)
    loaded = {spec: from_module(spec).type for spec in modules}
    return {spec: type for spec, type in loaded.items() if type not in used}


def _load_checker(source: str, load: Any) -> type[Checker]:
    try:
        checker = load()
    except (Exception, SystemExit) as surprise:  # a module is foreign code: every failure becomes a message
        raise UsageError(
            f"{source}: expected code that can be loaded, got {type(surprise).__name__}: {surprise}"
        ) from surprise
    if is_function(checker):
        return function_checker(checker)
    if not _is_check(checker):
        raise UsageError(f"{source} is {checker!r}: expected a function or a subclass of assay.Checker")
    return checker


# Finds the entry points of installed packages under `assay.checks`.

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
