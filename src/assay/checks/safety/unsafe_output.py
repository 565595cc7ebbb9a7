"""unsafe_output: the text has characters or markup that act on the terminal, the page or the reader that shows it."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from assay.checks.safety.detector import Detection, Detector, texts_in
from assay.checks.safety.hidden_characters import hidden_spans
from assay.checks.safety.markdown_code import without_code
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
