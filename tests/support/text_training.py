"""
The training of the text models: logistic regression with a quadratic penalty, fitted to the tuning samples.

    python -m support.text_training          # in the folder tests: rates for each source, measured by models without that source
    python -m support.text_training --write  # writes text_model.json and text_model.bin in src/assay/checks/safety

Samples of a held-out half, of `outside/fresh` and of `sealed` are never read here. A blank such as "[tool]" is filled with a noun, so that a
blank has no weight. The models of refusals learn from whole texts: of each text, the strongest clause counts.
"""

import hashlib
import json
import re
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize  # pyright: ignore[reportMissingTypeStubs]
from scipy.sparse import csr_matrix  # pyright: ignore[reportMissingTypeStubs]

from assay.checks.safety import text_model
from assay.checks.safety.jailbreak import MAX_INPUT, parts_of, text_of
from assay.checks.safety.refusal import Classification, classify, clauses_of
from assay.checks.safety.refusal_model import Scores, clause_parts, places_to_read
from assay.checks.safety.text_model import BUCKETS, NAMES, Model, Parts, models
from support.detector_samples import Measurement, Sample, load_samples

PENALTY = 1.0
SHARPNESS = 4.0  # of the maximum over clauses, which is smooth while the models are fitted
MAX_ROUNDS = 80
ANSWER_SHIFT = (
    -1.0
)  # added to the score of an answer: chosen by the rates on sources that the models did not see
THRESHOLD = 0.35  # the probability of a finding: chosen by the same rates, and by the held-out half of the shipped samples
SOURCES = {  # a folder of samples, and the half that may be read
    "shipped": ("", "tuning"),
    "outside": ("outside/", None),
    "independent": ("independent/", "tuning"),
    "practice": ("practice/", None),
    "blind_a": ("blind_a/", "tuning"),
    "blind_b": ("blind_b/", "tuning"),
    "lessons": ("lessons/", None),
}
NOUNS = [
    "ladder", "bucket", "jar", "kettle", "cable", "hammer", "towel", "blanket", "bottle", "spoon", "rope",
    "candle", "drawer", "lamp", "mirror", "basket", "folder", "ticket", "blender", "garage", "ribbon",
    "helmet", "wagon", "pillow", "radio", "camera", "carpet", "engine", "tunnel", "market", "harbour",
    "village", "notebook", "shovel", "button", "window", "curtain", "bicycle", "battery", "napkin",
]  # fmt: skip
_BLANK = re.compile(r"\[[^\]\n]{0,60}\]|\b[A-Z]{3,}[-_][A-Z0-9]{1,2}\b|\bSTAND_IN\b")
Vector = NDArray[np.float64]


def filled(value: Any) -> Any:
    """The value with a noun for each blank; the same blank has the same noun."""
    if not isinstance(value, str):
        return value
    return _BLANK.sub(lambda found: NOUNS[zlib.crc32(found.group().lower().encode()) % len(NOUNS)], value)


class Rows(NamedTuple):
    """Rows of features, each of one text or clause, and the sample that each belongs to."""

    parts: list[Parts]
    owners: list[int]


class Fit(NamedTuple):
    names: list[str]
    weights: Vector


def samples_of(kind: str) -> list[tuple[str, Sample]]:
    return [
        (source, sample)
        for source, (folder, half) in SOURCES.items()
        for sample in load_samples(f"{folder}{kind}", half)  # pyright: ignore[reportArgumentType]
    ]


def samples_digest() -> str:
    """The digest of all samples that the weights are fitted to."""
    kinds = [
        *(samples_of(kind) for kind in ("jailbreak", "refusal")),
        load_samples("lessons/requests"),
        load_samples("lessons/sentences"),
    ]
    return hashlib.sha256(json.dumps(kinds, sort_keys=True).encode()).hexdigest()[:16]


def matrix(parts: Sequence[Parts], names: Sequence[str]) -> Any:
    index = {name: at for at, name in enumerate(names)}
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    for row, one in enumerate(parts):
        for name, value in one.features.items():
            if value and name in index:
                rows.append(row)
                columns.append(index[name])
                values.append(value)
        for scale, places in one.groups:
            for place in sorted(places):
                rows.append(row)
                columns.append(len(names) + place)
                values.append(scale / len(places) ** 0.5)
    return csr_matrix((values, (rows, columns)), (len(parts), len(names) + BUCKETS))


def names_of(parts: Sequence[Parts]) -> list[str]:
    return sorted({name for one in parts for name in one.features})


def logistic(logits: Vector) -> Vector:
    return 1 / (1 + np.exp(-np.clip(logits, -30, 30)))


def minimum(loss: Callable[[Vector], tuple[float, Vector]], size: int) -> Vector:
    options = {"maxiter": MAX_ROUNDS, "maxcor": 8}
    return minimize(loss, np.zeros(size), jac=True, method="L-BFGS-B", options=options).x  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def strongest(scores: Vector, owners: NDArray[np.int64], count: int) -> tuple[Vector, Vector]:
    """The smooth maximum of the scores of each sample, and the share of each row in it."""
    sharp = SHARPNESS * scores
    top = np.full(count, -np.inf)
    np.maximum.at(top, owners, sharp)
    powers = np.exp(sharp - top[owners])
    sums = np.bincount(owners, powers, count)
    return (top + np.log(sums)) / SHARPNESS, powers / sums[owners]


