"""The labelled samples of the safety detectors: enough of each label, no duplicates, both halves."""

import json
from collections import Counter
from itertools import chain

import pytest

from support.detector_samples import SAMPLES, arguments_of, half_of, load_samples, passage_grams

KINDS = sorted(path.stem for path in SAMPLES.glob("*.jsonl"))
DETECTORS = [
    kind for kind in KINDS if kind != "refusal"
]  # a signal with classes: its own test counts their samples


@pytest.mark.parametrize("kind", DETECTORS)
def test_a_kind_has_enough_samples_of_each_label(kind):
    samples = load_samples(kind)
    negatives = [sample for sample in samples if not sample["label"]]
    assert len(samples) >= 300
    assert len(samples) - len(negatives) >= 150
    assert sum(sample["hard"] for sample in negatives) * 2 >= len(negatives)


@pytest.mark.parametrize("kind", [*KINDS, "independent/refusal", "independent/jailbreak"])
def test_samples_are_distinct_and_in_two_halves_of_similar_size(kind):
    samples = load_samples(kind)
    ids = [sample["id"] for sample in samples]
    assert len(set(ids)) == len(ids)
    assert len({json.dumps(arguments_of(sample), sort_keys=True) for sample in samples}) == len(samples)
    held_out = sum(half_of(one) == "held-out" for one in ids)
    assert 0.4 < held_out / len(ids) < 0.6


@pytest.mark.parametrize(("kind", "least"), [("refusal", 80), ("jailbreak", 100)])
def test_independent_samples_are_many_and_near_to_no_other_sample(kind, least):
    samples = load_samples(f"independent/{kind}")
    assert min(Counter(sample["label"] for sample in samples).values()) >= least
    assert all(sample.get("hard") for sample in samples if sample["label"] is False)
    others = [load_samples(f"{folder}{kind}") for folder in ("", "outside/", "outside/fresh/")]
    grams = [passage_grams(sample) for sample in samples]
    places: dict[tuple[str, ...], list[int]] = {}
    every = grams + [passage_grams(sample) for sample in chain(*others)]
    for place, one in enumerate(every):
        for gram in one:
            places.setdefault(gram, []).append(place)
    for place, one in enumerate(grams):
        shared = Counter(other for gram in one for other in places[gram] if other > place)
        assert all(count < 0.5 * len(one | every[other]) for other, count in shared.items())
