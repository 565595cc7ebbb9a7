"""The AsyncAPI 3 document of the event streams, from the table of event types (openwop-contract §4, §5)."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from assay.agenteval.kind import ProgressStep
from assay.protocol.annotations import Annotation
from assay.protocol.operations import EvaluationProgress
from assay.protocol.results import TestCaseResult
from assay.runs.event_types import EVENTS
from assay.serve.openwop.events_feed import MODES, is_update
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Headers, Response, encode
from assay.version import __version__

CACHE: Headers = ((b"cache-control", b"max-age=60"),)
ENVELOPE = ("eventId", "runId", "type", "payload", "timestamp", "sequence")
EVALUATION = {"evaluation.progress": "progress", "evaluation.result": "result"}  # with the name of its frame
Doc = dict[str, Any]


async def show_asyncapi(call: HttpRequest) -> Response:
    call.query()
    return Response(_encode_document(), headers=CACHE)


@cache
def _encode_document() -> bytes:
    return encode(document())


def document() -> Doc:
    messages, schemas = _messages()
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "assay: events of runs",
            "version": __version__,
            "description": "Server-sent events over HTTP. `id` is the sequence; a frame without an id is "
            "not in the log.",
            "license": {"name": "Apache 2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {
            "runEvents": _channel(name for name in messages if name not in EVALUATION),
            "evaluationEvents": {
                "address": "/v1/evaluations/{evaluationId}/events",
                "title": "Progress and results of an evaluation",
                "description": "`id: 5.0`, `5.1`, … are results; `id: 5` is the progress after them. "
                "`Last-Event-ID` resumes after that frame.",
                "parameters": {"evaluationId": {"description": "The id of the evaluation."}},
                "messages": {frame: _message(name) for name, frame in EVALUATION.items()},
            },
        },
        "operations": {
            "streamRunEvents": {
                "action": "send",
                "channel": {"$ref": "#/channels/runEvents"},
                "summary": "Events as they happen, until the run ends",
                "security": [{"$ref": "#/components/securitySchemes/BearerAuth"}],
            },
            "followEvaluation": {
                "action": "send",
                "channel": {"$ref": "#/channels/evaluationEvents"},
                "summary": "Progress and results, until the evaluation ends",
                "security": [{"$ref": "#/components/securitySchemes/BearerAuth"}],
            },
        },
        "components": {
            "messages": messages,
            "schemas": schemas,
            "securitySchemes": {"BearerAuth": {"type": "http", "scheme": "bearer"}},
        },
    }


def _channel(messages: Iterable[str]) -> Doc:
    modes = ", ".join(f"`{mode}`" for mode in MODES)
    return {
        "address": "/v1/runs/{runId}/events",
        "title": "The event log of a run, live",
        "description": f"By `streamMode`: {modes}. `Last-Event-ID` resumes after that event.",
        "parameters": {"runId": {"description": "The id of the run."}},
        "messages": {name: _message(name) for name in messages},
    }


def _message(name: str) -> Doc:
    return {"$ref": f"#/components/messages/{name}"}


def _messages() -> tuple[Doc, Doc]:
    types = tuple(
        dict.fromkeys((*EVENTS.values(), Annotation, ProgressStep, EvaluationProgress, TestCaseResult))
    )
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    messages = {type: _event(type, payload.__name__) for type, payload in EVENTS.items()}
    messages |= {
        "progress": _ephemeral("A trial of a task starts or ends", _ref("ProgressStep")),
        "run.annotated": _ephemeral("An annotation was added to the run", _ref("Annotation")),
        "state.snapshot": _ephemeral(
            "The current snapshot of the run; only with `streamMode=values`", {"type": "object"}
        ),
        "evaluation.progress": _ephemeral("The progress of the evaluation", _ref("EvaluationProgress")),
        "evaluation.result": _ephemeral(
            "The result of one case",
            {
                "type": "object",
                "required": ["index", "result"],
                "properties": {"index": {"type": "integer", "minimum": 0}, "result": _ref("TestCaseResult")},
            },
        ),
        "batch": _ephemeral(
            "With `bufferMs`: the events of one interval", {"type": "array", "items": {"type": "object"}}
        ),
    }
    return messages, dict(sorted(schemas.items()))


def _event(type: str, payload: str) -> Doc:
    """A RunEventDoc of this type. Content that the owner may read is merged into the payload."""
    members: Doc = {key: {"type": "string"} for key in ("eventId", "runId", "nodeId", "causationId")}
    members |= {
        "type": {"const": type},
        "payload": _ref(payload),
        "timestamp": {"type": "string", "format": "date-time"},
        "sequence": {"type": "integer", "minimum": 0},
    }
    return {
        "name": type,
        "title": type,
        "tags": [{"name": "updates"}, {"name": "debug"}] if is_update(type) else [{"name": "debug"}],
        "payload": {"type": "object", "required": list(ENVELOPE), "properties": members},
    }


def _ephemeral(summary: str, payload: Doc) -> Doc:
    return {"summary": summary, "payload": payload}


def _ref(noun: str) -> Doc:
    return {"$ref": f"#/components/schemas/{noun}"}
