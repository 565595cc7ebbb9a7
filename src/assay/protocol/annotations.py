"""Annotations of a run, event or node by a person (RFC 0056, openwop-contract §9.2), stored outside the log."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

SignalKind = Literal["rating", "correction", "label", "flag"]
SIGNALS: tuple[SignalKind, ...] = ("rating", "correction", "label", "flag")
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class _Closed(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True
):
    pass


class Anchor(_Closed, frozen=True, kw_only=True):
    """The event or node in the run; the request's path names the run."""

    event_id: Name | UnsetType = UNSET
    node_id: Name | UnsetType = UNSET


class Signal(_Closed, frozen=True, kw_only=True):
    """The annotation's value, in the member that its kind requires."""

    kind: SignalKind
    rating: Annotated[int, msgspec.Meta(ge=1, le=5)] | UnsetType = UNSET
    label: str | UnsetType = UNSET
    correction: str | UnsetType = UNSET

    @property
    def missing_member(self) -> str | None:
        """The member that its kind requires and that is not set."""
        return None if self.kind == "flag" or getattr(self, self.kind) is not UNSET else self.kind


class AnnotationCreate(_Closed, frozen=True, kw_only=True):
    signal: Signal
    target: Anchor | UnsetType = UNSET
    note: str | UnsetType = UNSET


class Target(_Closed, frozen=True, kw_only=True):
    run_id: str
    event_id: str | UnsetType = UNSET
    node_id: str | UnsetType = UNSET


class Actor(_Closed, frozen=True, kw_only=True):
    principal_ref: str


class Annotation(_Closed, frozen=True, kw_only=True):
    annotation_id: str
    target: Target
    signal: Signal
    actor: Actor
    created_at: datetime
    note: str | UnsetType = UNSET


class ScoreCorrection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    The JSON in a `correction` of an `eval.scored` event, or of a case of an evaluation (openwop-contract §9.2).

    `check`: only the verdict of this check of a case. `withdrawn`: what was recorded counts again.
    """

    score: Annotated[float, msgspec.Meta(ge=0, le=1)] | UnsetType = UNSET
    passed: bool | UnsetType = UNSET
    check: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | UnsetType = UNSET
    withdrawn: Literal[True] | UnsetType = UNSET