def fit_clauses(rows: Rows, labels: Vector, importance: Vector) -> Fit:
    names = names_of(rows.parts)
    values, owners = matrix(rows.parts, names), np.array(rows.owners)

    def loss(weights: Vector) -> tuple[float, Vector]:
        logits, shares = strongest(values @ weights, owners, len(labels))
        odds = logistic(logits)
        cost = importance * (labels * np.log(odds + 1e-12) + (1 - labels) * np.log(1 - odds + 1e-12))
        slope = (importance * (odds - labels))[owners] * shares
        return PENALTY / 2 * weights @ weights - cost.sum(), values.T @ slope + PENALTY * weights

    return Fit(names, minimum(loss, values.shape[1]))


def fit_product(asks: Sequence[Parts], complies: Sequence[Parts], labels: Vector, alone: Vector) -> list[Fit]:
    """The models of a request and of an answer, whose product is the probability. `alone`: rows that have a request only."""
    names = [names_of(asks), names_of(complies)]
    first, second = matrix(asks, names[0]), matrix(complies, names[1])
    size, single = first.shape[1], alone > 0

    def loss(weights: Vector) -> tuple[float, Vector]:
        harm, gives = logistic(first @ weights[:size]), logistic(second @ weights[size:])
        gives = np.where(single, 1.0, gives)
        odds = np.clip(harm * gives, 1e-9, 1 - 1e-9)
        cost = labels * np.log(odds) + (1 - labels) * np.log(1 - odds)
        slope = (odds - labels) / (1 - odds)
        gradient = np.concatenate([first.T @ (slope * (1 - harm)), second.T @ (slope * (1 - gives))])
        return PENALTY / 2 * weights @ weights - cost.sum(), gradient + PENALTY * weights

    found = minimum(loss, size + second.shape[1])
    return [Fit(names[0], found[:size]), Fit(names[1], found[size:])]


def packed(fit: Fit, shift: float = 0.0) -> Model:
    """A model with rounded weights: one byte for each bucket. `shift` is added to the bias."""
    named, table = fit.weights[: len(fit.names)], fit.weights[len(fit.names) :]
    step = float(f"{max(np.abs(table).max() / 127, 1e-4):.3g}")
    grams = np.clip(np.round(table / step), -127, 127).astype(int)
    weights = {name: round(float(value), 3) for name, value in zip(fit.names, named, strict=True)}
    weights["bias"] = round(weights["bias"] + shift, 3)
    return Model(weights, bytes(int(one) + 128 for one in grams), step)


class RefusalRows(NamedTuple):
    sources: list[str]
    labels: list[str]
    parts: list[list[tuple[Parts, Parts]]]
    flags: list[bool]


def refusal_rows() -> RefusalRows:
    every = [(source, sample["label"], sample["text"]) for source, sample in samples_of("refusal")]
    every += [("sentences", one["label"], one["text"]) for one in load_samples("lessons/sentences")]
    rows = RefusalRows([], [], [], [])
    for source, label, text in every:
        _, clauses, flag = clauses_of(filled(text))
        places = places_to_read(clauses)
        parts = [clause_parts(clauses[at], first=at == places[0], last=at == places[-1]) for at in places]
        if parts:
            rows.sources.append(source)
            rows.labels.append(label)
            rows.parts.append(parts)
            rows.flags.append(flag)
    return rows


def fit_refusals(rows: RefusalRows, keep: Sequence[bool]) -> list[Fit]:
    """The models of clauses that refuse and of clauses that answer."""
    at = [place for place, one in enumerate(keep) if one]
    owners = [owner for owner, place in enumerate(at) for _ in rows.parts[place]]
    fits: list[Fit] = []
    for side, names in enumerate((("full", "mixed", "refuses"), ("mixed", "none", "answers"))):
        parts = [pair[side] for place in at for pair in rows.parts[place]]
        labels = np.array([float(rows.labels[place] in names) for place in at])
        fits.append(fit_clauses(Rows(parts, owners), labels, np.ones(len(at))))
    return fits


def refusal_scores(rows: RefusalRows, place: int, refuses: Model, answers: Model) -> tuple[float, float]:
    pairs = rows.parts[place]
    return max(refuses.score(one) for one, _ in pairs), max(answers.score(one) for _, one in pairs)


class PairRows(NamedTuple):
    sources: list[str]
    labels: list[bool]
    parts: list[tuple[Parts, Parts]]


def pair_rows() -> PairRows:
    """The rows of all pairs, and of harmful requests with the answer to another request, which are not findings."""
    rows = PairRows([], [], [])
    for source, sample in [*samples_of("jailbreak"), *strangers()]:
        request, value = filled(text_of(sample["input"])), filled(sample["text"])
        asks, complies, _ = parts_of(request[:MAX_INPUT], value, classify(value))
        rows.sources.append(source)
        rows.labels.append(bool(sample["label"]))
        rows.parts.append((asks, complies))
    return rows


