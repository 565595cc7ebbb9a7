"""Every rule of docs/openwop-contract.md: the checks that look at it, or why no client can see it."""

from importlib.resources import files

import msgspec


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`rule` is the beginning of a sentence of the contract. `unseen` names a reason, or is "" if there are checks."""

    id: str  # the section, and the number of the sentence in it
    rule: str
    checks: tuple[str, ...] = ()
    unseen: str = ""


class RuleTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file conformance/openwop-rules.json."""

    reasons: dict[str, str]
    rules: list[Rule]


def rule_table() -> RuleTable:
    return msgspec.json.decode((files("assay.conform") / "openwop_rules.json").read_bytes(), type=RuleTable)
