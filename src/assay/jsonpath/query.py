"""Compiled queries (RFC 9535; FEP-12 to FEP-16), and functions that run many of them over one document."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from itertools import takewhile
from typing import Any, NoReturn, TypeGuard

from assay.cache import memoize
from assay.concurrency.workers import batch
from assay.errors import MalformedPath, PathFault
from assay.jsonpath.budget import Budget
from assay.jsonpath.evaluator import MISSING, Getter, evaluator, getter
from assay.jsonpath.grammar import Segment, parse

MAX_NODES = 100_000
MAX_SECONDS = 1.0
CACHED = 32 << 20  # bytes of all cached queries


# called before each search: whether its result is no longer needed
stopping: ContextVar[Callable[[], bool]] = ContextVar("stopping")


def _is_name(key: str | int | None) -> TypeGuard[str]:
    return isinstance(key, str)


class Query:
    """
    A compiled query. It is immutable, so several threads may use it at once.

    `get(document)` is for singular queries: the value, or MISSING. `prefix`: the member names that it begins with.
    """

    __slots__ = ("_evaluate", "get", "names", "prefix", "singular", "text")

    def __init__(self, text: str, segments: tuple[Segment, ...]) -> None:
        keys = [segment.key for segment in segments]
        path = tuple(key for key in keys if key is not None)
        names = tuple(key for key in path if isinstance(key, str))
        self.text = text
        self.singular = len(path) == len(segments)
        self.prefix: tuple[str, ...] = tuple(filter(_is_name, takewhile(_is_name, keys)))
        self.names = names if len(names) == len(segments) else None
        self.get: Getter = getter(path) if self.singular else self._not_singular
        self._evaluate = None if self.singular else evaluator(segments)

    def values(
        self, document: Any, *, max_nodes: int = MAX_NODES, max_seconds: float = MAX_SECONDS
    ) -> list[Any]:
        """The values of the nodes in order. Raises PathFault if the query exceeds the limits of nodes or time."""
        if self._evaluate is None:
            value = self.get(document)
            return [] if value is MISSING else [value]
        if (over := stopping.get(None)) is not None and over():
            raise PathFault("the request ended before this path was followed")
        try:
            return self._evaluate(document, Budget(document, max_nodes, max_seconds))
        except RecursionError:
            raise PathFault("the path or its pattern is nested too deep") from None

    def _not_singular(self, document: Any) -> NoReturn:
        raise TypeError(f"{self.text!r} may select several nodes: use values()")

    def __repr__(self) -> str:
        return f"Query({self.text!r})"


def compile(text: str) -> Query:
    """Compile a query. Raises MalformedPath if RFC 9535 does not allow the text. Queries are cached."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # arguments come from JSON
        raise MalformedPath(repr(text)[:40], None, f"expected a string, got {type(text).__name__}")
    return _compile(text)


def _estimated_bytes(text: str) -> int:
    return 80 * len(text)  # measured: up to 76 bytes a character


@memoize(CACHED, _estimated_bytes, batch.owner.get)
def _compile(text: str) -> Query:
    try:
        return Query(text, parse(text))
    except RecursionError:  # our own nesting is bounded; the caller's stack may be nearly full
        raise MalformedPath(text, None, "nested too deep") from None


# Runs many queries over one document in one generated function. The result equals that of running each in turn.


def batch_getter(names: Sequence[tuple[str, ...]], gets: Sequence[Getter]) -> Callable[[Any], list[Any]]:
    """
    A function for `[get(document) for get in gets]`, where each getter follows the member names at the same index.

    It is generated Python source with one line per member; a member that several paths share is read once. Names are
    written as string literals. If a member is absent or its parent is not an object, every getter runs on its own.
    """
    lines, wanted = steps(names)
    source = "\n".join(
        [
            "def get(node):",
            "    try:",
            *(f"        {line}" for line in lines),
            f"        return [{', '.join(wanted)}]",
            "    except (KeyError, TypeError):",
            "        return [one(node) for one in gets]",
        ]
    )
    scope: dict[str, Any] = {"gets": tuple(gets)}
    exec(source, scope)  # noqa: S102  # made of literals and names of our own, as dataclasses are
    return scope["get"]


def steps(names: Sequence[tuple[str, ...]]) -> tuple[list[str], list[str]]:
    """
    The lines of Python that follow these names from `node`, and the variable of each value.

    The lines raise KeyError or TypeError if a member is absent or its parent is not an object.
    """
    lines: list[str] = []
    known: dict[tuple[str, ...], str] = {(): "node"}

    def node(path: tuple[str, ...]) -> str:
        if path not in known:
            parent = node(path[:-1])
            known[path] = f"node{len(known)}"
            lines.append(f"{known[path]} = {parent}[{path[-1]!r}]")
        return known[path]

    return lines, [node(path) for path in names]
