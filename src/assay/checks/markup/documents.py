"""
Whole documents of XML, read by expat. Nothing outside a document is loaded, and a document declares no entities, so
that a small one cannot become a large one.
"""

from collections.abc import Mapping
from xml.parsers import expat

from assay.checks.markup.tree import DEEPEST, Element, OpenElements


class NotXML(ValueError):
    """Why a text is no well-formed document. It has no part of the text."""


def read_document(text: str) -> Element:
    """The document that a whole text is; its prefixes are declared. NotXML if it is none."""
    _parse(_parser("}"), text)
    elements = OpenElements()
    section: list[str] | None = None

    def start(name: str, attributes: Mapping[str, str]) -> None:
        if elements.depth >= DEEPEST:
            raise NotXML(f"more than {DEEPEST} elements are inside one another")
        elements.start(name, frozenset(attributes))

    def end(name: str) -> None:
        elements.end()

    def characters(data: str) -> None:
        if section is None:
            elements.text(data)
        else:
            section.append(data)

    def start_section() -> None:
        nonlocal section
        section = []

    def end_section() -> None:
        nonlocal section
        elements.section("".join(section or ()))
        section = None

    def instruction(target: str, data: str) -> None:
        elements.instruction(target)

    def entity(name: str, is_parameter: bool) -> None:
        """A file outside the document may declare it."""
        elements.text(name)

    parser = _parser(None)
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.StartCdataSectionHandler = start_section
    parser.EndCdataSectionHandler = end_section
    parser.ProcessingInstructionHandler = instruction
    parser.SkippedEntityHandler = entity
    _parse(parser, text)
    return elements.document


def _parser(separator: str | None) -> expat.XMLParserType:
    """A parser that knows namespaces if it has a separator."""
    parser = expat.ParserCreate("utf-8", separator)
    parser.StartDoctypeDeclHandler = _refuse_declarations
    return parser


def _refuse_declarations(name: str, system: str | None, public: str | None, has_subset: bool) -> None:
    if has_subset:
        raise NotXML("its DOCTYPE has declarations")


def _parse(parser: expat.XMLParserType, text: str) -> None:
    try:
        parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as wrong:
        raise NotXML(str(wrong)) from None
