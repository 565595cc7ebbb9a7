"""exists (an extension to FEP): passes if a path finds a value, which may be null; with `negate`, if it finds none."""

from assay.checks.checker import PASSED_SCHEMA, Answer, Checker, Nodes, verdict
from assay.ports import Services


class Exists(Checker):
    type = "exists"
    waits = False
    results_schema = PASSED_SCHEMA

    path: Nodes
    negate: bool = False

    def run(self, services: Services) -> Answer:
        return verdict(bool(self.path) != self.negate)
