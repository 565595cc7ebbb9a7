"""
JSONPath, RFC 9535: `compile(text)` gives a `Query`; `values(document)` are its nodes, in order.

    compile("$.output.value.answer").get(document)          one value, or MISSING
    compile("$.output.value.steps[*].tool").values(document)

    grammar.py       text → segments; refuses what the RFC refuses
    query.py         segments → Query; many queries over one document in one step
    evaluator.py     what segments and filters select
    budget.py        the limits of nodes and time
    iregexp.py       match() and search(), and their patterns
"""

from assay.jsonpath.evaluator import MISSING, Missing
from assay.jsonpath.grammar import MAX_NESTING, MAX_TEXT
from assay.jsonpath.query import MAX_NODES, MAX_SECONDS, Query, compile

__all__ = ["MAX_NESTING", "MAX_NODES", "MAX_SECONDS", "MAX_TEXT", "MISSING", "Missing", "Query", "compile"]
