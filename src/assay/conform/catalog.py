"""Every check, in the order in which a run does them."""

from assay.conform.check import Check
from assay.conform.fep_checks import fep_checks


def all_checks() -> list[Check]:
    return fep_checks()
