"""The list of rules is complete: each sentence of the contract has checks, or a reason why no client can see it."""

import re
from pathlib import Path

from assay.conform.catalog import OPENWOP_CHECKS
from assay.conform.openwop.rules import rule_table

CONTRACT = Path(__file__).parents[2] / "docs" / "openwop-contract.md"
BESIDE = ("10", "12")  # sections about the published suite, and about contradictions in the texts
PART = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*])")


def sentences():
    """The sentences of the contract, and the rows of its tables, as `(id, text)`."""
    section, count = None, 0
    for block in map(str.strip, re.split(r"\n\s*\n", CONTRACT.read_text("utf-8"))):
        if block.startswith("#"):
            heading = re.match(r"#+ ([0-9.]+)", block)
            section, count = heading and heading[1].rstrip("."), 0
        elif section is None or section.split(".")[0] in BESIDE:
            continue
        else:
            items = block.splitlines()[2:] if block.startswith("|") else re.split(r"\n(?=- |\d+\. )", block)
            for item in items:
                whole = re.sub(r"\s+", " ", re.sub(r"^(- |\d+\. )", "", item)).strip()
                for text in [whole] if block.startswith("|") else PART.split(whole):
                    count += 1
                    yield f"{section}-{count}", text


def test_every_sentence_of_the_contract_is_a_rule():
    rules = {one.id: one.rule for one in rule_table().rules}
    found = dict(sentences())
    assert rules.keys() == found.keys()
    assert {id: text for id, text in found.items() if not text.startswith(rules[id])} == {}


def test_a_rule_has_checks_or_a_reason():
    table, names = rule_table(), {one.name for one in OPENWOP_CHECKS}
    assert [one.id for one in table.rules if bool(one.checks) == bool(one.unseen)] == []
    assert {one.unseen for one in table.rules if one.unseen} == table.reasons.keys()
    assert {name for one in table.rules for name in one.checks} == names
