"""The files of the page over HTTP: headers, compression, caching; and the answer where the page was not built."""

import gzip
import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from assay.serve.page import built_files
from support.servers.rest_client import Server, sqlite

BUILT = built_files.DIST


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A page of three files, as `make web` writes them."""
    folder = tmp_path_factory.mktemp("page") / "dist"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>a page</title>", "utf-8")
    (folder / "v1").mkdir()
    (folder / "v1" / "docs.html").write_text("<!doctype html><title>the documents</title>", "utf-8")
    script = b"export {};" * 10_000
    (folder / "assets" / "index-abc123.js").write_bytes(script)
    (folder / "assets" / "index-abc123.js.gz").write_bytes(gzip.compress(script))
    (folder / "assets" / "index-abc123.js.br").write_bytes(b"brotli")
    (folder / "secret.txt").write_text("not of the page", "utf-8")
    return folder


@pytest.fixture(scope="module")
def host(tmp_path_factory, folder):
    before, built_files.DIST = built_files.DIST, folder
    try:
        with Server(sqlite(tmp_path_factory.mktemp("files"))) as host:
            yield host
    finally:
        built_files.DIST = before


@pytest.mark.parametrize("path", ["/", "/v1/docs"])
def test_the_page_has_a_strict_policy(host, path):
    with host.client(key="") as client:
        answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy.pop("img-src") == "'self' data: blob:"
    own = {"script-src", "style-src", "connect-src", "font-src"}
    none = {"default-src", "frame-ancestors", "base-uri", "form-action"}
    assert policy == dict.fromkeys(own, "'self'") | dict.fromkeys(none, "'none'")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    ("accept", "encoding"),
    [("gzip, deflate, br", "br"), ("gzip", "gzip"), ("br;q=0, gzip", "gzip"), ("identity", None), ("", None)],
)
def test_an_asset_is_sent_as_it_was_compressed(host, folder, accept, encoding):
    with (
        host.client(key="") as client,
        client.stream("GET", "/assets/index-abc123.js", headers={"accept-encoding": accept}) as answer,
    ):
        data = b"".join(answer.iter_raw())
    ending = {"br": ".js.br", "gzip": ".js.gz", None: ".js"}[encoding]
    assert answer.headers.get("content-encoding") == encoding
    assert data == (folder / "assets" / f"index-abc123{ending}").read_bytes()
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize("path", ["/", "/v1/docs", "/assets/index-abc123.js"])
def test_a_file_that_the_browser_has_returns_304(host, path):
    with host.client(key="") as client:
        for accept in ("br", "identity"):
            tag = client.head(path, headers={"accept-encoding": accept}).headers["etag"]
            answer = client.get(path, headers={"if-none-match": tag})
            assert (answer.status_code, answer.content) == (304, b"")


@pytest.mark.parametrize(
    "name",
    [
        "nothing.js",
        "..%2Fsecret.txt",
        "..%2f..%2ffiles.py",
        "index-abc123.js.gz",
        "%2e%2e",
        "a%00b",
        "x" * 3000,
    ],
)
def test_only_files_of_the_page_are_sent(host, name):
    with host.client(key="") as client:
        answer = client.get(f"/assets/{name}")
    assert answer.status_code == 404
    assert answer.json()["error"] == "not_found"


@pytest.mark.parametrize("path", ["/", "/v1/docs"])
def test_without_a_build_the_page_names_the_command_that_builds_it(host, monkeypatch, tmp_path, path):
    monkeypatch.setattr(built_files, "DIST", tmp_path / "nothing")
    monkeypatch.setattr(built_files, "clone_folder", lambda: None)
    with host.client(key="") as client:
        answer = client.get(path)
        assert client.get("/v1/health").status_code == 200
        (link,) = re.findall('href="([^"]+)"', answer.text)
        assert client.get(link).json()["openapi"] == "3.1.0"
    assert answer.status_code == 200
    assert "<code>make web</code>" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ({"url": "file://CLONE", "dir_info": {}}, True),  # pip install .
        ({"url": "file://CLONE", "dir_info": {"editable": True}}, True),
        ({"url": "file://CLONE/openassay.whl", "archive_info": {}}, False),
        ({"url": "https://host/CLONE", "dir_info": {}}, False),
        (None, False),
    ],
)
def test_a_page_that_is_built_after_an_install_from_a_clone_is_found(monkeypatch, tmp_path, source, found):
    clone = tmp_path / "a clone"
    built = clone / "src" / "assay" / "serve" / "page" / "dist"
    info = tmp_path / "site" / "openassay-9.9.9.dist-info"
    for folder in (built, info):
        folder.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: openassay\nVersion: 9.9.9\n")
    if source is not None:
        (info / "direct_url.json").write_text(json.dumps(source).replace("CLONE", quote(str(clone))))
    monkeypatch.syspath_prepend(info.parent)
    monkeypatch.setattr(built_files, "clone_folder", built_files.clone_folder.__wrapped__)
    monkeypatch.setattr(built_files, "DIST", own := tmp_path / "nothing")
    assert built_files.page_folder() == own  # not built yet
    (built / built_files.INDEX).write_text("<html>")
    assert built_files.page_folder() == (built if found else own)


def test_the_first_load_of_every_screen_takes_at_most_250_kb():
    if not (BUILT / built_files.INDEX).is_file():
        pytest.skip("the page is not built: make web")
    index = (BUILT / built_files.INDEX).read_text("utf-8")
    files = [path for path in BUILT.rglob("*") if path.is_file()]
    always = {path for path in files if path.name in index or path.suffix == ".woff2"}
    (script,) = (path for path in always if path.name.startswith("index-") and path.suffix == ".js")
    screens = _screens(script.read_text("utf-8"))
    assert set(screens) >= {"RunsScreen", "RunScreen", "CompareScreen", "HistoryScreen", "TryScreen"}
    loads = {
        name: sum(map(_compressed, {*always, *own, BUILT / built_files.INDEX}))
        for name, own in screens.items()
    }
    assert max(loads.values()) <= 250_000, loads
    assert min(loads.values()) > 100_000, loads  # they are sums of real files
    every = {path.name for own in screens.values() for path in own} | {path.name for path in always}
    assert not any(name.startswith("docs-") for name in every)  # Swagger UI is only of /v1/docs


def _screens(script: str) -> dict[str, set[Path]]:
    """The files that the browser loads for each screen, as the bundler lists them beside its import."""
    (listed,) = re.findall(r"__vite__mapDeps=.*?(\[.*?\])", script)
    files = [BUILT / "assets" / name.removeprefix("./") for name in json.loads(listed)]
    found = re.findall(r"import\(`\./(\w+Screen)-[^`]+`\)[^`]*?__vite__mapDeps\(\[([\d,]+)\]\)", script)
    return {name: {files[int(at)] for at in places.split(",")} for name, places in found}


def _compressed(path: Path) -> int:
    twin = path.with_name(path.name + ".gz")
    return (twin if twin.exists() else path).stat().st_size
