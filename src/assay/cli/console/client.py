"""An HTTP client for another host, on the standard library: requests, lines of a response, and the events of a run."""

import os
import re
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

import msgspec

from assay.errors import EnvironmentFailure, UsageError
from assay.protocol.operations import ErrorResponse
from assay.runs.run_names import TAG as NAME_TAG

KEY = "ASSAY_API_KEY"
TIMEOUT = 60.0  # seconds without a byte
WHOLE_ID = re.compile(r"(run-|eval_)[0-9a-f]{28}")
RETRY_DELAYS = (0.2, 0.5, 1, 2, 5, 10, 10, 10)  # seconds before each new connection
END_EVENTS = frozenset({"run.completed", "run.failed", "run.cancelled"})
_error = msgspec.json.Decoder(ErrorResponse).decode


class HostRefusal(UsageError):
    """A refusal of the server, with its code and details."""

    def __init__(self, message: str, code: str, details: dict[str, Any]) -> None:
        super().__init__(message)
        self.remote_code, self.remote_details = code, details


class RemoteEvent(NamedTuple):
    """An event of a run."""

    type: str
    document: dict[str, Any]


class _NoRedirect(HTTPRedirectHandler):
    """Refuse redirects: the key must not go to another address."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None: ...


class HostClient:
    """A client of `assay serve` at an address, with an API key."""

    def __init__(self, address: str, key_file: str | None) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise UsageError(f"--server {address!r}: expected an address such as http://127.0.0.1:8321")
        self.address = address.rstrip("/")
        self._key = _key(key_file)
        tls = [HTTPSHandler(context=ssl.create_default_context())] if parts.scheme == "https" else []
        self._opener = build_opener(_NoRedirect, *tls)

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> bytes:
        """The body of the response. An error response raises the server's message."""
        with self._open(method, path, body, headers) as response:
            try:
                return response.read()
            except (OSError, HTTPException) as trouble:
                raise EnvironmentFailure(f"{self.address}: {trouble}") from None

    def find_run(self, reference: str, **filter: Any) -> str | None:
        """
        The id of the run there that a name, the beginning of an id, `latest` or `previous` refers to. Whole ids are not
        looked up. None: the tenant has no run that the filter lets through.
        """
        word, _, of = reference.partition(":")
        if word in ("latest", "previous"):
            filter |= {"name": of} if of else {}
            latest = next(iter(self._runs(filter)), None)
            if word == "latest" or latest is None:
                return None if latest is None else latest["runId"]
            same = {"kind": [latest["kind"]], "name": latest["name"]}
            earlier = [row for row in self._runs(filter | same) if row["runId"] != latest["runId"]]
            if not earlier:
                raise UsageError(f"{self.address}: no run of {latest['name']!r} is before {latest['runId']}")
            return earlier[0]["runId"]
        if WHOLE_ID.fullmatch(reference):
            return reference
        if named := self._runs(filter | {"tag": f"{NAME_TAG}{reference}"}):
            return named[0]["runId"]
        ids = [row["runId"] for row in self._runs(filter | {"text": reference}, 200)]
        begins = [id for id in ids if id.startswith(reference)]
        if len(begins) > 1:
            raise UsageError(f"{reference!r} is the beginning of {len(begins)} run ids: give more characters")
        return begins[0] if begins else reference

    def _runs(self, filter: dict[str, Any], limit: int = 2) -> list[dict[str, Any]]:
        """The newest runs there that the filter lets through."""
        query: dict[str, Any] = {"filter": filter, "limit": limit}
        while True:
            page = msgspec.json.decode(self.request("POST", "/v1/host/assay/runs:query", query))
            if page["runs"] or "next" not in page:
                return page["runs"]
            query["cursor"] = page["next"]

    def lines(self, path: str) -> Iterator[bytes]:
        """The lines of a response, each as it arrives."""
        with self._open("GET", path, None, {"Accept": "application/x-ndjson"}) as response:
            try:
                for line in response:
                    yield line.rstrip(b"\n")
            except (OSError, HTTPException) as trouble:
                raise EnvironmentFailure(f"{self.address}: {trouble}") from None

    def follow(self, run: str) -> Iterator[RemoteEvent]:
        """Yield every event once until the run ends. It reconnects after a lost connection and continues there."""
        last, tries = "", iter(RETRY_DELAYS)
        while True:
            why = f"{self.address}: the server closed the connection"
            try:
                for id, event in self._stream(run, last):
                    last, tries = id, iter(RETRY_DELAYS)
                    yield event
                    if event.type in END_EVENTS:
                        return
            except EnvironmentFailure as broken:
                why = str(broken)
            except (OSError, HTTPException) as trouble:
                why = f"{self.address}: {trouble}"
            pause = next(tries, None)
            if pause is None:
                raise EnvironmentFailure(f"{why}; run {run} may continue there: {self.address}/v1/runs/{run}")
            time.sleep(pause)

    def _stream(self, run: str, last: str) -> Iterator[tuple[str, RemoteEvent]]:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last} if last else {})
        fields: dict[str, str] = {}
        with self._open("GET", f"/v1/runs/{run}/events?streamMode=debug", None, headers) as response:
            for raw in response:
                line = raw.decode().rstrip("\n")
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                    continue
                if "id" in fields:
                    yield fields["id"], RemoteEvent(fields["event"], msgspec.json.decode(fields["data"]))
                fields = {}

    def _open(self, method: str, path: str, body: Any, headers: dict[str, str]) -> HTTPResponse:
        data = None if body is None else msgspec.json.encode(body)
        all_headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json", **headers}
        request = Request(self.address + path, data, all_headers, method=method)  # noqa: S310  # http or https, see above
        try:
            return self._opener.open(request, timeout=TIMEOUT)
        except HTTPError as error:
            raise self._refusal(error) from None
        except (URLError, OSError, HTTPException) as trouble:
            why = trouble.reason if isinstance(trouble, URLError) else trouble
            raise EnvironmentFailure(f"{self.address}: {why}") from None

    def _refusal(self, error: HTTPError) -> EnvironmentFailure | UsageError:
        body = ErrorResponse(error="", message=f"{error.code} {error.reason}")
        with error, suppress(msgspec.MsgspecError, OSError, HTTPException):
            body = _error(error.read())
        message = f"{self.address}: {body.message}"
        if (error.code >= 500 and error.code != 501) or error.code == 429:
            return EnvironmentFailure(message)
        return HostRefusal(message, body.error, body.details or {})


def _key(key_file: str | None) -> str:
    """The key from the file, else from the environment. Never from the command line, which other users can see."""
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
        raise UsageError("invalid API key: it contains non-printable or non-ASCII characters")
    return key
