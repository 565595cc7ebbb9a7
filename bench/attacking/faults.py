"""Attacks by runs and databases that hang or die."""

from bench.attacking.target import Attack

ATTACKS: dict[str, Attack] = {}
