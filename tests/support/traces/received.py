"""Traces as an agent sends them to a receiver: one request with a root and a model call each."""

import secrets
from typing import Any

from assay.fep.trace_windows.window import windows_of
from support.traces.otlp import pairs, value
from support.waiting import wait_until

CHECKS = [{"contains": "degrees"}]
MOMENT = 1_780_000_000_000_000_000  # nanoseconds


def new_trace() -> str:
    return secrets.token_hex(16)


def span(trace: str, id: str, parent: str = "", **attributes: Any) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": id * 8,
        **({"parentSpanId": parent * 8} if parent else {}),
        "name": "span",
        "startTimeUnixNano": str(MOMENT),
        "endTimeUnixNano": str(MOMENT + 1_000_000),
        "attributes": pairs({name.replace("__", "."): one for name, one in attributes.items()}),
    }


def root(trace: str, **attributes: Any) -> dict[str, Any]:
    return span(trace, "01", gen_ai__operation__name="invoke_agent", **attributes)


def model_call(trace: str, answer: str = "20 degrees", parent: str = "01", id: str = "02") -> dict[str, Any]:
    def messages(role: str, text: str) -> str:
        return f'[{{"role": "{role}", "parts": [{{"type": "text", "content": "{text}"}}]}}]'

    return span(
        trace,
        id,
        parent,
        gen_ai__operation__name="chat",
        gen_ai__input__messages=messages("user", "how warm?"),
        gen_ai__output__messages=messages("assistant", answer),
    )


def request(*spans: dict[str, Any], service: str = "") -> dict[str, Any]:
    resource = {"attributes": pairs({"service.name": service} if service else {})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}


def log_request(trace: str, id: str, name: str, body: Any) -> dict[str, Any]:
    record = {"traceId": trace, "spanId": id * 8, "eventName": name, "body": value(body), "timeUnixNano": "1"}
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}


def agent_trace(trace: str | None = None, answer: str = "20 degrees", **attributes: Any) -> dict[str, Any]:
    """A whole trace in one request."""
    trace = trace or new_trace()
    return request(model_call(trace, answer), root(trace, **attributes))


def windows(server, project: str = "support", tenant: str = "acme"):
    return server.do(windows_of(server.store, tenant, project))


def total(found, name: str) -> int:
    """The sum of a count over some windows."""
    return sum(getattr(window.counts, name) for window in found)


def wait_for(server, project: str = "support", tenant: str = "acme", **counts: int):
    """Wait until the windows of a project have counted so much, and return them."""

    def there():
        found = windows(server, project, tenant)
        return found if all(total(found, name) >= many for name, many in counts.items()) else None

    return wait_until(there, lambda: f"{[one.counts for one in windows(server, project, tenant)]}")
