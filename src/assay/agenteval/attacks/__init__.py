"""Attacks on agents, as data. To add one, add a row to a table here; `assay suite attack` then writes tasks with it."""

from assay.agenteval.attacks.actions import ACTIONS
from assay.agenteval.attacks.injections import INJECTIONS
from assay.agenteval.attacks.leaks import LEAKS

ATTACKS = (*INJECTIONS, *LEAKS, *ACTIONS)
KINDS = tuple(dict.fromkeys(attack.kind for attack in ATTACKS))
