"""Attacks on agents, as data. To add one, add a row to a table here; `assay suite attack` then writes tasks with it."""

from assay.agenteval.attacks.attack import ACTIONS, INJECTIONS, LEAKS

ATTACKS = (*INJECTIONS, *LEAKS, *ACTIONS)
KINDS = tuple(dict.fromkeys(attack.kind for attack in ATTACKS))
