"""The modules of assay as Python reads them: once for all tests with the mark `TOGETHER`, which run in one process."""

import ast
import gc
from collections import defaultdict
from functools import cache

import pytest

from support.documents import ROOT

SOURCE = ROOT / "src" / "assay"
TOGETHER = pytest.mark.together("source code")


class Module:
    def __init__(self, text):
        self.text, self.tree = text, ast.parse(text)
        self._nodes, left = defaultdict(list), [self.tree]
        while left:  # `ast.walk` takes three times as long
            node = left.pop()
            self._nodes[type(node)].append(node)
            for name, value in vars(node).items():
                if isinstance(value, list):
                    left += [one for one in value if isinstance(one, ast.AST)]
                elif isinstance(value, ast.AST) and name != "ctx":
                    left.append(value)

    def nodes(self, *kinds):
        """Every node of these kinds."""
        return [node for kind in kinds for node in self._nodes[kind]]


@cache
def modules():
    """By path, without what is generated. To look for garbage among millions of nodes would take as long as to read them."""
    gc.disable()
    try:
        paths = [path for path in sorted(SOURCE.rglob("*.py")) if "_pb2" not in path.name]
        return {path: Module(path.read_text("utf-8")) for path in paths}
    finally:
        gc.enable()
        gc.freeze()
