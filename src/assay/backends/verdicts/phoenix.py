"""
Verdicts as annotations of spans over the REST of Phoenix, which takes no OTLP logs.

The variables of Phoenix configure it: PHOENIX_COLLECTOR_ENDPOINT, PHOENIX_API_KEY, PHOENIX_CLIENT_HEADERS. An
annotation is known by its span, its name and its identifier: the verdict that is sent last takes the place of those
before it.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from assay.backends.verdicts.requests import Poster, headers_of
from assay.ports.verdicts import Rejected, Verdict

USUAL = "http://localhost:6006"
PATH = "/v1/span_annotations"
IDENTIFIER = "assay"
NOT_MEASURED = "not measured"
NOT_FOUND = 404


class PhoenixReceiver:
    """`url` is the address of Phoenix; "": that of the variable."""

    def __init__(
        self, url: str, environment: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> None:
        if headers is None:
            place = "PHOENIX_CLIENT_HEADERS"
            found = headers_of(environment.get(place, ""), place)
            key = environment.get("PHOENIX_API_KEY", "").strip()
            headers = found | ({"authorization": f"Bearer {key}"} if key else {})
        parts = urlsplit(url or environment.get("PHOENIX_COLLECTOR_ENDPOINT", "").strip() or USUAL)
        base = parts.path.rstrip("/").removesuffix("/v1/traces")
        # with `sync` the answer comes when the annotations are stored
        target = urlunsplit(parts._replace(path=base + PATH, query="sync=true", fragment=""))
        self._poster = Poster(target, {**headers, "Content-Type": "application/json"}, compressed=False)

    @property
    def address(self) -> str:
        return self._poster.address

    async def send(self, verdicts: Sequence[Verdict]) -> Rejected | None:
        """Phoenix refuses a request if it lacks one of its spans, and names them: the others are sent again."""
        lacking = 0
        while verdicts:
            reply = await self._poster.post(
                msgspec.json.encode({"data": [_annotation(one) for one in verdicts]})
            )
            if 200 <= reply.status < 300:
                break
            message = reply.body.decode(errors="replace")
            there = [one for one in verdicts if reply.status != NOT_FOUND or one.span_id not in message]
            if len(there) == len(verdicts):
                raise self._poster.refusal(reply)
            lacking += len(verdicts) - len(there)
            verdicts = there
        return Rejected(lacking, "Phoenix does not have their spans") if lacking else None


def _annotation(verdict: Verdict) -> dict[str, Any]:
    measured = verdict.error_type is None
    result = {
        "label": verdict.label if measured else NOT_MEASURED,
        "score": verdict.score,
        "explanation": verdict.explanation,
    }
    metadata = {"run": verdict.run, "uid": verdict.uid}
    return {
        "span_id": verdict.span_id,
        "name": verdict.name,
        "annotator_kind": "LLM" if verdict.by_model else "CODE",
        "identifier": IDENTIFIER,
        "result": {name: value for name, value in result.items() if value is not None},
        "metadata": metadata if measured else {**metadata, "error.type": verdict.error_type},
    }
