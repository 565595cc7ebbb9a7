"""
Evaluates queries (RFC 9535 §2.3–§2.5). A segment becomes a step from nodes to their children, a filter becomes a test
of a node. Names and indexes at the beginning of a query become one getter.

Every node counts against the `Budget` of its run, also in the queries of filters. Nothing recurses with the depth of
the document. There is no global state, so queries can run in any number of threads.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import chain, islice, repeat, takewhile
from typing import Any, Final

from assay.errors import PathFault
from assay.jsonpath.budget import Budget
from assay.jsonpath.grammar import (
    ARRAY,
    OBJECT,
    ComparisonTest,
    Constant,
    Filter,
    FunctionCall,
    Junction,
    Not,
    Operand,
    Segment,
    Selector,
    Subquery,
    Test,
)

MAX_DEPTH = 200  # limit of the depth of a document under `..`


class Missing(Enum):
    """No node: not the same as a node whose value is null (FEP-15)."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING

Getter = Callable[[Any], Any]  # from a node to one below it, or MISSING
Nodes = Callable[[Any, Budget], list[Any]]
Step = Callable[[Iterable[Any], Budget], Iterable[Any]]
Select = Callable[[Any, Budget], Iterable[Any]]
Predicate = Callable[[Any, Budget], bool]
Value = Callable[[Any, Budget], Any]


def getter(path: Iterable[str | int | None]) -> Getter:
    steps: list[tuple[type[Any], Any]] = [(OBJECT if isinstance(key, str) else ARRAY, key) for key in path]

    def get(node: Any) -> Any:
        try:
            for kind, key in steps:
                if not isinstance(node, kind):
                    return MISSING
                node = node[key]
        except LookupError:
            return MISSING
        return node

    return get


def evaluator(segments: tuple[Segment, ...]) -> Nodes:
    """A function from the node where a query starts to the nodes that it selects."""
    lead = tuple(takewhile(lambda key: key is not None, (segment.key for segment in segments)))
    get = getter(lead)
    steps = [_step(segment) for segment in segments[len(lead) :]]

    def evaluate(start: Any, budget: Budget) -> list[Any]:
        budget.spend(len(lead))
        node = get(start)
        nodes = [] if node is MISSING else [node]
        for step in steps:
            nodes = list(islice(step(nodes, budget), budget.nodes_left + 1))
            budget.spend(len(nodes))
        return nodes

    return evaluate


# segments and selectors


def _step(segment: Segment) -> Step:
    children = _child_step(segment.selectors)
    if segment.descend:
        return lambda nodes, budget: children(_descendants(nodes, budget), budget)
    return children


def _child_step(selectors: tuple[Selector, ...]) -> Step:
    several = [_selector(selector) for selector in selectors]
    match selectors:
        case (str() as name,):  # the most common case, and twice as fast as the general form
            return lambda nodes, budget: (
                node[name] for node in nodes if isinstance(node, OBJECT) and name in node
            )
        case (_,):
            return lambda nodes, budget: chain.from_iterable(map(several[0], nodes, repeat(budget)))
        case _:
            return lambda nodes, budget: (
                child for node in nodes for select in several for child in select(node, budget)
            )


def _descendants(nodes: Iterable[Any], budget: Budget) -> Iterator[Any]:
    """The objects and arrays among the nodes and below them, each before those below it."""
    levels = [iter(nodes)]
    while levels:
        for node in levels[-1]:
            if isinstance(node, (OBJECT, ARRAY)):
                budget.spend()
                yield node
                levels.append(iter(_children(node)))
                if len(levels) > MAX_DEPTH + 1:
                    raise PathFault(f"the document is nested more than {MAX_DEPTH} deep under '..'")
                break
        else:
            levels.pop()


def _selector(selector: Selector) -> Select:
    match selector:
        case str() as name:
            return lambda node, budget: (node[name],) if isinstance(node, OBJECT) and name in node else ()
        case int() as index:
            return lambda node, budget: (
                (node[index],) if isinstance(node, ARRAY) and -len(node) <= index < len(node) else ()
            )
        case slice() as cut if cut.step == 0:
            return lambda node, budget: ()
        case slice() as cut:
            return lambda node, budget: node[cut] if isinstance(node, ARRAY) else ()
        case Filter(test):
            return _filter(_predicate(test))
        case _:
            return lambda node, budget: _children(node)


