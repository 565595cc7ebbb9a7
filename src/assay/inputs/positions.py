"""Where a member of a YAML or JSON document stands in its file: the line and the column, both from 1."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

SEGMENT = re.compile(r'\[(\d+)\]|\[?"((?:[^"\\]|\\.)*)"\]?|([^.\[\]]+)')
Path = tuple[str | int, ...]


class Position(NamedTuple):
    line: int
    column: int


def find_positions(data: bytes, places: Iterable[str]) -> dict[str, Position]:
    """
    The position of each place, such as `tasks[0].expected`. If the member is not there, that of the nearest one around
    it. A place may begin with the name of the list that the document is.
    """
    paths = {place: path_of(place) for place in places}
    wanted = {path[:size] for path in paths.values() for size in range(len(path) + 1)}
    wanted |= {path[1:size] for path in paths.values() for size in range(1, len(path) + 1)}
    found = _walk(data, wanted)
    positions: dict[str, Position] = {}
    for place, path in paths.items():
        listed = len(path) > 1 and isinstance(path[1], int) and path[:1] not in found and path[1:2] in found
        near = path[1:] if listed else path
        while near and near not in found:
            near = near[:-1]
        positions[place] = found.get(near, Position(1, 1))
    return positions


def path_of(place: str) -> Path:
    """`tasks[0].expected` as its parts."""
    return tuple(
        int(index) if index else quoted or name for index, quoted, name in SEGMENT.findall(place.strip())
    )


def _walk(data: bytes, wanted: set[Path]) -> dict[Path, Position]:
    """The positions of these paths, up to the first error of the syntax."""
    import yaml  # deferred import: only a document with a problem is read again

    parse: Any = getattr(yaml, "parse")  # noqa: B009  # it has no types
    found: dict[Path, Position] = {}
    stack: list[_Open] = []
    try:
        for event in parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
                stack.pop()
            elif isinstance(event, yaml.NodeEvent):
                _put(event, stack, found, wanted, opens=isinstance(event, yaml.CollectionStartEvent))
                if isinstance(event, yaml.CollectionStartEvent):
                    parent = stack[-1].path if stack else ()
                    path = (*parent, stack[-1].last) if stack else ()
                    stack.append(_Open(path, is_list=isinstance(event, yaml.SequenceStartEvent)))
    except yaml.YAMLError:
        pass  # what was read is known
    return found


class _Open:
    """A collection whose end has not been read yet. `last`: the index or the name of the current member."""

    __slots__ = ("at_key", "is_list", "last", "path")

    def __init__(self, path: Path, *, is_list: bool) -> None:
        self.path, self.is_list = path, is_list
        self.at_key = not is_list  # the next scalar of a mapping is a key
        self.last: str | int = -1


def _put(
    event: Any, stack: list[_Open], found: dict[Path, Position], wanted: set[Path], *, opens: bool
) -> None:
    position = Position(event.start_mark.line + 1, event.start_mark.column + 1)
    if not stack:
        found[()] = position
        return
    top = stack[-1]
    if top.is_list:
        top.last = int(top.last) + 1
    elif top.at_key and not opens:
        top.at_key, top.last = False, str(getattr(event, "value", ""))
    else:
        top.at_key = True
        return  # a member has the position of its key
    path = (*top.path, top.last)
    if path in wanted:
        found.setdefault(path, position)


def syntax_position(data: bytes) -> Position | None:
    """Where a text stops being YAML, of which JSON is a part; None if it is YAML."""
    import yaml  # deferred import: only a document with a problem is read again

    parse: Any = getattr(yaml, "parse")  # noqa: B009  # it has no types
    try:
        for _ in parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.YAMLError as wrong:
        mark: Any = getattr(wrong, "problem_mark", None)
        return None if mark is None else Position(mark.line + 1, mark.column + 1)
    return None
