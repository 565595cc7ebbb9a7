"""The built files of the page: the documents at `/` and `/v1/docs`, and hashed assets, compressed when built."""

import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from assay.errors import NotFound
from assay.extras import DISTRIBUTION
from assay.serve.web.request import HttpRequest, matches, weights_of
from assay.serve.web.responses import HTML, Headers, Response

DIST = Path(__file__).parent / "dist"
INDEX = "index.html"
DOCS = "v1/docs.html"
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    b"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
PAGE_HEADERS: Headers = (
    (b"content-security-policy", POLICY),
    (b"cross-origin-opener-policy", b"same-origin"),
)
FOREVER: Headers = ((b"cache-control", b"public, max-age=31536000, immutable"),)
REVALIDATE: Headers = ((b"cache-control", b"no-cache"),)
MEDIA = {
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".woff2": b"font/woff2",
    ".md": b"text/plain; charset=utf-8",
    ".html": HTML,
}
ENCODINGS = (("br", ".br"), ("gzip", ".gz"))  # the smaller first
NOT_BUILT = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>assay</title>
<h1>assay runs, but its page is not built</h1>
<p>In a copy of the repository, <code>make web</code> builds it. Then start the server again.</p>
<p>The REST API works without the page: <a href="/v1/openapi.json">its OpenAPI document</a>.</p>
</html>
"""


class PageFile(NamedTuple):
    """One file with its compressed forms, by the name of the encoding."""

    data: bytes
    media: bytes
    tag: bytes
    encodings: dict[str, bytes]


def page_folder() -> Path:
    """The folder of the built files: in this package; or in the clone it came from, if `make web` ran there since."""
    if (DIST / INDEX).is_file() or (clone := clone_folder()) is None:
        return DIST
    built = clone / "src" / "assay" / "serve" / "page" / "dist"
    return built if (built / INDEX).is_file() else DIST


@cache
def clone_folder() -> Path | None:
    """The folder that pip installed this package from (PEP 610); None: it came from elsewhere."""
    from importlib.metadata import PackageNotFoundError, distribution  # deferred import: it is slow
    from urllib.request import url2pathname  # deferred import

    try:
        record = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    source = msgspec.json.decode(record, type=_DirectUrl) if record else _DirectUrl()
    scheme, _, path = source.url.partition("://")
    return Path(url2pathname(path)) if scheme == "file" and source.dir_info is not None else None


class _DirectUrl(Struct):
    url: str = ""
    dir_info: dict[str, bool] | None = None  # of a folder


@cache
def find_files(folder: Path) -> dict[str, Path]:
    """All files of the page by their path. A name from a request is only a key of this table: it never opens a file."""
    if not (folder / INDEX).is_file():
        return {}
    paths = [path for path in folder.rglob("*") if path.suffix in MEDIA and path.is_file()]
    return {path.relative_to(folder).as_posix(): path for path in paths}


@cache
def read_file(path: Path) -> PageFile:
    """A file of the page, read when it is first asked for: few servers are asked for all of them."""
    data = path.read_bytes()
    compressed = {
        name: twin.read_bytes()
        for name, ending in ENCODINGS
        if (twin := path.with_name(path.name + ending)).is_file()
    }
    tag = b'"%s"' % hashlib.sha256(data).hexdigest()[:32].encode()
    return PageFile(data, MEDIA[path.suffix], tag, compressed)


async def show_page(call: HttpRequest) -> Response:
    """The page. Parameters of the address are ignored, because the state of the page is in the fragment."""
    return _show(call, INDEX)


async def show_docs(call: HttpRequest) -> Response:
    """Swagger UI, which reads /v1/openapi.json."""
    call.query()
    return _show(call, DOCS)


def _show(call: HttpRequest, name: str) -> Response:
    path = find_files(page_folder()).get(name)
    if path is None:
        return Response(NOT_BUILT, 200, HTML, (*PAGE_HEADERS, *REVALIDATE))
    return _answer(call, read_file(path), (*PAGE_HEADERS, *REVALIDATE))


async def show_asset(call: HttpRequest) -> Response:
    call.query()
    path = find_files(page_folder()).get(f"assets/{call.run_id}")
    if path is None:
        raise NotFound(
            "the page has no such file; the page may be newer or older than this server: reload it"
        )
    return _answer(call, read_file(path), FOREVER)


def _answer(call: HttpRequest, file: PageFile, headers: Headers) -> Response:
    if matches(call, file.tag):
        return Response(b"", 304, file.media, (*headers, (b"etag", file.tag)))
    weights = weights_of(call.headers.get(b"accept-encoding", b"").lower())
    for name, data in file.encodings.items():
        if weights.get(name, 0.0) > 0:
            encoded = ((b"content-encoding", name.encode()), (b"etag", file.tag.replace(b'"', b'W/"', 1)))
            return Response(data, 200, file.media, (*headers, *encoded))
    return Response(file.data, 200, file.media, (*headers, (b"etag", file.tag)))
