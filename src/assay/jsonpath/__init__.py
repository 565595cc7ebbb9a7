"""
JSONPath, RFC 9535: `compile(text)` gives a `Query`; `values(document)` are its nodes, in order.

    compile("$.output.value.answer").get(document)          one value, or MISSING
    compile("$.output.value.steps[*].tool").values(document)

    grammar.py       text → segments; refuses what the RFC refuses
    query.py         segments → Query: compiled getters and chains of child segments
    evaluator.py     queries with filters and `..`, through jsonpath-rfc9535, with limits on nodes, time and depth
    iregexp.py       the patterns of match() and search()
    batch_getter.py  many getters over one document in one step
"""

from assay.jsonpath.grammar import MAX_NESTING, MAX_TEXT
from assay.jsonpath.query import MAX_NODES, MAX_SECONDS, MISSING, Missing, Query, compile

__all__ = ["MAX_NESTING", "MAX_NODES", "MAX_SECONDS", "MAX_TEXT", "MISSING", "Missing", "Query", "compile"]
