"""
Runs queries that descend or filter through jsonpath-rfc9535, with limits, so that no query can hang the process.

The library's segments and selectors visit the nodes. This module replaces the classes that they use: nodes and
sub-queries that count against a `Budget`, comparisons that count their work (and in which true does not equal 1), and
regular expressions with a time limit. Every node holds its `Budget` in the library's attribute for the document
(`root`). There is no global state, so queries can run in any number of threads.
"""

from collections.abc import Callable
from time import monotonic
from typing import Any

from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathNode, JSONPathNodeList
from jsonpath_rfc9535.exceptions import JSONPathRecursionError
from jsonpath_rfc9535.filter_expressions import (
    NOTHING,
    Expression,
    FilterContext,
    FilterExpression,
    FilterExpressionLiteral,
    FunctionExtension,
    PrefixExpression,
)
from jsonpath_rfc9535.segments import JSONPathChildSegment, JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath_rfc9535.selectors import (
    FilterSelector,
    IndexSelector,
    JSONPathSelector,
    NameSelector,
    SliceSelector,
    WildcardSelector,
)
from jsonpath_rfc9535.tokens import Token, TokenType

from assay.concurrency.workers import pool
from assay.concurrency.workers.batch import Batch
from assay.errors import Fault, PathFault, TimeFault
from assay.jsonpath import iregexp
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
from assay.patterns.search import TASK, item

MAX_DEPTH = 200  # limit of the depth of a document under `..`
WAITED = 30.0  # limit of the seconds of waiting for a worker process, in addition to the time of the path


class Environment(JSONPathEnvironment):
    max_recursion_depth = MAX_DEPTH


ENVIRONMENT = Environment()
TOKEN = Token(
    TokenType.ROOT, "$", 0, "$"
)  # the library needs a position; grammar.py has already reported errors with theirs


def general(segments: tuple[Segment, ...]) -> Callable[[Any, int, float], list[Any]]:
    resolvers = [_segment(part) for part in segments]

    def run(document: Any, max_nodes: int, max_seconds: float) -> list[Any]:
        try:
            return _nodes(resolvers, document, Budget(document, max_nodes, max_seconds)).values()
        except JSONPathRecursionError:
            raise PathFault(f"the document is nested more than {MAX_DEPTH} deep under '..'") from None
        except RecursionError:
            raise PathFault("the path, its pattern or the document is nested too deep") from None

    return run


class Budget:
    """The document of one call, and the nodes and time that are left for it."""

    __slots__ = ("deadline", "document", "max_nodes", "max_seconds", "nodes_left")

    def __init__(self, document: Any, max_nodes: int, max_seconds: float) -> None:
        self.document, self.max_nodes, self.max_seconds = document, max_nodes, max_seconds
        self.nodes_left, self.deadline = max_nodes, monotonic() + max_seconds

    def spend(self, nodes: int = 1) -> None:
        """
        Count nodes. Raises PathFault over the limits. It reads the clock each time, which is cheap beside the library's
        own cost.
        """
        self.nodes_left -= nodes
        if self.nodes_left < 0:
            raise PathFault(
                f"the path visits more than {self.max_nodes} nodes, which is the limit (raise it with ASSAY_MAX_NODES)"
            )
        if monotonic() > self.deadline:
            raise self.too_slow()

    def seconds_left(self) -> float:
        left = self.deadline - monotonic()
        if left <= 0:
            raise self.too_slow()
        return left

    def too_slow(self) -> PathFault:
        return PathFault(f"the path takes more than {self.max_seconds:g} seconds (max_seconds)")


class BoundedNode(JSONPathNode):
    """A node that counts its children against the budget, and has no location."""

    __slots__ = ()

    def __init__(self, value: Any, budget: Any) -> None:
        super().__init__(value=value, location=(), parent=None, root=budget)

    def new_child(self, value: object, key: int | str, parent: JSONPathNode | None) -> "BoundedNode":
        _budget_of(self).spend()
        return BoundedNode(value, self.root)


def _budget_of(holder: JSONPathNode | FilterContext) -> Budget:
    walk: Any = holder.root
    return walk


def _nodes(resolvers: list[JSONPathSegment], start: Any, budget: Budget) -> JSONPathNodeList:
    """The nodes of a query. It resolves segment by segment, so that a long query is not a deep stack of generators."""
    budget.spend()
    found: list[JSONPathNode] = [BoundedNode(start, budget)]
    for resolver in resolvers:
        found = list(resolver.resolve(found))
    return JSONPathNodeList(found)


# filter expressions


class FilterTest(FilterExpression):
    """A whole filter. Each evaluation counts against the budget, also for children that do not match."""

    def evaluate(self, context: FilterContext) -> bool:
        _budget_of(context).spend()
        return super().evaluate(context)


