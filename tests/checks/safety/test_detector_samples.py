"""The labelled samples of the safety detectors: enough of each label, no duplicates, and detectors that still find what they found."""

import json

import pytest

from assay import Services
from assay.checks import STANDARD
from support.checks.detector_samples import SAMPLES, arguments_of, half_of, load_samples, measure

KINDS = sorted(path.stem for path in SAMPLES.glob("*.jsonl"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_enough_samples_of_each_label(kind):
    for name, least in ((kind, 140), (f"outside/{kind}", 40)):
        samples = load_samples(name)
        negatives = [sample for sample in samples if not sample["label"]]
        assert len(negatives) >= least <= len(samples) - len(negatives)
        assert sum(sample["hard"] for sample in negatives) * 2 >= len(negatives)


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_distinct_and_in_two_halves_of_similar_size(kind):
    samples = load_samples(kind)
    ids = [sample["id"] for sample in samples]
    assert len(set(ids)) == len(ids)
    assert len({json.dumps(arguments_of(sample), sort_keys=True) for sample in samples}) == len(samples)
    held_out = sum(half_of(one) == "held-out" for one in ids)
    assert 0.4 < held_out / len(ids) < 0.6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("folder", ["", "outside/"])
def test_a_detector_finds_the_samples_that_rules_can_find(kind, folder):
    """The samples are ours: they guard the rules against a loss, and are no measure of other data."""
    detector = STANDARD.find(kind, None)
    rates = measure(
        f"{folder}{kind}",
        lambda arguments: bool(detector(**arguments).detections(Services())),
        None if folder else "held-out",
    )
    assert rates.recall >= 0.9
    assert rates.false_positive_rate <= 0.05
