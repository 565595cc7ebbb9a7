"""The labelled samples of the safety detectors: enough of each label, no duplicates, both halves."""

import json

import pytest

from support.detector_samples import SAMPLES, arguments_of, half_of, load_samples

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


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_distinct_and_in_two_halves_of_similar_size(kind):
    samples = load_samples(kind)
    ids = [sample["id"] for sample in samples]
    assert len(set(ids)) == len(ids)
    assert len({json.dumps(arguments_of(sample), sort_keys=True) for sample in samples}) == len(samples)
    held_out = sum(half_of(one) == "held-out" for one in ids)
    assert 0.4 < held_out / len(ids) < 0.6
