"""Attacks by what a body becomes in memory."""

from bench.attacking.target import Attack

ATTACKS: dict[str, Attack] = {}
