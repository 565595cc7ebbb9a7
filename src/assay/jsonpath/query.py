"""
Compiled queries. Names and indexes run as one getter, chains of child segments as nested iterators. Queries that
descend or filter run through the library (RFC 9535; FEP-12 to FEP-16).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from enum import Enum
from itertools import chain, islice, takewhile
from typing import Any, Final, NoReturn

from assay.cache import memoize
from assay.concurrency.workers import batch
from assay.errors import MalformedPath, PathFault
from assay.jsonpath.grammar import ARRAY, OBJECT, Filter, Segment, Selector, parse

MAX_NODES = 100_000
MAX_SECONDS = 1.0
CACHED = 32 << 20  # bytes of all cached queries


class Missing(Enum):
    """No node: not the same as a node whose value is null (FEP-15)."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING

# called before each search: whether its result is no longer needed
stopping: ContextVar[Callable[[], bool]] = ContextVar("stopping")

Getter = Callable[[Any], Any]
Run = Callable[[Any, int, float], list[Any]]  # document, max_nodes, max_seconds


class Query:
    """
    A compiled query. It is immutable, so several threads may use it at once.

    `get(document)` is for singular queries: the value, or MISSING.
    """

    __slots__ = ("_run", "get", "names", "singular", "text")

    def __init__(self, text: str, segments: tuple[Segment, ...]) -> None:
        keys = [segment.key for segment in segments]
        path = tuple(key for key in keys if key is not None)
        names = tuple(key for key in path if isinstance(key, str))
        self.text = text
        self.singular = len(path) == len(segments)
        self.names = names if len(names) == len(segments) else None
        self.get: Getter = _getter(path) if self.singular else self._not_singular
        self._run: Run | None = None if self.singular else _runner(segments)

    def values(
        self, document: Any, *, max_nodes: int = MAX_NODES, max_seconds: float = MAX_SECONDS
    ) -> list[Any]:
        """The values of the nodes in order. Raises PathFault if the query exceeds the limits of nodes or time."""
        if self._run is not None:
            if (over := stopping.get(None)) is not None and over():
                raise PathFault("the request ended before this path was followed")
            return self._run(document, max_nodes, max_seconds)
        value = self.get(document)
        return [] if value is MISSING else [value]

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


def _getter(path: Iterable[str | int | None]) -> Getter:
    steps: list[tuple[type[Any], Any]] = [(OBJECT if isinstance(key, str) else ARRAY, key) for key in path]

    def get(node: Any) -> Any:
        try:
            for kind, key in steps:
                if not isinstance(node, kind):
                    return MISSING
                node = node[key]
        except LookupError:
            return MISSING
        return node

    return get


def _runner(segments: tuple[Segment, ...]) -> Run:
    if any(part.descend or any(isinstance(one, Filter) for one in part.selectors) for part in segments):
        from assay.jsonpath.evaluator import general  # deferred import: the library takes 57 ms to load

        return general(segments)
    return _chain(segments)


def _chain(segments: tuple[Segment, ...]) -> Run:
    """A runner for chains of child segments. Its time is linear in the nodes, so the limit of nodes bounds it too."""
    lead = tuple(takewhile(lambda key: key is not None, (part.key for part in segments)))
    get = _getter(lead)
    steps = [_step(part) for part in segments[len(lead) :]]

    def run(document: Any, max_nodes: int, max_seconds: float) -> list[Any]:
        nodes = [get(document)]
        if nodes[0] is MISSING:
            return []
        room = max_nodes - len(lead)
        for step in steps:
            nodes = list(islice(step(nodes), max(room + 1, 0)))
            room -= len(nodes)
            if room < 0:
                raise PathFault(
                    f"the path visits more than {max_nodes} nodes, which is the limit (raise it with ASSAY_MAX_NODES)"
                )
        return nodes

    return run


def _step(segment: Segment) -> Callable[[list[Any]], Iterator[Any]]:
    if isinstance(name := segment.key, str):  # the most common case, and twice as fast as the general form
        return lambda nodes: (node[name] for node in nodes if isinstance(node, OBJECT) and name in node)
    several = [_children(selector) for selector in segment.selectors]
    if len(several) == 1:
        return lambda nodes: chain.from_iterable(map(several[0], nodes))
    return lambda nodes: (child for node in nodes for select in several for child in select(node))


def _children(selector: Selector) -> Callable[[Any], Iterable[Any]]:
    match selector:
        case str() as name:
            return lambda node: (node[name],) if isinstance(node, OBJECT) and name in node else ()
        case int() as index:
            return lambda node: (
                (node[index],) if isinstance(node, ARRAY) and -len(node) <= index < len(node) else ()
            )
        case slice() as cut if cut.step == 0:
            return lambda node: ()
        case slice() as cut:
            return lambda node: node[cut] if isinstance(node, ARRAY) else ()
        case _:
            return lambda node: (
                node if isinstance(node, ARRAY) else node.values() if isinstance(node, OBJECT) else ()
            )


# Runs many queries over one document in one generated function. The result equals that of running each in turn.

Get = Callable[[Any], Any]


def batch_getter(names: Sequence[tuple[str, ...]], gets: Sequence[Get]) -> Callable[[Any], list[Any]]:
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
