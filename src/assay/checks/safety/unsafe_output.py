"""unsafe_output: the text has characters or markup that act on the terminal, the page or the reader that shows it."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from assay.checks.safety.detector import Detection, Detector, texts_in
from assay.checks.safety.links import without_code
from assay.ports import Services

Span = tuple[int, int, str]

_CONTROL = re.compile(r"\x1b[ -/]*[0-~]?|[\x90\x9b\x9d\x9e\x9f]|[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_TAGS = re.compile(
    r"<(?P<tag>script|iframe|object|embed|applet|frame|frameset|base|link|meta)(?=[\s/>])[^<>]{0,1000}>?|<(?:form)\b[^<>]{0,400}?\baction\s{0,5}=\s{0,5}[\"']?(?:https?:)?//",
    re.IGNORECASE,
)
_HARMLESS_TAG = re.compile(
    r"<(?:meta\s+(?:charset|name|property)|link\b[^<>]{0,400}\brel\s?=\s?[\"']?(?:icon|canonical|alternate|shortcut|author|license|next|prev))"
    r"|<(?:object|link|base|frame|embed|meta)\s?/?>|<object\s+(?:id|class)\b(?![^<>]{0,400}\bdata\s?=)",
    re.IGNORECASE,
)
_HANDLER = re.compile(
    r"<[a-z][a-z0-9:-]{0,30}[\s/\"'][^<>]{0,1000}?(?<![\w-])on[a-z]{3,30}\s{0,10}=", re.IGNORECASE
)
_BAD_SCHEME = r"(?:j[\s\0]{0,3}a[\s\0]{0,3}v[\s\0]{0,3}a[\s\0]{0,3}s[\s\0]{0,3}c[\s\0]{0,3}r[\s\0]{0,3}i[\s\0]{0,3}p[\s\0]{0,3}t|vbscript|livescript)\s{0,5}:|data:(?:text/html|image/svg\+xml|application/xhtml\+xml|text/xml)"
_SCHEME = re.compile(
    rf"(?:\]\(\s{{0,10}}<?|^\s{{0,3}}\[[^\]\n]{{1,99}}\]:\s{{0,10}}|<|\b(?:href|src|action|formaction|background|data|poster|srcdoc)\s{{0,10}}=\s{{0,10}}[\"']?\s{{0,10}}|url\(\s{{0,5}}[\"']?)(?:{_BAD_SCHEME})",
    re.IGNORECASE | re.MULTILINE,
)
_ENTITY = re.compile(r"&#(?:x([0-9a-f]{1,6})|(\d{1,7}));?|&(?:tab|newline|colon);", re.IGNORECASE)
_ENTITY_LINK = re.compile(
    r"\b(?:href|src|action)\s{0,5}=\s{0,5}[\"']?[^\"'<>\n]{0,80}?&(?:#|tab|newline|colon)[^\"'<>\n]{0,200}",
    re.IGNORECASE,
)
_STYLE = re.compile(
    r"<style\b[^<>]{0,200}>[^<]{0,4000}?(?:@import|expression\(|behavior:|-moz-binding|url\(\s?[\"']?(?:https?:)?//)",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(
    r"""\{\{[-=\s]{0,5}(?:\d{1,9}\s?[*+/%-]\s?(?:\d|'))|[$\#*@]\{{1,2}\s?\d{1,9}\s?[*+/%-]\s?\d
      |\{[{%][^{}\n]{0,300}?(?:__\w{2,30}__|\b(?:config|request|self|settings|cycler|lipsum|joiner|namespace|url_for|get_flashed_messages|constructor|session|app)\s?[.\[|(][^{}\n]{0,200}?[\[(]|\.popen|\bsystem\(|\beval\(|\bexec\(|\bimport\b|\.constructor|\battr\()
      |\$\{[^{}\n]{0,40}(?:\$\{[^{}\n]{1,40}\}[^{}\n]{0,40}){0,6}?(?:jndi|ndi:|\bT\(|Runtime|ProcessBuilder|getClass|\.forName|env:|sys:|script:|\bclass\.)
      |[*\#]\{\s?T\(|\#\{[^{}\n]{0,60}(?:Runtime|%x|`|system\(|exec\()
      |<%[=@!\s][^%<>\n]{0,600}(?:%>|;)|<\?(?:php\b|=)[^\n]{0,600}
      |<\#assign\b[^<>\n]{0,200}|\?new\(\)|\{php\}|\{\$smarty|\#set\s?\(\$\w|\[\[\$\{""",
    re.VERBOSE,
)
_FORMULA = re.compile(
    r"""(?:^|(?<=[,;\t"]))\s{0,2}["']?[=+\-@]\s{0,3}(?:[\w.!$():+*/\- ]{0,60}\b(?:cmd|powershell|mshta|rundll32|msexcel|excel)\s?\|
      |[\w.(]{0,30}(?:HYPERLINK|WEBSERVICE|IMPORT(?:XML|DATA|HTML|FEED|RANGE)|DDE|CALL|REGISTER\.ID|FILTERXML|RTD)\s?\()""",
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
_TEST_FILES = re.compile(r"\$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!|\*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL\*")


class UnsafeOutput(Detector):
    type = "unsafe_output"
    waits = False
    kind = "unsafe-output"
    severity = "medium"
    task_arguments = {"text": "$.output.value"}  # noqa: RUF012

    text: Any

    def detections(self, services: Services) -> Sequence[Detection]:
        return [
            Detection(where, start, end, rule)
            for where, text in texts_in("text", self.text)
            for start, end, rule in unsafe_spans(text)
        ]


def unsafe_spans(text: str) -> list[Span]:
    """Start, end and rule of every unsafe part. Markup in Markdown code does not count; characters count everywhere."""
    found = [(match.start(), match.end(), _control_rule(match[0])) for match in _CONTROL.finditer(text)]
    found += hidden_spans(text)
    found += ((match.start(), match.end(), "malware-test-file") for match in _TEST_FILES.finditer(text))
    if any(one in text for one in "<{$#=]+@[-*"):
        found += _markup(without_code(text))
    return sorted(found)


def _control_rule(characters: str) -> str:
    return "terminal-escape" if characters[0] in "\x1b\x90\x9b\x9d\x9e\x9f" else "control-character"


def _markup(text: str) -> Iterator[Span]:
    for match in _TAGS.finditer(text):
        if not _HARMLESS_TAG.match(text, match.start()) and not _is_video(match):
            yield match.start(), match.end(), "active-html"
    for pattern, rule in (
        (_HANDLER, "event-handler"),
        (_SCHEME, "script-url"),
        (_STYLE, "active-style"),
        (_TEMPLATE, "template-expression"),
        (_FORMULA, "spreadsheet-formula"),
    ):
        yield from ((match.start(), match.end(), rule) for match in pattern.finditer(text))
    for match in _ENTITY_LINK.finditer(text):
        if _SCHEME.search(_ENTITY.sub(_character, match[0])):
            yield match.start(), match.end(), "script-url"


def _is_video(match: re.Match[str]) -> bool:
    """A frame of a video or a map, which pages embed every day."""
    return match[0].lower().startswith("<iframe") and _EMBEDS.search(match[0]) is not None


_EMBEDS = re.compile(
    r"\ssrc\s?=\s?[\"']?https://(?:www\.)?(?:youtube(?:-nocookie)?\.com/embed/|player\.vimeo\.com/video/|(?:www\.)?google\.com/maps/embed|www\.openstreetmap\.org/export/)",
    re.IGNORECASE,
)


def _character(entity: re.Match[str]) -> str:
    if entity[1] or entity[2]:
        code = int(entity[1], 16) if entity[1] else int(entity[2])
        return chr(code) if code < 0x110000 else ""
    return ":" if entity[0].lower() == "&colon;" else ""


# Characters that hide or reorder text: bidirectional controls, zero-width characters, tags, variation selectors.

_TAG_CHARACTERS = re.compile("[\U000e0000-\U000e007f]+")
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}")
_WIDTHLESS = (
    "\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200d\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0"
)
_RUN = re.compile(f"[{_WIDTHLESS}]+")
_JOINERS = "\u200c\u200d"
_QUICK = re.compile(f"[{_WIDTHLESS}\u202a-\u202e\u2066-\u2069\ufe00-\ufe0f\U000e0000-\U000e01ef]")
# Scripts that write without spaces, where U+200B marks where a line may end.
_SPACELESS = re.compile(
    "[\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)
# Scripts that need the joiners: Arabic, Syriac, N'Ko, the scripts of India and its neighbours, Mongolian.
_JOINING = re.compile(
    "[\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff\u1800-\u18af\ua840-\ua87f\ua880-\ua9df\uaa00-\uaadf\ufb50-\ufdff\ufe70-\ufefc]"
)
_ISOLATES = "\u2066\u2067\u2068"
_EMBEDDINGS = "\u202a\u202b"


def hidden_spans(text: str) -> Iterator[Span]:
    """Start, end and rule of every hidden character that ordinary writing does not need."""
    if text.isascii() or _QUICK.search(text) is None:
        return
    yield from _reordered(text)
    flags = {match.start() + 1 for match in _FLAG.finditer(text)}
    for match in _TAG_CHARACTERS.finditer(text):
        if match.start() not in flags:
            yield match.start(), match.end(), "tag-characters"
    for match in _SELECTORS.finditer(text):
        yield match.start(), match.end(), "variation-selectors"
    for match in _RUN.finditer(text):
        if not _is_ordinary(text, match.start(), match.end()):
            yield match.start(), match.end(), "zero-width"


def _reordered(text: str) -> Iterator[Span]:
    """Overrides, and embeddings or isolates that their line does not end."""
    stack = list[tuple[str, int]]()
    for match in re.finditer("[\u202a-\u202e\u2066-\u2069\n\r\u2029]", text):
        character, start = match[0], match.start()
        if character in "\n\r\u2029":
            yield from ((at, at + 1, "bidirectional-control") for _, at in stack)
            stack.clear()
        elif character in "\u202d\u202e":
            yield start, start + 1, "bidirectional-override"
        elif character in _ISOLATES + _EMBEDDINGS:
            stack.append((character, start))
        elif stack and (stack[-1][0] in _EMBEDDINGS) == (character == "\u202c"):
            stack.pop()
    yield from ((at, at + 1, "bidirectional-control") for _, at in stack)


def _is_ordinary(text: str, start: int, end: int) -> bool:
    """
    Whether writing needs these characters here: a joiner in a script or an emoji that uses it, a soft hyphen, a mark at
    the start of a file.
    """
    before, after = text[start - 1 : start], text[end : end + 1]
    if end - start > 1:
        return False
    character = text[start]
    if character == "\u00ad":
        return before.isalpha() and after.isalpha()
    if character == "\ufeff":
        return start == 0
    if character == "\u061c":
        return True
    if character in _JOINERS:
        joins = _JOINING.match(before) is not None or _JOINING.match(after) is not None
        return joins or (character == "\u200d" and _is_emoji(before) and _is_emoji(after))
    if character == "\u200b":
        return _SPACELESS.match(before) is not None or _SPACELESS.match(after) is not None
    if character == "\u180e":
        return "\u1800" <= before <= "\u18af"
    if character == "\u2060":
        return not (before.isalpha() and after.isalpha())
    return character in "\u115f\u1160" and "\u1100" <= (after or " ") <= "\u11ff"


def _is_emoji(character: str) -> bool:
    """An emoji, its skin tone or its variation selector."""
    return bool(character) and (
        character == "\ufe0f" or unicodedata.category(character) in ("So", "Sk", "Sm")
    )
