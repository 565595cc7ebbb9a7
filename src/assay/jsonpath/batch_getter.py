"""Many queries over one document in one step: the fast form of asking each in turn, and equal to it."""

from collections.abc import Callable, Sequence
from typing import Any

Get = Callable[[Any], Any]


def batch_getter(names: Sequence[tuple[str, ...]], gets: Sequence[Get]) -> Callable[[Any], list[Any]]:
    """
    One function for `[get(document) for get in gets]`, where each getter follows the member names beside it.

    It is written out as Python, a line for every member that several share; names go in as literals of theirs.
    Where a member is absent or no object, every getter is asked on its own.
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
    """The lines of Python that follow these names from `node`, and in which variable each ends. They raise where a member is absent or no object."""
    lines: list[str] = []
    known: dict[tuple[str, ...], str] = {(): "node"}

    def node(path: tuple[str, ...]) -> str:
        if path not in known:
            parent = node(path[:-1])
            known[path] = f"node{len(known)}"
            lines.append(f"{known[path]} = {parent}[{path[-1]!r}]")
        return known[path]

    return lines, [node(path) for path in names]
