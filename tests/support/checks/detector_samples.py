"""The labelled samples of the safety detectors, and the error rates of a detector on one half of them."""

import hashlib
import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

SAMPLES = Path(__file__).parents[2] / "checks" / "safety" / "samples"
Half = Literal["tuning", "held-out"]
Sample = dict[str, Any]


class Measurement(NamedTuple):
    """Detections among positives, and false alarms among negatives, as shares."""

    recall: float
    false_positive_rate: float


def half_of(sample_id: str) -> Half:
    """The half that a sample belongs to, by the first byte of the SHA-256 of its id."""
    return "held-out" if hashlib.sha256(sample_id.encode()).digest()[0] % 2 else "tuning"


@cache
def _lines(kind: str) -> tuple[str, ...]:
    return tuple((SAMPLES / f"{kind}.jsonl").read_text("utf-8").splitlines())


def load_samples(kind: str, half: Half | None = None) -> list[Sample]:
    """The samples of a detector: both halves, or one. Samples of one `situation` are in one half."""
    every: Iterable[Sample] = map(json.loads, _lines(kind))
    return [one for one in every if half is None or half_of(one.get("situation", one["id"])) == half]


def arguments_of(sample: Sample) -> dict[str, Any]:
    """The arguments of the check: all members that do not describe the sample."""
    return {name: value for name, value in sample.items() if name not in ("id", "situation", "label", "hard")}


def measure(kind: str, detect: Callable[[dict[str, Any]], bool], half: Half | None = None) -> Measurement:
    """The error rates of `detect`, which takes the arguments of the check, on one half of the samples of a kind, or on all."""
    hits: dict[bool, list[bool]] = {True: [], False: []}
    for one in load_samples(kind, half):
        hits[bool(one["label"])].append(detect(arguments_of(one)))
    return Measurement(*(sum(hits[label]) / len(hits[label]) for label in (True, False)))
