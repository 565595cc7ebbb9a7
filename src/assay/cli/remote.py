"""Another host, asked over HTTP with Python's own library: a question and its answer, and the events of a run."""

import os
import ssl
import time
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

import msgspec

from assay.errors import EnvironmentFailure, UsageError
from assay.protocol.operations import ErrorResponse

KEY = "ASSAY_API_KEY"
SECONDS = 60.0  # without a byte
AGAIN = (0.2, 0.5, 1, 2, 5, 10, 10, 10)  # seconds before each new attempt to follow
ENDS = frozenset({"run.completed", "run.failed", "run.cancelled"})
_refused = msgspec.json.Decoder(ErrorResponse).decode


class RemoteEvent(NamedTuple):
    """An event of a run, as it came."""

    type: str
    document: dict[str, Any]


class _NoRedirect(HTTPRedirectHandler):
    """The key is for this address, and goes to no other."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None: ...


class HostClient:
    """`assay serve` at an address, with the key of somebody there."""

    def __init__(self, address: str, key_file: str | None) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise UsageError(f"--server {address!r}: expected an address such as http://127.0.0.1:8321")
        self.address = address.rstrip("/")
        self._key = _key(key_file)
        tls = [HTTPSHandler(context=ssl.create_default_context())] if parts.scheme == "https" else []
        self._opener = build_opener(_NoRedirect, *tls)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> bytes:
        """The body of the answer; a refusal in the server's own words."""
        with self._open(method, path, body, headers) as answer:
            try:
                return answer.read()
            except (OSError, HTTPException) as trouble:
                raise EnvironmentFailure(f"{self.address}: {trouble}") from None

    def lines(self, path: str) -> Iterator[bytes]:
        """Of an answer of many lines, each as it comes."""
        with self._open("GET", path, None, {"Accept": "application/x-ndjson"}) as answer:
            try:
                for line in answer:
                    yield line.rstrip(b"\n")
            except (OSError, HTTPException) as trouble:
                raise EnvironmentFailure(f"{self.address}: {trouble}") from None

    def follow(self, run: str) -> Iterator[RemoteEvent]:
        """Every event once, to the end of the run; a connection that is lost is made again, and goes on where it was."""
        last, tries = "", iter(AGAIN)
        while True:
            why = "it closed the connection"
            try:
                for id, told in self._stream(run, last):
                    last, tries = id, iter(AGAIN)
                    yield told
                    if told.type in ENDS:
                        return
            except EnvironmentFailure as broken:
                why = str(broken)
            except (OSError, HTTPException) as trouble:
                why = f"{self.address}: {trouble}"
            pause = next(tries, None)
            if pause is None:
                raise EnvironmentFailure(f"{why}; run {run} may go on there: {self.address}/v1/runs/{run}")
            time.sleep(pause)

    def _stream(self, run: str, last: str) -> Iterator[tuple[str, RemoteEvent]]:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last} if last else {})
        held: dict[str, str] = {}
        with self._open("GET", f"/v1/runs/{run}/events?streamMode=debug", None, headers) as answer:
            for raw in answer:
                line = raw.decode().rstrip("\n")
                if line:
                    name, _, value = line.partition(": ")
                    held[name] = value
                    continue
                if "id" in held:
                    yield held["id"], RemoteEvent(held["event"], msgspec.json.decode(held["data"]))
                held = {}

    def _open(self, method: str, path: str, body: Any, headers: dict[str, str]) -> HTTPResponse:
        data = None if body is None else msgspec.json.encode(body)
        said = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json", **headers}
        asked = Request(self.address + path, data, said, method=method)  # noqa: S310  # http or https, see above
        try:
            return self._opener.open(asked, timeout=SECONDS)
        except HTTPError as refused:
            raise self._refusal(refused) from None
        except (URLError, OSError, HTTPException) as trouble:
            why = trouble.reason if isinstance(trouble, URLError) else trouble
            raise EnvironmentFailure(f"{self.address}: {why}") from None

    def _refusal(self, refused: HTTPError) -> EnvironmentFailure | UsageError:
        with refused:
            try:
                said = _refused(refused.read())
                told = f"{self.address}: {said.message}"
            except (msgspec.MsgspecError, OSError, HTTPException):
                told = f"{self.address}: {refused.code} {refused.reason}"
        return (
            EnvironmentFailure(told)
            if (refused.code >= 500 and refused.code != 501) or refused.code == 429
            else UsageError(told)
        )


def _key(key_file: str | None) -> str:
    """From the file, else from the environment; never from the command line, where everybody sees it."""
    if key_file is not None:
        try:
            key = Path(key_file).read_text("utf-8-sig").strip()
        except OSError as wrong:
            raise UsageError(f"--key-file {key_file}: {wrong.strerror}") from None
    else:
        key = os.environ.get(KEY, "").strip()
    if not key:
        raise UsageError(f"--server needs a key: in {KEY}, or in a file with --key-file F")
    if not key.isascii() or not key.isprintable():
        raise UsageError("the key is none: it has characters that no key has")
    return key
