"""Runs many queries over one document in one generated function. The result equals that of running each in turn."""

from collections.abc import Callable, Sequence
from typing import Any

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
