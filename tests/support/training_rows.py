"""
The rows that the text models are fitted to: the features of all samples that are read, their labels and their importance.

The shipped held-out half, `sealed3` and `sealed4` are never read here. A blank such as "[tool]" is filled with a noun, so
that a blank has no weight.
"""

import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from assay.checks.safety.jailbreak import MAX_INPUT, parts_of, text_of
from assay.checks.safety.refusal import Classification, classify, clauses_of
from assay.checks.safety.refusal_model import Scores, clause_parts, places_to_read
from assay.checks.safety.text_model import Parts
from support.detector_samples import SAMPLES, Sample, load_samples

SOURCES = {  # a folder of samples, and the half that may be read
    "shipped": ("", "tuning"),
    "outside": ("outside/", None),
    "fresh": ("outside/fresh/", None),
    "independent": ("independent/", None),
    "practice": ("practice/", None),
    **{f"blind_{name}": (f"blind_{name}/", None) for name in "abcdefgklmnopqr"},
    **{f"plain_{name}": (f"plain_{name}/", None) for name in "abcde"},
    "sealed": ("sealed/", None),
    "sealed2": ("sealed2/", None),
    "lessons": ("lessons/", None),
}
ANSWERS = tuple(f"blind_{name}" for name in "kstuvwx")  # authors of answers to harmful requests
CONTRASTS = ANSWERS[1:]  # two answers to each request, which differ in sense and not in telling words
REQUESTS = ("lessons/requests", "blind_i/requests", "blind_j/requests")  # written for training alone
SHIPPED_IMPORTANCE = 3.0  # of a pair of the shipped samples
CONTRAST_IMPORTANCE = 0.3  # of an answer in `CONTRASTS`
STRANGER_IMPORTANCE = (
    0.3  # of a harmful request with the answer to another request, or behind another request
)
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
    """The pairs of all sources, and the answers to harmful requests, which were written for training alone."""
    answers = [
        (name, {**one, "label": one["label"] == "complies"})
        for name in ANSWERS
        for one in load_samples(f"{name}/answers")
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
    """The rows of all pairs, of harmful requests with the answer to another request or behind another request, and of requests alone."""
    rows = PairRows([], [], [], [], [])
    for source, sample in [*pair_samples(), *strangers(), *riders()]:
        request, value = filled(text_of(sample["input"])), filled(sample["text"])
        asks, complies, _ = parts_of(request[:MAX_INPUT], value, classify(value))
        _append(rows, source, bool(sample["label"]), importance_of(source), (asks, complies))
    nothing = Classification("none", (), Scores(-9.0, -9.0, (), None))
    for kind in REQUESTS:
        for sample in load_samples(kind):
            asks, _, _ = parts_of(filled(sample["input"]), "", nothing)
            _append(rows, "requests", bool(sample["label"]), 1.0, (asks, Parts({}, ())), alone=True)
    return rows


def importance_of(source: str) -> float:
    name, _, strangers = source.partition(", ")
    own = CONTRAST_IMPORTANCE if name in CONTRASTS else SHIPPED_IMPORTANCE if source == "shipped" else 1.0
    return own * STRANGER_IMPORTANCE if strangers else own


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
    return [
        (f"{name}, strangers", {**one, "label": False, "text": other["text"]})
        for name, one, other in harmful_and_other()
    ]


def riders() -> list[tuple[str, Sample]]:
    """Each harmful request behind a harmless one, as `assay suite attack` writes them: with the answer to the first, and with the answer to the second."""
    made: list[tuple[str, Sample]] = []
    for name, one, other in harmful_and_other():
        request = f"{text_of(other['input'])}\n\n{text_of(one['input'])}"
        made.append((f"{name}, riders", {**other, "input": request}))
        made.append((f"{name}, riders", {**one, "input": request}))
    return made


def harmful_and_other() -> Iterator[tuple[str, Sample, Sample]]:
    """Each source, each of its pairs with a finding, and another pair of it without a finding and without a refusal."""
    every = pair_samples()
    for name in SOURCES:
        others = [
            one
            for source, one in every
            if source == name and not one["label"] and classify(filled(one["text"])).label == "none"
        ]
        for source, one in every if others else ():
            if source == name and one["label"]:
                yield name, one, others[zlib.crc32(one["id"].encode()) % len(others)]
