"""Assertions of promptfoo about XML."""

from typing import Any

from assay.checks.standard.ngram_overlap import trimmed
from assay.interchange.imported import CannotCarry
from assay.interchange.made_checks import OUTPUT, check
from assay.protocol.json_types import JSON, is_list, is_object

_OF_OBJECTS = frozenset(  # what every object of JavaScript has
    (
        "__defineGetter__",
        "__defineSetter__",
        "__lookupGetter__",
        "__lookupSetter__",
        "__proto__",
        "constructor",
        "hasOwnProperty",
        "isPrototypeOf",
        "propertyIsEnumerable",
        "toLocaleString",
        "toString",
        "valueOf",
    )
)


def xml(value: Any, *, contained: bool, inverse: bool) -> JSON:
    """A text has paths with commas between them."""
    paths: Any = value
    if isinstance(value, str):
        paths = list(map(trimmed, value.split(",")))
    elif is_object(value) and value:
        paths = value.get("requiredElements")
    elif not value and not isinstance(value, bool | int | float):
        paths = []
    if not is_list(paths) or not all(isinstance(path, str) for path in paths):
        raise CannotCarry("its value is no text, no list of texts and no object with requiredElements")
    for path in paths:
        names = path.split(".")
        if path.startswith("#") or any(name.startswith("?") or name in _OF_OBJECTS for name in names):
            raise CannotCarry("a path names what is no element, attribute or text of one")
    options: JSON = ({"contained": True} if contained else {}) | ({"negate": True} if inverse else {})
    return check("xml", text=OUTPUT, **({"required": paths} if paths else {}), **options)
