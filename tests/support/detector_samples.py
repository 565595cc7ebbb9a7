"""The labelled samples of the safety detectors, and the error rates of a detector on one half of them."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from assay.stats.intervals import wilson

SAMPLES = Path(__file__).parent.parent / "checks" / "safety" / "samples"
Half = Literal["tuning", "held-out"]
Sample = dict[str, Any]


class Measurement(NamedTuple):
    """Counts on one half of the samples: detections among positives, and false alarms among negatives."""

    detections: int
    positives: int
    false_alarms: int
    negatives: int

    @property
    def recall(self) -> float:
        return self.detections / self.positives

    @property
    def false_positive_rate(self) -> float:
        return self.false_alarms / self.negatives

    def row(self) -> tuple[str, str]:
        """Recall and false-positive rate as docs/safety.md prints them: the rate, its Wilson interval and the counts."""
        return _cell(self.detections, self.positives), _cell(self.false_alarms, self.negatives)


def _cell(count: int, total: int) -> str:
    low, high = wilson(count / total, total)
    return f"{count / total:.3f} ({low:.3f} to {high:.3f}), {count} of {total}"


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


def passage_grams(sample: Sample) -> frozenset[tuple[str, ...]]:
    """The word trigrams of a sample's request and answer; of a text with fewer than four words, its trigrams of characters."""
    text = f"{sample.get('input', '')} {sample.get('text', '')}".lower()
    units = re.findall(r"\w+", text)
    units = units if len(units) > 3 else list(text)
    return frozenset(zip(units, units[1:], units[2:], strict=False))


def unshared(kind: str) -> frozenset[str]:
    """The ids of the held-out samples whose answer shares no passage of six words with an answer of the tuning half."""
    known = frozenset[tuple[str, ...]]().union(*map(_passages, load_samples(kind, "tuning")))
    return frozenset(one["id"] for one in load_samples(kind, "held-out") if not _passages(one) & known)


def _passages(sample: Sample) -> frozenset[tuple[str, ...]]:
    answer = [sample.get("text"), sample.get("tool_calls")]
    words = re.findall(r"\w+", json.dumps(answer, ensure_ascii=False).lower())
    return frozenset(tuple(words[at : at + 6]) for at in range(max(len(words) - 5, 1)))


def arguments_of(sample: Sample) -> dict[str, Any]:
    """The arguments of the check: all members that do not describe the sample."""
    return {name: value for name, value in sample.items() if name not in ("id", "situation", "label", "hard")}


def measure(
    kind: str, detect: Callable[[dict[str, Any]], bool], half: Half | None = "held-out"
) -> Measurement:
    """The error rates of `detect`, which takes the arguments of the check, on one half of the samples of a kind, or on all."""
    return count((one, detect(arguments_of(one))) for one in load_samples(kind, half))


def measure_held_out(kind: str, detect: Callable[[dict[str, Any]], bool]) -> tuple[str, ...]:
    """The row of a detector in docs/safety.md: its rates on the held-out half, and on the unshared samples of it. It has to meet the bars."""
    results = [(one, detect(arguments_of(one))) for one in load_samples(kind, "held-out")]
    every, ids = count(results), unshared(kind)
    assert every.recall >= 0.9
    assert every.false_positive_rate <= 0.05
    return *every.row(), *count((one, hit) for one, hit in results if one["id"] in ids).row()


def count(results: Iterable[tuple[Sample, bool]]) -> Measurement:
    hits = {True: 0, False: 0}
    sizes = {True: 0, False: 0}
    for sample, hit in results:
        label = bool(sample["label"])
        sizes[label] += 1
        hits[label] += hit
    return Measurement(hits[True], sizes[True], hits[False], sizes[False])


def measure_class(samples: Iterable[Sample], name: str, classify: Callable[[Any], str]) -> Measurement:
    """The error rates of a classifier of texts for one class against the others."""
    results = [(sample["label"] == name, classify(sample["text"]) == name) for sample in samples]
    positive = [hit for label, hit in results if label]
    negative = [hit for label, hit in results if not label]
    return Measurement(sum(positive), len(positive), sum(negative), len(negative))
