"""A person's word on a run, an event or a node (RFC 0056, contract §9.2): beside the log, never in it."""

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
    """Where in the run; the run itself is named by the path."""

    event_id: Name | UnsetType = UNSET
    node_id: Name | UnsetType = UNSET


class Signal(_Closed, frozen=True, kw_only=True):
    """What is said. Which member it needs, its kind says: see `lacking`."""

    kind: SignalKind
    rating: Annotated[int, msgspec.Meta(ge=1, le=5)] | UnsetType = UNSET
    label: str | UnsetType = UNSET
    correction: str | UnsetType = UNSET

    @property
    def lacking(self) -> str | None:
        """The member that its kind needs and it has not."""
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
    """What a `correction` of an `eval.scored` event holds, as JSON (contract §9.2)."""

    score: Annotated[float, msgspec.Meta(ge=0, le=1)] | UnsetType = UNSET
    passed: bool | UnsetType = UNSET