def _children(node: Any) -> Iterable[Any]:
    return node if isinstance(node, ARRAY) else node.values() if isinstance(node, OBJECT) else ()


def _filter(test: Predicate) -> Select:
    def select(node: Any, budget: Budget) -> Iterator[Any]:
        for child in _children(node):
            budget.spend()
            if test(child, budget):
                yield child

    return select


# tests and their operands


def _predicate(test: Test) -> Predicate:
    match test:
        case Subquery():
            nodes = _subquery(test)
            return lambda node, budget: bool(nodes(node, budget))
        case FunctionCall():
            return _call(test)
        case ComparisonTest(left, operator, right):
            return _comparison(_operand(left), operator, _operand(right))
        case Not(inner):
            refused = _predicate(inner)
            return lambda node, budget: not refused(node, budget)
        case Junction(every, tests):
            join, several = all if every else any, [_predicate(one) for one in tests]
            return lambda node, budget: join(one(node, budget) for one in several)


def _subquery(query: Subquery) -> Nodes:
    evaluate = evaluator(query.segments)
    return (lambda node, budget: evaluate(budget.document, budget)) if query.absolute else evaluate


def _operand(operand: Operand) -> Value:
    """The value of a literal, a function or a query for one node; MISSING without a node."""
    match operand:
        case Constant(value):
            return lambda node, budget: value
        case Subquery(absolute, segments):
            get = getter(segment.key for segment in segments)
            return lambda node, budget: get(budget.document if absolute else node)
        case FunctionCall():
            return _call(operand)


def _call(call: FunctionCall) -> Value:
    """A function (RFC 9535 §2.4). grammar.py has checked its arguments."""
    first = call.arguments[0]
    if call.function in ("count", "value") and isinstance(first, Subquery):
        nodes = _subquery(first)
        if call.function == "count":
            return lambda node, budget: len(nodes(node, budget))
        return lambda node, budget: found[0] if len(found := nodes(node, budget)) == 1 else MISSING
    subject, *others = map(_operand, call.arguments)
    if call.function == "length":
        return lambda node, budget: (
            len(value) if isinstance(value := subject(node, budget), (str, OBJECT, ARRAY)) else MISSING
        )
    from assay.jsonpath.iregexp import is_match  # deferred import: few queries have a pattern

    whole = call.function == "match"
    return lambda node, budget: is_match(subject(node, budget), others[0](node, budget), whole, budget)


def _comparison(left: Value, operator: str, right: Value) -> Predicate:
    holds = COMPARISONS[operator]
    return lambda node, budget: holds(left(node, budget), right(node, budget), budget)


def same(left: Any, right: Any, budget: Budget) -> bool:
    """Whether two values are equal as JSON: numbers by value, true does not equal 1. It does not recurse."""
    pairs = [(left, right)]
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, OBJECT) and isinstance(right, OBJECT):
            budget.spend(len(left))
            if left.keys() != right.keys():
                return False
            pairs.extend((left[key], right[key]) for key in left)
        elif isinstance(left, ARRAY) and isinstance(right, ARRAY):
            budget.spend(len(left))
            if len(left) != len(right):
                return False
            pairs.extend(zip(left, right, strict=True))
        elif isinstance(left, bool) is not isinstance(right, bool) or left != right:
            return False
    return True


def less(left: Any, right: Any, budget: Budget) -> bool:
    """Whether `<` holds. Only two texts or two numbers have an order; true is not a number."""
    for kind in (str, int | float):
        if isinstance(left, kind) and isinstance(right, kind):
            return not isinstance(left, bool) and not isinstance(right, bool) and left < right
    return False


COMPARISONS: dict[str, Callable[[Any, Any, Budget], bool]] = {  # RFC 9535 §2.3.5.2.2
    "==": same,
    "!=": lambda left, right, budget: not same(left, right, budget),
    "<": less,
    "<=": lambda left, right, budget: less(left, right, budget) or same(left, right, budget),
    ">": lambda left, right, budget: less(right, left, budget),
    ">=": lambda left, right, budget: less(right, left, budget) or same(left, right, budget),
}
