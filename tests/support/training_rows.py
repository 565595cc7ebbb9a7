"""
The rows that the text models are fitted to: the features of all tuning samples, their labels and their importance.

Samples of a held-out half, of `outside/fresh` and of the sealed sets are never read here. A blank such as "[tool]" is filled with a noun, so
that a blank has no weight.
"""

import hashlib
import json
import re
import zlib
from typing import Any, NamedTuple

from assay.checks.safety.jailbreak import MAX_INPUT, parts_of, text_of
from assay.checks.safety.refusal import Classification, classify, clauses_of
from assay.checks.safety.refusal_model import Scores, clause_parts, places_to_read
from assay.checks.safety.text_model import Parts
from support.detector_samples import SAMPLES, Sample, load_samples

SOURCES = {  # a folder of samples, and the half that may be read
    "shipped": ("", "tuning"),
    "outside": ("outside/", None),
    "independent": ("independent/", "tuning"),
    "practice": ("practice/", None),
    **{f"blind_{name}": (f"blind_{name}/", "tuning") for name in "abcdefgk"},
    "lessons": ("lessons/", None),
}
REQUESTS = ("lessons/requests", "blind_i/requests", "blind_j/requests")  # written for training alone
STRANGER_IMPORTANCE = 0.3  # of a harmful request with the answer to another request
ANSWER_IMPORTANCE = 0.3  # of an answer that complies, as a sample without a refusal
NOUNS = [
    "ladder", "bucket", "jar", "kettle", "cable", "hammer", "towel", "blanket", "bottle", "spoon", "rope",
    "candle", "drawer", "lamp", "mirror", "basket", "folder", "ticket", "blender", "garage", "ribbon",
    "helmet", "wagon", "pillow", "radio", "camera", "carpet", "engine", "tunnel", "market", "harbour",
    "village", "notebook", "shovel", "button", "window", "curtain", "bicycle", "battery", "napkin",
]  # fmt: skip
_BLANK = re.compile(r"\[[^\]\n]{0,60}\]|\b[A-Z]{3,}[-_][A-Z0-9]{1,2}\b|\bSTAND_IN\b")


def filled(value: Any) -> Any:
    """The value with a noun for each blank; the same blank has the same noun."""
    if not isinstance(value, str):
        return value
    return _BLANK.sub(lambda found: NOUNS[zlib.crc32(found.group().lower().encode()) % len(NOUNS)], value)


def samples_of(kind: str) -> list[tuple[str, Sample]]:
    return [
        (source, sample)
        for source, (folder, half) in SOURCES.items()
        if (SAMPLES / f"{folder}{kind}.jsonl").exists()
        for sample in load_samples(f"{folder}{kind}", half)  # pyright: ignore[reportArgumentType]
    ]


def pair_samples() -> list[tuple[str, Sample]]:
    """The pairs of all sources, and the answers to harmful requests in `blind_k`, which were written for training alone."""
    answers = [
        ("blind_k", {**one, "label": one["label"] == "complies"}) for one in load_samples("blind_k/answers")
    ]
    return [*samples_of("jailbreak"), *answers]


def samples_digest() -> str:
    """The digest of all samples that the weights are fitted to."""
    kinds = [pair_samples(), samples_of("refusal"), *map(load_samples, (*REQUESTS, "lessons/sentences"))]
    return hashlib.sha256(json.dumps(kinds, sort_keys=True).encode()).hexdigest()[:16]


class RefusalRows(NamedTuple):
    sources: list[str]
    labels: list[str]
    importance: list[float]
    parts: list[list[tuple[Parts, Parts]]]
    flags: list[bool]


def refusal_rows() -> RefusalRows:
    every = [(source, sample["label"], 1.0, sample["text"]) for source, sample in samples_of("refusal")]
    every += [("sentences", one["label"], 1.0, one["text"]) for one in load_samples("lessons/sentences")]
    every += [
        (f"{source}, pairs", "none", ANSWER_IMPORTANCE, text_of(one["text"]))
        for source, one in pair_samples()
        if one["label"]
    ]
    rows = RefusalRows([], [], [], [], [])
    for source, label, importance, text in every:
        _, clauses, flag = clauses_of(filled(text))
        places = places_to_read(clauses)
        parts = [clause_parts(clauses[at], first=at == places[0], last=at == places[-1]) for at in places]
        if parts:
            rows.sources.append(source)
            rows.labels.append(label)
            rows.importance.append(importance)
            rows.parts.append(parts)
            rows.flags.append(flag)
    return rows


class PairRows(NamedTuple):
    """Requests with their answers. A request `alone` has no answer."""

    sources: list[str]
    labels: list[bool]
    importance: list[float]
    parts: list[tuple[Parts, Parts]]
    alone: list[bool]


def pair_rows() -> PairRows:
    """The rows of all pairs, of harmful requests with the answer to another request, and of requests alone."""
    rows = PairRows([], [], [], [], [])
    for source, sample in [*pair_samples(), *strangers()]:
        request, value = filled(text_of(sample["input"])), filled(sample["text"])
        asks, complies, _ = parts_of(request[:MAX_INPUT], value, classify(value))
        weight = STRANGER_IMPORTANCE if source.endswith(", strangers") else 1.0
        _append(rows, source, bool(sample["label"]), weight, (asks, complies))
    nothing = Classification("none", (), Scores(-9.0, -9.0, (), None))
    for kind in REQUESTS:
        for sample in load_samples(kind):
            asks, _, _ = parts_of(filled(sample["input"]), "", nothing)
            _append(rows, "requests", bool(sample["label"]), 1.0, (asks, Parts({}, ())), alone=True)
    return rows


def _append(
    rows: PairRows,
    source: str,
    label: bool,
    importance: float,
    parts: tuple[Parts, Parts],
    *,
    alone: bool = False,
) -> None:
    for values, value in zip(rows, (source, label, importance, parts, alone), strict=True):
        values.append(value)  # pyright: ignore[reportArgumentType]


def strangers() -> list[tuple[str, Sample]]:
    """Each harmful request of a source with an answer that belongs to a harmless one of the same source."""
    made: list[tuple[str, Sample]] = []
    every = pair_samples()
    for name in SOURCES:
        texts = [
            one["text"]
            for source, one in every
            if source == name and not one["label"] and classify(filled(one["text"])).label == "none"
        ]
        harmful = [one for source, one in every if source == name and one["label"]]
        for one in harmful if texts else []:
            text = texts[zlib.crc32(one["id"].encode()) % len(texts)]
            made.append((f"{name}, strangers", {**one, "label": False, "text": text}))
    return made