class SubqueryArgument(Expression):
    def __init__(self, absolute: bool, resolvers: list[JSONPathSegment]) -> None:
        super().__init__(TOKEN)
        self.absolute, self.resolvers = absolute, resolvers

    def evaluate(self, context: FilterContext) -> JSONPathNodeList:
        walk = _budget_of(context)
        return _nodes(self.resolvers, walk.document if self.absolute else context.current, walk)


class NodesArgument(Expression):
    """`a && b && c` or `a || b || c`: flat and short-circuiting. The library nests pairs and evaluates both sides."""

    def __init__(self, all_nodes: bool, tests: list[FilterExpression]) -> None:
        super().__init__(TOKEN)
        self.join, self.tests = all if all_nodes else any, tests

    def evaluate(self, context: FilterContext) -> bool:
        return self.join(test.evaluate(context) for test in self.tests)


class ComparisonExpression(Expression):
    def __init__(self, left: Expression, operator: str, right: Expression) -> None:
        super().__init__(TOKEN)
        self.left, self.operator, self.right = left, operator, right

    def evaluate(self, context: FilterContext) -> bool:
        holds = COMPARISONS[self.operator]
        return holds(_value(self.left, context), _value(self.right, context), _budget_of(context))


class TimedRegex(FunctionExtension):
    """
    match() and search() (RFC 9535 §2.4.6, §2.4.7): false if the value is not text or the pattern is not an I-Regexp.
    """

    def evaluate(self, context: FilterContext) -> bool:
        text, pattern = (_value(argument, context) for argument in self.args)
        if not isinstance(text, str) or not isinstance(pattern, str):
            return False
        walk = _budget_of(context)
        walk.deadline += iregexp.prepare(pattern)
        compiled = iregexp.pattern(pattern, self.name == "match")
        if compiled is None:
            return False
        left = walk.seconds_left()
        found = compiled.search.matches(text)
        return _match_in_worker(compiled, text, left, walk) if found is None else found


def _match_in_worker(pattern: iregexp.Pattern, text: str, seconds: float, budget: Budget) -> bool:
    """Search in a worker process, which can be killed. This thread blocks."""
    future = pool.submit(Batch(TASK, [item(text)], seconds, common=pattern.common))
    try:
        (outcome,) = future.result(seconds + WAITED)
    except TimeoutError:
        future.cancel()
        raise budget.too_slow() from None
    if isinstance(outcome, TimeFault):
        raise budget.too_slow()
    if isinstance(outcome, Fault):
        raise PathFault(f"a pattern: {outcome}")
    return bool(outcome)


def _value(expression: Expression, context: FilterContext) -> Any:
    """The value of an operand: of a singular query its node's value, or NOTHING without a node."""
    found = expression.evaluate(context)
    if not isinstance(found, JSONPathNodeList):
        return found
    return found[0].value if found else NOTHING


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
    "!=": lambda left, right, walk: not same(left, right, walk),
    "<": less,
    "<=": lambda left, right, walk: less(left, right, walk) or same(left, right, walk),
    ">": lambda left, right, walk: less(right, left, walk),
    ">=": lambda left, right, walk: less(right, left, walk) or same(left, right, walk),
}


# from the classes of grammar.py to the library's


def _segment(segment: Segment) -> JSONPathSegment:
    kind = JSONPathRecursiveDescentSegment if segment.descend else JSONPathChildSegment
    selectors = tuple(_selector(selector) for selector in segment.selectors)
    return kind(env=ENVIRONMENT, token=TOKEN, selectors=selectors)


def _selector(selector: Selector) -> JSONPathSelector:
    match selector:
        case str():
            return NameSelector(env=ENVIRONMENT, token=TOKEN, name=selector)
        case int():
            return IndexSelector(env=ENVIRONMENT, token=TOKEN, index=selector)
        case slice():
            start, stop, step = selector.start, selector.stop, selector.step
            return SliceSelector(env=ENVIRONMENT, token=TOKEN, start=start, stop=stop, step=step)
        case Filter():
            test = FilterTest(TOKEN, _expression(selector.test))
            return FilterSelector(env=ENVIRONMENT, token=TOKEN, expression=test)
        case _:
            return WildcardSelector(env=ENVIRONMENT, token=TOKEN)


def _expression(part: Test | Operand) -> Expression:
    match part:
        case Constant(value):
            return FilterExpressionLiteral[Any](TOKEN, value)
        case Subquery(absolute, segments):
            return SubqueryArgument(absolute, [_segment(segment) for segment in segments])
        case FunctionCall(function, arguments):
            kind = TimedRegex if function in {"match", "search"} else FunctionExtension
            return kind(TOKEN, function, [_expression(argument) for argument in arguments])
        case ComparisonTest(left, operator, right):
            return ComparisonExpression(_expression(left), operator, _expression(right))
        case Not(test):
            return PrefixExpression(TOKEN, "!", _expression(test))
        case Junction(every, tests):
            return NodesArgument(every, [FilterExpression(TOKEN, _expression(test)) for test in tests])
