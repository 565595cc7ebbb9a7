"""
Arguments as the text's own proto types them (FEP 5.2): a CheckValue, `{"jsonpath_expression": "$.output.value"}`.

A client that writes ExactMatchArguments and its like as JSON sends such objects. They are read as what they stand for, where the
text has a CheckValue, and nowhere else; one that makes no sense is refused, and none is compared as an object.
"""

from typing import Any

from assay.protocol.json_types import is_object, kind_of, preview

FIELDS = frozenset(  # where the text has a CheckValue
    {
        ("exact_match", "actual"),
        ("exact_match", "expected"),
        ("contains", "text"),
        ("regex", "text"),
        ("threshold", "value"),
    }
)
PATH = "jsonpath_expression"
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "literal_string": ((str,), "a string"),
    "literal_number": ((int, float), "a number"),
    "literal_bool": ((bool,), "true or false"),
    "literal_object": ((dict,), "an object"),
    PATH: ((str,), "a path, a string that begins with `$.`"),
}
_NAMES = {name: name for name in _KINDS} | {
    "literalString": "literal_string",
    "literalNumber": "literal_number",
    "literalBool": "literal_bool",
    "literalObject": "literal_object",
    "jsonpathExpression": PATH,
}


def is_check_value(check: str, argument: str, value: Any) -> bool:
    """Whether it is a CheckValue, under the names of the proto or of its JSON."""
    return (
        (check, argument) in FIELDS
        and is_object(value)
        and bool(value)
        and all(name in _NAMES for name in value)
    )


def unwrap(value: dict[str, Any]) -> tuple[Any, bool]:
    """What it stands for, and whether that is a literal; a ValueError where it stands for nothing."""
    if len(value) > 1:
        raise ValueError(f"expected one of {', '.join(_KINDS)}, got {', '.join(value)}")
    ((name, content),) = value.items()
    kinds, noun = _KINDS[_NAMES[name]]
    path = _NAMES[name] == PATH
    if type(content) not in kinds or (path and not content.startswith("$.")):
        raise ValueError(f"expected {noun} as {name}, got {preview(content) if path else kind_of(content)}")
    return content, not path
