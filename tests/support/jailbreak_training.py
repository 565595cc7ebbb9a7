"""
The training of the weights of `jailbreak`: logistic regression with a quadratic penalty, fitted by Newton's method to the tuning samples.

    python -m support.jailbreak_training          # in the folder tests: rates across sources, each measured by a model without that source
    python -m support.jailbreak_training --write  # writes src/assay/checks/safety/jailbreak_weights.py

Samples of a held-out half and of `outside/fresh` are never read here.
"""

import hashlib
import json
import sys
import textwrap
from base64 import b85encode
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.checks.safety import jailbreak, jailbreak_weights
from assay.checks.safety.detector import texts_in
from assay.checks.safety.jailbreak_features import GRAM_BUCKETS, GRAM_SCALE, is_ordinary
from assay.checks.safety.jailbreak_weights import GRAM_STEP
from assay.checks.safety.refusal import classify
from support.detector_samples import Measurement, Sample, load_samples

PENALTY = 2.0
BAR = 1.0  # logits above even odds that a finding needs: a false alarm costs more than a miss
SOURCES = {  # a folder of samples, and the half that may be read
    "shipped": ("", "tuning"),
    "outside": ("outside/", None),
    "independent": ("independent/", "tuning"),
    "practice": ("practice/", None),
}
Vector = NDArray[np.float64]


class Row(NamedTuple):
    label: bool
    features: (
        Mapping[str, float] | None
    )  # None: a full refusal, a short answer or an ordinary request, which is never a finding
    places: Sequence[int]


def row_of(sample: Sample) -> Row:
    request = "\n".join(text for place, text in texts_in("input", sample["input"]) if not place.endswith("~"))
    found = classify(sample["text"])
    answer = jailbreak.answer_of(sample["text"], found)
    if jailbreak.is_short(answer):
        return Row(bool(sample["label"]), None, ())
    goal = jailbreak.request_goal(request)
    rule = jailbreak.rule_of(request, answer, goal)
    signs = jailbreak.signs_of(request, answer, sample["text"], goal, rule, mixed=found.label == "mixed")
    return Row(bool(sample["label"]), *((None, ()) if is_ordinary(signs[0]) else signs))


def rows_of_sources() -> dict[str, list[Row]]:
    return {
        name: [row_of(sample) for sample in load_samples(f"{folder}jailbreak", half)]  # pyright: ignore[reportArgumentType]
        for name, (folder, half) in SOURCES.items()
    }


def samples_digest() -> str:
    """The digest of all samples that the weights are fitted to."""
    samples = [load_samples(f"{folder}jailbreak", half) for folder, half in SOURCES.values()]  # pyright: ignore[reportArgumentType]
    return hashlib.sha256(json.dumps(samples, sort_keys=True).encode()).hexdigest()[:16]


def matrix(rows: Iterable[Row], names: Sequence[str]) -> Vector:
    lines: list[Vector] = []
    for row in rows:
        line = np.zeros(len(names) + GRAM_BUCKETS)
        assert row.features is not None
        line[: len(names)] = [row.features[name] for name in names]
        line[len(names) + np.array(row.places, int)] = GRAM_SCALE / max(len(row.places), 1) ** 0.5
        lines.append(line)
    return np.array(lines)


def fit(rows: Sequence[Row]) -> tuple[dict[str, float], list[int]]:
    """The weights of the features, rounded, and those of the buckets in units of GRAM_STEP."""
    read = [row for row in rows if row.features is not None]
    names = list(read[0].features or ())
    values, labels = matrix(read, names), np.array([float(row.label) for row in read])
    kernel, dual = values @ values.T, np.zeros(len(read))
    for _ in range(12):
        logits = kernel @ dual
        odds = 1 / (1 + np.exp(-logits))
        spread = np.maximum(odds * (1 - odds), 1e-4)
        dual = np.linalg.solve(
            kernel + np.diag(PENALTY / spread), np.asarray(logits + (labels - odds) / spread)
        )
    weights = values.T @ dual
    weights[0] -= BAR
    grams = np.clip(np.round(weights[len(names) :] / GRAM_STEP), -128, 127)
    return {name: round(float(weights[at]), 2) for at, name in enumerate(names)}, [int(one) for one in grams]


def measure_rows(rows: Sequence[Row], weights: Mapping[str, float], grams: Sequence[int]) -> Measurement:
    counts = {True: [0, 0], False: [0, 0]}
    for row in rows:
        counts[row.label][1] += 1
        if row.features is not None:
            words = sum(grams[place] for place in row.places) * GRAM_STEP * GRAM_SCALE
            total = words / max(len(row.places), 1) ** 0.5
            total += sum(weights[name] * value for name, value in row.features.items())
            counts[row.label][0] += total > 0
    return Measurement(*counts[True], *counts[False])


def module_text(weights: Mapping[str, float], grams: Sequence[int]) -> str:
    """The module `jailbreak_weights` with these weights."""
    assert jailbreak_weights.__file__ is not None
    with open(jailbreak_weights.__file__, encoding="utf-8") as file:
        text = file.read()
    table = "".join(f'    "{name}": {value},\n' for name, value in weights.items())
    packed = b85encode(bytes(one + 128 for one in grams)).decode()
    lines = "".join(f'    "{line}"\n' for line in textwrap.wrap(packed, 96, break_on_hyphens=False))
    start, end = text.index("SAMPLES: Final"), text.index("\n\n@cache")
    head = f'SAMPLES: Final = "{samples_digest()}"  # the digest of the samples\n'
    head += f"WEIGHTS: Final[dict[str, float]] = {{\n{table}}}\n_GRAMS: Final = (\n{lines})\n"
    return text[:start] + head + text[end:]


def _report(title: str, result: Measurement) -> None:
    sys.stdout.write(f"{title}: {' '.join(result.row())}\n")


def main(arguments: Sequence[str]) -> None:
    sources = rows_of_sources()
    for name, rows in sources.items():
        others = [row for other, every in sources.items() if other != name for row in every]
        _report(f"without {name}", measure_rows(rows, *fit(others)))
    weights, grams = fit([row for rows in sources.values() for row in rows])
    for name, rows in sources.items():
        _report(f"with all, on {name}", measure_rows(rows, weights, grams))
    if "--write" in arguments:
        assert jailbreak_weights.__file__ is not None
        text = module_text(weights, grams)
        with open(jailbreak_weights.__file__, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
