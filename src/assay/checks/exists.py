"""exists (ours): a path finds something, be it null; with `negate`, nothing."""

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
