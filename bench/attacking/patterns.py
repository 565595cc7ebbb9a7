"""Attacks by regular expressions."""

from bench.attacking.target import Attack

ATTACKS: dict[str, Attack] = {}
