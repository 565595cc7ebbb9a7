"""Attacks by one tenant takes what all share."""

from bench.attacking.target import Attack

ATTACKS: dict[str, Attack] = {}