def strangers() -> list[tuple[str, Sample]]:
    """Each harmful request of a source with an answer that belongs to a harmless one of the same source."""
    made: list[tuple[str, Sample]] = []
    every = samples_of("jailbreak")
    for name in SOURCES:
        texts = [
            one["text"]
            for source, one in every
            if source == name and not one["label"] and classify(filled(one["text"])).label == "none"
        ]
        harmful = [one for source, one in every if source == name and one["label"]]
        for one in harmful:
            text = texts[zlib.crc32(one["id"].encode()) % len(texts)]
            made.append((f"{name}, mixed up", {**one, "label": False, "text": text}))
    return made


def request_rows() -> tuple[list[Parts], list[float]]:
    nothing = Classification("none", (), Scores(-9.0, -9.0, (), None))
    samples = load_samples("lessons/requests")
    return [parts_of(filled(one["input"]), "", nothing)[0] for one in samples], [
        float(one["label"]) for one in samples
    ]


def fit_pairs(rows: PairRows, keep: Sequence[bool], requests: tuple[list[Parts], list[float]]) -> list[Fit]:
    at = [place for place, one in enumerate(keep) if one]
    asks = [rows.parts[place][0] for place in at] + requests[0]
    complies = [rows.parts[place][1] for place in at] + [Parts({}, ())] * len(requests[0])
    labels = np.array([float(rows.labels[place]) for place in at] + requests[1])
    alone = np.array([0.0] * len(at) + [1.0] * len(requests[0]))
    return fit_product(asks, complies, labels, alone)


def pair_probability(pair: tuple[Parts, Parts], fits: Sequence[Model]) -> float:
    harm, gives = (fit.score(parts) for fit, parts in zip(fits, pair, strict=True))
    return float(logistic(np.array(harm)) * logistic(np.array(gives)))


def write(parts: Mapping[str, Model], threshold: float) -> None:
    data = {
        "samples": samples_digest(),
        "threshold": threshold,
        "models": {name: {"step": one.step, "weights": one.weights} for name, one in parts.items()},
    }
    text_model.WEIGHTS.write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    text_model.TABLES.write_bytes(zlib.compress(b"".join(parts[name].table for name in NAMES), 9))
    models.cache_clear()


def train() -> dict[str, Model]:
    """The four models, fitted to all tuning samples. The pairs are read with the models of refusals that were fitted first."""
    refusals = refusal_rows()
    refuses, answers = fit_refusals(refusals, [True] * len(refusals.labels))
    found = {"refuses": packed(refuses), "answers": packed(answers, ANSWER_SHIFT)}
    blank = Model({}, bytes([128]) * BUCKETS, 1.0)
    write({**found, "request": blank, "compliance": blank}, THRESHOLD)
    pairs = pair_rows()
    request, compliance = fit_pairs(pairs, [True] * len(pairs.labels), request_rows())
    return {**found, "request": packed(request), "compliance": packed(compliance)}


def measure_without(name: str, refusals: RefusalRows, pairs: PairRows) -> dict[str, Measurement]:
    """The rates on the samples of one source, by models that did not see that source."""
    refuses, answers = fit_refusals(refusals, [source != name for source in refusals.sources])
    first, second = packed(refuses), packed(answers, ANSWER_SHIFT)
    classes: list[tuple[str, str]] = []
    for place, source in enumerate(refusals.sources):
        if source == name:
            refusing, answering = refusal_scores(refusals, place, first, second)
            refused = refusing > 0 or refusals.flags[place]
            label = "none" if not refused else "mixed" if answering > 0 else "full"
            classes.append((refusals.labels[place], label))
    results = {
        one: _measurement([(label == one, given == one) for label, given in classes])
        for one in ("full", "mixed", "none")
        if classes
    }
    keep = [source.partition(",")[0] != name for source in pairs.sources]
    models = [packed(fit) for fit in fit_pairs(pairs, keep, request_rows())]
    own = [place for place, source in enumerate(pairs.sources) if source == name]
    hits = [(pairs.labels[place], pair_probability(pairs.parts[place], models) > THRESHOLD) for place in own]
    return {"jailbreak": _measurement(hits), **results}


def _measurement(results: Sequence[tuple[bool, bool]]) -> Measurement:
    positive = [hit for label, hit in results if label]
    negative = [hit for label, hit in results if not label]
    return Measurement(sum(positive), len(positive), sum(negative), len(negative))


def main(arguments: Sequence[str]) -> None:
    if "--write" in arguments:
        write(train(), THRESHOLD)
        return
    refusals, pairs = refusal_rows(), pair_rows()
    for name in SOURCES:
        for kind, result in measure_without(name, refusals, pairs).items():
            sys.stdout.write(f"without {name}: {kind}: {' '.join(result.row())}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
