"""The AsyncAPI 3 document of the event channels, from the catalogue of events and the protocol's own types (contract §4, §5)."""

from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from typing import Any

import msgspec

from assay.agenteval.progress import ProgressStep
from assay.protocol.annotations import Annotation
from assay.protocol.event_types import EVENTS
from assay.protocol.operations import EvaluationProgress
from assay.protocol.results import TestCaseResult
from assay.runs.stream_modes import MODES, is_update
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Headers, Response, encode

BRIEFLY: Headers = ((b"cache-control", b"max-age=60"),)
ENVELOPE = ("eventId", "runId", "type", "payload", "timestamp", "sequence")
EVALUATION = {"evaluation.progress": "progress", "evaluation.result": "result"}  # with the name of its frame
Doc = dict[str, Any]


async def show_asyncapi(call: HttpRequest) -> Response:
    call.query()
    return Response(_encoded(), headers=BRIEFLY)


@cache
def _encoded() -> bytes:
    return encode(document())


def document() -> Doc:
    messages, schemas = _messages()
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "assay: the events of runs",
            "version": version("assay"),
            "description": "Server-sent events over HTTP. `id` is the sequence; frames without one are in no log.",
            "license": {"name": "Apache 2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {
            "runEvents": _channel(name for name in messages if name not in EVALUATION),
            "evaluationEvents": {
                "address": "/v1/evaluations/{evaluationId}/events",
                "title": "An evaluation, as its cases are done",
                "description": "`id: 5.0`, `5.1`, … results, then `id: 5` the progress they make; `Last-Event-ID` goes on there.",
                "parameters": {"evaluationId": {"description": "the evaluation"}},
                "messages": {said: _message(name) for name, said in EVALUATION.items()},
            },
        },
        "operations": {
            "streamRunEvents": {
                "action": "send",
                "channel": {"$ref": "#/channels/runEvents"},
                "summary": "What happens, as it happens, until the run ends",
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
        "title": "The log of a run, live",
        "description": f"By `streamMode`: {modes}. `Last-Event-ID` resumes strictly after it.",
        "parameters": {"runId": {"description": "the run"}},
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
        "progress": _aside("A trial of a task begins, or has come back", _ref("ProgressStep")),
        "run.annotated": _aside("Somebody said something of the run", _ref("Annotation")),
        "state.snapshot": _aside("The run as it is; only with `streamMode=values`", {"type": "object"}),
        "evaluation.progress": _aside("How far it is", _ref("EvaluationProgress")),
        "evaluation.result": _aside(
            "One case is done",
            {
                "type": "object",
                "required": ["index", "result"],
                "properties": {"index": {"type": "integer", "minimum": 0}, "result": _ref("TestCaseResult")},
            },
        ),
        "batch": _aside(
            "With `bufferMs`: events that came together", {"type": "array", "items": {"type": "object"}}
        ),
    }
    return messages, dict(sorted(schemas.items()))


def _event(type: str, payload: str) -> Doc:
    """A RunEventDoc of this type. What its owner may read beside the payload joins it there."""
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


def _aside(summary: str, payload: Doc) -> Doc:
    return {"summary": summary, "payload": payload}


def _ref(noun: str) -> Doc:
    return {"$ref": f"#/components/schemas/{noun}"}
