"""Attacks by checks, schemas, redaction and caches that cost more than they look."""

from bench.attacking.target import Attack

ATTACKS: dict[str, Attack] = {}
