"""Attacks by values that are too deep, too large or too odd."""

from bench.attacking.target import Attack

ATTACKS: dict[str, Attack] = {}
