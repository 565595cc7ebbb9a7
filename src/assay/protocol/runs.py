"""Requests and responses of runs (openwop-contract §3). Unknown members are refused but in `configurable`."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

Text = Annotated[str, msgspec.Meta(min_length=1)]
Tag = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class _Closed(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True
):
    pass


class RunRequest(_Closed, frozen=True, kw_only=True):
    """POST /v1/runs. `mode` decides which members are required (openwop-contract §3.2)."""

    workflow_id: Text | UnsetType = UNSET
    inputs: dict[str, Any] | UnsetType = UNSET
    mode: str | UnsetType = UNSET
    eval_suite_ref: Text | UnsetType = UNSET
    agent_id: Text | UnsetType = UNSET
    configurable: dict[str, Any] | UnsetType = UNSET
    tags: Annotated[list[Tag], msgspec.Meta(max_length=100)] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    tenant_id: str | UnsetType = UNSET
    scope_id: str | UnsetType = UNSET
    callback_url: str | UnsetType = UNSET
    residency: Any = UNSET


class RunCreated(_Closed, frozen=True, kw_only=True):
    run_id: str
    status: str
    events_url: str
    status_url: str


class ForkRequest(_Closed, frozen=True, kw_only=True):
    mode: Literal["replay", "branch"]
    from_seq: Annotated[int, msgspec.Meta(ge=0)] | UnsetType = UNSET
    run_options_overlay: dict[str, Any] | UnsetType = UNSET


class ForkCreated(_Closed, frozen=True, kw_only=True):
    run_id: str
    source_run_id: str
    mode: Literal["replay", "branch"]
    status: str
    events_url: str
    from_seq: int | UnsetType = UNSET


class CancelRequest(_Closed, frozen=True, kw_only=True):
    reason: str | UnsetType = UNSET


class CancelResponse(_Closed, frozen=True, kw_only=True):
    """`cancelling`: the run has not ended yet. A run that had already ended keeps its status."""

    run_id: str
    status: Literal["cancelled", "cancelling", "completed", "failed"]


class EraseResponse(_Closed, frozen=True, kw_only=True):
    """The content of a run is gone. Its log, its scorecard and the audit log stay."""

    run_id: str
    status: str
    erased_at: str


class BulkCancelRequest(_Closed, frozen=True, kw_only=True):
    run_ids: Annotated[list[Text], msgspec.Meta(min_length=1)]
    reason: str | UnsetType = UNSET


class BulkError(_Closed, frozen=True, kw_only=True):
    """Why one run of a bulk request was refused: an error code and a message."""

    code: str
    message: str


class BulkCancelled(_Closed, frozen=True, kw_only=True):
    run_id: str
    ok: bool
    status: str | UnsetType = UNSET
    error: BulkError | UnsetType = UNSET


class BulkCancelResponse(_Closed, frozen=True, kw_only=True):
    results: list[BulkCancelled]


class EventPage(_Closed, frozen=True, kw_only=True):
    """
    GET /v1/runs/{runId}/events/poll, and the stream as JSON. `isComplete`: the run has ended, and no event follows this
    page.
    """

    run_id: str
    run_status: str
    events: list[msgspec.Raw]
    is_complete: bool
    last_event_seq: int


class InterruptRequest(_Closed, frozen=True, kw_only=True):
    """
    POST /v1/runs/{runId}/interrupts/{nodeId}. An approval takes `{"action": "accept" | "reject"}`, a clarification any
    value.
    """

    resume_value: Any


class InterruptResponse(_Closed, frozen=True, kw_only=True):
    run_id: str
    node_id: str
    status: str
