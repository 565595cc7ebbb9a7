"""An HTTP client for another host, on the standard library: requests, lines of a response, and the events of a run."""

import asyncio
import os
import re
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

from assay import client_tls, settings
from assay.errors import EnvironmentFailure, UsageError
from assay.protocol.operations import ErrorResponse
from assay.runs.find_run import resolve
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


class NoRunYet(UsageError):
    """The tenant has no run of this kind there."""


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
        tls: list[HTTPSHandler] = []
        if parts.scheme == "https":
            client_tls.trust(settings.load().tls_ca)
            tls.append(HTTPSHandler(context=client_tls.client_context()))
        self._opener = build_opener(_NoRedirect, *tls)

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> bytes:
        """The body of the response. An error response raises the server's message."""
        with self._open(method, path, body, headers) as response:
            try:
                return response.read()
            except (OSError, HTTPException) as trouble:
                raise EnvironmentFailure(f"{self.address}: {trouble}") from None

    def find_run(self, reference: str, noun: str = "run", **filter: Any) -> str:
        """
        The id of the run there that a name, the beginning of an id, `latest` or `previous` refers to, by the rules of
        `find_run`. A reference that no run has is returned as it is: the server refuses it.

        NoRunYet: the tenant has no run that the filter lets through; `noun` says which are meant.
        """
        return asyncio.run(resolve(_RemoteRuns(self, noun, filter), reference)).id

    def newest_runs(self, limit: int, filter: dict[str, Any]) -> list[dict[str, Any]]:
        """The rows of the newest runs there that the filter lets through."""
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


class _RemoteRun(NamedTuple):
    id: str
    kind: str = ""
    name: str = ""


class _RemoteRuns:
    """The runs of a server, as a `RunLookup`. Every call blocks: the command has nothing else to do."""

    def __init__(self, client: HostClient, noun: str, filter: dict[str, Any]) -> None:
        self._client, self._noun, self._filter = client, noun, filter

    async def latest(self, name: str | None) -> _RemoteRun:
        runs = self._runs({} if name is None else {"name": name})
        if not runs:
            raise NoRunYet(f"{self._client.address}: there is no {self._noun} yet")
        return runs[0]

    async def previous(self, run: _RemoteRun) -> _RemoteRun:
        earlier = [one for one in self._runs({"kind": [run.kind], "name": run.name}) if one.id != run.id]
        if not earlier:
            raise UsageError(f"{self._client.address}: no run of {run.name!r} is before {run.id}")
        return earlier[0]

    async def named(self, reference: str) -> _RemoteRun | None:
        if WHOLE_ID.fullmatch(reference):
            return _RemoteRun(reference)
        return next(iter(self._runs({"tag": f"{NAME_TAG}{reference}"})), None)

    async def beginning(self, text: str) -> list[_RemoteRun]:
        return [one for one in self._runs({"text": text}, 200) if one.id.startswith(text)]

    async def unknown(self, reference: str) -> _RemoteRun:
        return _RemoteRun(reference)

    def _runs(self, more: dict[str, Any], limit: int = 2) -> list[_RemoteRun]:
        """The newest runs there that the filters let through."""
        rows = self._client.newest_runs(limit, self._filter | more)
        return [_RemoteRun(row["runId"], row["kind"], row.get("name", "")) for row in rows]


def _key(key_file: str | None) -> str:
    """The key from the file, else from the environment. Never from the command line, which other users can see."""
    source = KEY if key_file is None else f"--key-file {key_file}"
    if key_file is not None:
        try:
            key = Path(key_file).read_text("utf-8-sig").strip()
        except OSError as wrong:
            raise UsageError(
                f"--key-file {key_file}: expected a file that can be read, got {wrong.strerror}"
            ) from None
    else:
        key = os.environ.get(KEY, "").strip()
    if not key:
        raise UsageError(f"--server: expected a key in {KEY}, or in a file with --key-file F; got none")
    if not key.isascii() or not key.isprintable():
        raise UsageError(
            f"{source}: expected a key of printable ASCII characters, got others; copy the key again"
        )
    return key
