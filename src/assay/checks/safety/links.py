"""The links of a text, and the hosts that a link may name without suspicion."""

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote, unquote_plus

_URL = re.compile(
    r"(?:(?:https?|ftp|wss?):[/\\]{2}|(?<=[(\"'=])\s?//(?=[A-Za-z0-9]))[^\s\"'<>]{4,2000}", re.IGNORECASE
)
_BRACKETED = re.compile(r"<((?:https?|ftp)://[^<>\n]{4,2000})>", re.IGNORECASE)
# What stands before a link that a renderer fetches without a click.
_FETCHED = re.compile(
    r"""!\[[^\]\n]{0,300}\]\(\s{0,5}<?\Z|\b(?:src|srcset|poster|background|data|xlink:href)\s{0,5}=\s{0,5}["']?\s?\Z|url\(\s{0,5}["']?\Z
      |@import\s{1,5}["']?\Z|<(?:link|base|image)\b[^<>]{0,200}\shref\s?=\s?["']?\Z|<form\b[^<>]{0,200}\baction\s?=\s?["']?\Z
      |\b(?:fetch|sendBeacon|open|import|XMLHttpRequest|axios\.\w{3,6})\([^()\n]{0,40}\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_DEFINITION = re.compile(r"(?:^|\n)\s{0,3}\[([^\]\n]{1,100})\]:\s{0,5}<?\Z")
_REFERENCE = re.compile(r"!\[[^\]\n]{0,200}\]\[([^\]\n]{1,100})\]")
_NETLOC = re.compile(r"[^/?#\\]*")


class Link(NamedTuple):
    """A link: its place, whether a renderer fetches it by itself, and its parts, decoded."""

    start: int
    end: int
    fetched: bool
    host: str
    segments: list[str]
    query: list[tuple[str, str]]
    fragment: str

    def values(self) -> Iterator[str]:
        yield from self.segments
        yield from (value for _, value in self.query)
        if self.fragment:
            yield self.fragment


def find_links(text: str) -> Iterator[Link]:
    """Every link with a host, from left to right."""
    images = frozenset(match[1] for match in _REFERENCE.finditer(text))
    at = 0
    while (match := _URL.search(text, at)) is not None:
        start = match.start()
        bracketed = _BRACKETED.match(text, start - 1) if text[start - 1 : start] == "<" else None
        url = bracketed[1] if bracketed else _trim(match[0])
        at = start + max(len(url), 1)
        yield _link(text, start, url.strip(), images)


def _trim(url: str) -> str:
    """A link without what follows it in a sentence or in Markdown: a bracket that it does not open, punctuation."""
    depth = 0
    for at, one in enumerate(url):
        if one == "(":
            depth += 1
        elif one == ")":
            depth -= 1
            if depth < 0:
                return url[:at]
    return url.rstrip(".,;:!*_`|]")


def _link(text: str, start: int, url: str, images: frozenset[str]) -> Link:
    lead = text[max(0, start - 320) : start]
    last = lead.rstrip()[-1:]  # most links follow a word: then the patterns below need not be tried
    fetched = bool(last) and last in "(\"'=<,`" and _FETCHED.search(lead) is not None
    if last and last in ":<" and (definition := _DEFINITION.search(lead[-110:])) is not None:
        fetched = definition[1] in images
    rest = url.split("//" if "//" in url else "\\\\", 1)[1]
    netloc_match = _NETLOC.match(rest)
    netloc = netloc_match[0] if netloc_match else ""
    host = netloc.rpartition("@")[2].partition(":")[0].lower()
    path, _, fragment = rest[len(netloc) :].replace("\\", "/").partition("#")
    path, _, query = path.partition("?")
    pairs = [one.partition("=") for one in re.split("[&;]", query) if one][:200]
    return Link(
        start,
        start + len(url),
        fetched,
        host,
        [unquote_plus(one) for one in path.split("/") if one][:200],
        [
            (unquote(name).lower(), unquote_plus(value)) if sign else ("", unquote_plus(name))
            for name, sign, value in pairs
        ],
        unquote_plus(fragment),
    )


def has_suffix(host: str, suffixes: frozenset[str]) -> bool:
    parts = host.split(".")
    return any(".".join(parts[at:]) in suffixes for at in range(len(parts)))


# Sites whose queries carry words by design. A secret in a link to them is still found.
ORDINARY_HOSTS = frozenset(
    [
        "google.com",
        "google.de",
        "google.co.uk",
        "bing.com",
        "duckduckgo.com",
        "ecosia.org",
        "yandex.ru",
        "baidu.com",
        "wikipedia.org",
        "wikimedia.org",
        "wikidata.org",
        "wiktionary.org",
        "github.com",
        "githubusercontent.com",
        "gitlab.com",
        "bitbucket.org",
        "shields.io",
        "badgen.net",
        "codecov.io",
        "coveralls.io",
        "travis-ci.com",
        "circleci.com",
        "youtube.com",
        "youtu.be",
        "ytimg.com",
        "vimeo.com",
        "imgur.com",
        "unsplash.com",
        "pexels.com",
        "pixabay.com",
        "picsum.photos",
        "placehold.co",
        "placeholder.com",
        "dummyimage.com",
        "gravatar.com",
        "codecogs.com",
        "openstreetmap.org",
        "googleapis.com",
        "gstatic.com",
        "googleusercontent.com",
        "amazon.com",
        "amazon.de",
        "ebay.com",
        "stackoverflow.com",
        "stackexchange.com",
        "reddit.com",
        "twitter.com",
        "x.com",
        "facebook.com",
        "instagram.com",
        "linkedin.com",
        "arxiv.org",
        "doi.org",
        "semanticscholar.org",
        "pubmed.ncbi.nlm.nih.gov",
        "nih.gov",
        "wolframalpha.com",
        "translate.google.com",
        "deepl.com",
        "python.org",
        "mozilla.org",
        "microsoft.com",
        "apple.com",
        "readthedocs.io",
        "booking.com",
        "airbnb.com",
        "bahn.de",
        "expedia.com",
        "tripadvisor.com",
        "yelp.com",
        "imdb.com",
        "spotify.com",
        "archive.org",
        "medium.com",
        "nytimes.com",
        "bbc.co.uk",
        "bbc.com",
        "cnn.com",
        "theguardian.com",
        "weather.com",
        "accuweather.com",
        "zoom.us",
        "calendly.com",
        "docs.rs",
        "regex101.com",
        "cloudfront.net",
    ]
)
# Services that record every request that reaches them.
COLLECTORS = frozenset(
    ["webhook.site", "requestbin.com", "requestbin.net", "requestbin.io", "pipedream.net", "hookbin.com", "beeceptor.com", "requestcatcher.com", "postb.in", "ptsv2.com", "ptsv3.com", "mockbin.org", "burpcollaborator.net", "oastify.com", "oast.pro", "oast.live", "oast.site", "oast.online", "oast.fun", "oast.me", "interact.sh", "interactsh.com", "dnslog.cn", "ceye.io", "canarytokens.com", "canarytokens.org", "ngrok.io", "ngrok.app", "ngrok-free.app", "ngrok-free.dev", "ngrok.dev", "loca.lt", "localtunnel.me", "serveo.net", "trycloudflare.com", "bxss.me", "xss.ht", "xss.report", "rbnd.gl0.eu", "webhook.cool", "typedwebhook.tools", "smee.io", "tunnelmole.net", "pagekite.me", "lhr.life", "requestinspector.com", "httpdump.app"]
)  # fmt: skip


# Code inside Markdown: fenced blocks and code spans. A renderer shows them as text, so markup inside them has no
# effect.

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
