"""
Reads arguments in the form of FEP's proto (FEP 5.2): a CheckValue, `{"jsonpath_expression": "$.output.value"}`.

A client that writes ExactMatchArguments and similar messages as JSON sends such objects. They are unwrapped only in
arguments that are a CheckValue in the proto. An invalid CheckValue is refused; it is not compared as an object.
"""

from typing import Any

from assay.protocol.json_types import is_object, kind_of, preview

FIELDS = frozenset(  # the arguments that are a CheckValue in the proto
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
    """Whether the object is a CheckValue, by the member names of the proto or of its JSON form."""
    return (
        (check, argument) in FIELDS
        and is_object(value)
        and bool(value)
        and all(name in _NAMES for name in value)
    )


def unwrap(value: dict[str, Any]) -> tuple[Any, bool]:
    """The value of a CheckValue, and whether it is a literal. Raises ValueError for an invalid CheckValue."""
    if len(value) > 1:
        raise ValueError(f"expected one of {', '.join(_KINDS)}, got {', '.join(value)}")
    ((name, content),) = value.items()
    kinds, noun = _KINDS[_NAMES[name]]
    path = _NAMES[name] == PATH
    if type(content) not in kinds or (path and not content.startswith("$.")):
        raise ValueError(f"expected {noun} as {name}, got {preview(content) if path else kind_of(content)}")
    return content, not path
