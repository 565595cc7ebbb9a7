"""
Code inside Markdown: fenced blocks and code spans. A renderer shows them as text, so markup inside them has no effect.
"""

import re

_FENCE = re.compile(r"^[ \t>]{0,12}(`{3,12}|~{3,12})[^\n`]{0,200}$", re.MULTILINE)
_SPAN = re.compile(r"(?<!`)(`{1,3})(?!`)([^\n`]{1,2000})\1(?!`)")
_INDENT = re.compile(r"(?:\A|\n[ \t]*\n)((?:(?: {4}|\t)[^\n]*(?:\n|\Z))+)")


def without_code(text: str) -> str:
    """The text with a space in place of every character of code, so that positions stay."""
    if "`" not in text and "~~~" not in text and "    " not in text and "\t" not in text:
        return text
    parts: list[str] = []
    done, fence, begin = 0, "", 0
    for line in _FENCE.finditer(text):
        if not fence:
            fence, begin = line[1], line.start()
        elif line[1].startswith(fence):
            parts += (text[done:begin], _blank(text[begin : line.end()]))
            done, fence = line.end(), ""
    if fence:  # a fence without an end: the renderer shows the rest as code
        parts += (text[done:begin], _blank(text[begin:]))
        done = len(text)
    prose = "".join((*parts, text[done:]))
    prose = _INDENT.sub(lambda match: _blank(match[0]), prose)
    return _SPAN.sub(lambda match: _blank(match[0]), prose)


def _blank(code: str) -> str:
    return re.sub(r"[^\n]", " ", code)
