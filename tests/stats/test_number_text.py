"""Numbers as texts. The page has the same rules in TypeScript, and its tests read the same table."""

import json
import re
from pathlib import Path

import pytest

from assay.stats import number_text
from assay.stats.number_text import (
    IN_POINTS,
    case_value,
    confidence_text,
    cost_text,
    format_usd,
    milliseconds_text,
    percent,
    range_text,
    score_text,
)

EXAMPLES = json.loads((Path(__file__).parents[2] / "web/src/ui/number_examples.json").read_text())


@pytest.mark.parametrize(("value", "text"), EXAMPLES["score"])
def test_a_score_has_three_digits_and_never_reads_as_all_or_nothing(value, text):
    assert score_text(value) == text


@pytest.mark.parametrize(("value", "text"), EXAMPLES["money"])
def test_an_amount_has_cents_or_three_digits(value, text):
    assert format_usd(value) == text


@pytest.mark.parametrize(("value", "text"), EXAMPLES["case_value"])
def test_the_value_of_a_case_is_written_as_a_score_or_as_a_number(value, text):
    assert case_value(value) == text


@pytest.mark.parametrize(("value", "text"), EXAMPLES["percent"])
def test_a_share_is_a_percentage_and_never_reads_as_all_or_nothing(value, text):
    assert percent(value) == text


@pytest.mark.parametrize(("value", "text"), EXAMPLES["points"])
def test_a_difference_of_shares_is_in_points(value, text):
    assert IN_POINTS.change(value) == text


@pytest.mark.parametrize(("value", "text"), EXAMPLES["confidence"])
def test_a_confidence_is_in_whole_percent(value, text):
    assert confidence_text(value) == text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (percent(0.8325), "83.3%"),  # as 0.833; a product with 100 is 83.25, which rounds down
        (percent(0.8125), "81.2%"),  # as 0.812
        (percent(0.9996), ">99.9%"),
        (percent(0.0004), "<0.1%"),
        (range_text(0.571, 0.949, "rate"), "57.1–94.9%"),
        (range_text(0.8125, 1.0, "score"), "0.812–1.000"),
        (range_text(3.14159, 1234.5, "number"), "3.142–1234"),
        (range_text(None, None, "rate"), "–"),
        (cost_text(0.006, 0), "$0.00600"),
        (cost_text(0.006, 2), "at least $0.00600"),
        (cost_text(0.0, 2), "unknown"),
        (milliseconds_text(1234.4), "1,234 ms"),
        (milliseconds_text(0.25), "0.25 ms"),
    ],
)
def test_numbers_read_as_a_person_writes_them(text, written):
    assert text == written


@pytest.mark.parametrize(
    ("value", "digits", "plain", "change"),
    [
        (-0.25, 2, "−0.25", "−0.25"),
        (0.25, 2, "0.25", "+0.25"),
        (-0.001, 2, "0.00", "+0.00"),  # no sign of nothing
        (0.0, 3, "0.000", "+0.000"),
        (-12.5, 1, "−12.5", "−12.5"),
    ],
)
def test_a_number_has_one_sign_for_minus(value, digits, plain, change):
    assert number_text.fixed(value, digits) == plain
    assert number_text.change_text(value, digits) == change
    assert number_text.value_text(-2e-9, "number") == "−2e-09"
    assert number_text.case_value(-0.5) == "−0.500"


def test_no_other_code_formats_a_sign():
    """A number with a sign is printed by `change_text`, so that a minus looks alike everywhere."""
    files = (Path(number_text.__file__).parents[1]).rglob("*.py")
    found = [
        f"{file.name}: {line.strip()}"
        for file in files
        if file.name != "number_text.py"
        for line in file.read_text("utf-8").splitlines()
        if re.search(r":\+[.,\d]*[fg%]\}", line)
    ]
    assert found == []
