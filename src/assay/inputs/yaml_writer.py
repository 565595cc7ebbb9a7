"""Writes YAML 1.2 that YAML 1.1 reads too."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from assay.protocol.json_types import is_list, is_object
from assay.terminal import one_line

_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\Z")
_WORDS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))  # of YAML 1.1 and 1.2
_NOT_YAML = re.compile("[\ufffe\uffff]")


def as_yaml(document: Any) -> str:
    """A JSON document as YAML 1.2, which YAML 1.1 reads too."""
    return "\n".join(_block(document, "")) + "\n"


def _block(value: Any, indent: str) -> Iterator[str]:
    """The lines of a value that is not a scalar."""
    if is_object(value) and value:
        for name, item in value.items():
            yield from _entry(f"{indent}{_key(name)}:", item, indent + "  ")
    elif is_list(value) and value:
        for item in value:
            first, *rest = _block(item, indent + "  ")
            yield f"{indent}- {first.lstrip(' ')}"
            yield from rest
    else:
        yield indent + _scalar(value)


def _entry(label: str, value: Any, indent: str) -> Iterator[str]:
    if (is_object(value) or is_list(value)) and value:
        yield label
        yield from _block(value, indent)
    else:
        yield f"{label} {_scalar(value)}"


def _key(name: str) -> str:
    return name if _PLAIN_KEY.match(name) and name.lower() not in _WORDS else _quoted(name)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float) and "e" in repr(value):
        digits, _, exponent = repr(value).partition("e")
        return f"{digits if '.' in digits else digits + '.0'}e{exponent if exponent[0] in '+-' else '+' + exponent}"
    return msgspec.json.encode(value).decode()


def _quoted(text: str) -> str:
    escaped = one_line(text.replace("\\", "\\\\").replace('"', '\\"'))
    return '"' + _NOT_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", escaped) + '"'
