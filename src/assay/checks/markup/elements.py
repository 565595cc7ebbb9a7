"""
Elements of XML in any text, by their tags alone, as promptfoo finds them: what stands between the tags need not be
well-formed.
"""

import re

from assay.checks.markup.tree import DEEPEST, Element, OpenElements
from assay.checks.standard.ngram_overlap import SPACE, trimmed

_START = (
    ":A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NAME = f"[{_START}][-.0-9\u00b7\u0300-\u036f\u203f\u2040{_START}]*+"
_TAG = re.compile(rf"<(?P<close>/?)(?P<name>{_NAME})(?P<rest>(?:[^\"'<>]++|\"[^\"]*+\"|'[^']*+')*+)>")
_ATTRIBUTE = re.compile(rf"([^{SPACE}=]++)[{SPACE}]*+(?:=[{SPACE}]*+(?:\"[^\"]*+\"|'[^']*+'))?")
_COMMENT, _SECTION, _INSTRUCTION = ("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")
_MARK = re.compile(r"\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|[\[\]>]")
_TARGET = re.compile(rf"[^{SPACE}]*")


def read_elements(text: str) -> list[Element]:
    """
    The elements that no other element contains, in documents: those with the same open tag around them are one.
    """
    elements = OpenElements()
    dropped: list[Element] = []
    at = 0
    while (start := text.find("<", at)) >= 0:
        elements.text(text[at:start])
        if text.startswith(("<!", "<?"), start):
            at = _read_declaration(text, start, elements)
        elif tag := _TAG.match(text, start):
            dropped += _read_tag(tag, elements)
            at = tag.end()
        else:
            elements.text("<")
            at = start + 1
    dropped += elements.drop()
    return [one for one in (elements.document, *dropped) if one.has_elements() and one.height <= DEEPEST]


def _read_tag(tag: re.Match[str], elements: OpenElements) -> list[Element]:
    """Begin or end an element. An end tag of another name drops all that have begun."""
    name, rest = tag["name"], trimmed(tag["rest"])
    if tag["close"]:
        if not elements.depth or elements.name != name:
            return elements.drop()
        elements.end()
        return []
    is_empty = rest.endswith("/")
    attributes = frozenset(one[1] for one in _ATTRIBUTE.finditer(rest.removesuffix("/")))
    elements.start(name, attributes)
    if is_empty:
        elements.end()
    return []


def _read_declaration(text: str, at: int, elements: OpenElements) -> int:
    """Where what has no tags ends: a comment, a section, a processing instruction or another declaration."""
    for mark in (_COMMENT, _SECTION, _INSTRUCTION):
        start, end = mark
        if text.startswith(start, at):
            inner = at + len(start)
            found = text.find(end, inner)
            last = len(text) if found < 0 else found
            if mark is _SECTION:
                elements.section(text[inner:last])
            elif mark is _INSTRUCTION and (target := _TARGET.match(text, inner, last)):
                elements.instruction(target[0])
            return min(len(text), last + len(end))
    return _end_of_declaration(text, at)


def _end_of_declaration(text: str, at: int) -> int:
    depth = 0
    for mark in _MARK.finditer(text, at + 2):
        if mark[0] == "[":
            depth += 1
        elif mark[0] == "]":
            depth = max(0, depth - 1)
        elif mark[0] == ">" and not depth:
            return mark.end()
    return len(text)
