"""XML as a tree of names, which two readers make: of whole documents, and of elements in any text."""

import re

from assay.checks.standard.ngram_overlap import trimmed
from assay.errors import ValueFault

DEEPEST = 101  # elements inside one another
MOST_ELEMENTS = 200_000
ATTRIBUTE = "@_"
TEXT = "#text"
INSTRUCTION = "?"
_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")


class Element:
    """An element without its texts: which attributes and children it has, and whether it has text of its own."""

    __slots__ = ("attributes", "children", "has_text", "height")

    def __init__(self, attributes: frozenset[str] = frozenset()) -> None:
        self.attributes = attributes
        self.children: dict[str, list[Element]] = {}  # by name
        self.has_text = False
        self.height = 0  # of the elements inside one another in it

    def add(self, name: str, child: "Element") -> None:
        self.children.setdefault(name, []).append(child)
        self.height = max(self.height, child.height + 1)

    def has_elements(self) -> bool:
        return any(not name.startswith(INSTRUCTION) for name in self.children)


class OpenElements:
    """The elements that have begun and not ended, the outermost first. The first one is the document itself."""

    def __init__(self) -> None:
        self.document = Element()
        self._open = [("", self.document)]
        self._text: list[str] = []  # since the last tag
        self.text = self._text.append
        self._count = 0

    @property
    def depth(self) -> int:
        return len(self._open) - 1

    @property
    def name(self) -> str:
        return self._open[-1][0]

    def start(self, name: str, attributes: frozenset[str]) -> None:
        self.end_text()
        self._count += 1
        if self._count > MOST_ELEMENTS:
            raise ValueFault(f"text: expected at most {MOST_ELEMENTS:,} elements, got more")
        self._open.append((name, Element(attributes)))

    def end(self) -> None:
        self.end_text()
        name, element = self._open.pop()
        self._open[-1][1].add(name, element)

    def instruction(self, target: str) -> None:
        """A processing instruction is a child too."""
        self.start(INSTRUCTION + target, frozenset())
        self.end()

    def section(self, text: str) -> None:
        """Spaces in a section count as text."""
        self.end_text()
        if text:
            self._open[-1][1].has_text = True

    def end_text(self) -> None:
        if self._text:
            if trimmed("".join(self._text)):
                self._open[-1][1].has_text = True
            self._text.clear()

    def drop(self) -> list[Element]:
        """Forget the elements that have not ended. What is complete in each of them is a document."""
        self._text.clear()
        dropped = [element for _, element in self._open[1:]]
        del self._open[1:]
        return dropped


def has_path(document: Element, path: str) -> bool:
    """
    Whether a document has what a path names: names of elements with dots between them, from the root.

    `@_name` is an attribute. `#text` is the text of an element that has attributes or children too. Of siblings with
    one name, a number says which one.
    """
    found: Element | list[Element] = document
    names = path.split(".")
    for at, name in enumerate(names):
        if not isinstance(found, Element):
            if not _INDEX.match(name) or int(name) >= len(found):
                return False
            found = found[int(name)]
        elif name.startswith(ATTRIBUTE) or name == TEXT:
            return at == len(names) - 1 and _has_member(found, name)
        elif siblings := found.children.get(name):
            found = siblings if len(siblings) > 1 else siblings[0]
        else:
            return False
    return True


def _has_member(element: Element, name: str) -> bool:
    if name == TEXT:
        return element.has_text and bool(element.attributes or element.children)
    return name.removeprefix(ATTRIBUTE) in element.attributes
