"""How often things run: rounds of a loop, and a bound on the agent() calls of a run."""

from __future__ import annotations

from .analysis import Analysis
from .tree import FUNCTIONS, LOOPS, Node, unwrapped

_EXITS = frozenset({"return_statement", "throw_statement"})


def rounds_of(analysis: Analysis, loop: Node) -> int | None:
    """How many rounds ``loop`` makes at most, where its head says so by constants; None where it does not."""
    if loop.kind == "for_in_statement":
        operator = loop.field("operator")
        if operator is None or operator.kind != "of":
            return None
        return elements_of(analysis, loop.field("right"))
    if loop.kind != "for_statement":
        return None
    start, condition = loop.field("initializer"), unwrapped(loop.field("condition"))
    if (
        start is None
        or condition is None
        or condition.kind != "binary_expression"
        or len(start.children) != 1
    ):
        return None
    name = start.children[0].field("name")
    counter = analysis.scopes.binding(name) if name is not None else None
    tested = condition.field("left")
    if counter is None or tested is None or analysis.scopes.binding(tested) is not counter:
        return None
    step = _step(analysis, loop.field("increment"), counter)
    first = analysis.constants.value(start.children[0].field("value"))
    last = analysis.constants.value(condition.field("right"))
    if step is None or type(first) is not int or type(last) is not int or len(counter.writes) != 1:
        return None
    sign = condition.tokens[0] if condition.tokens else ""
    distance = (last - first) * (1 if step > 0 else -1)
    if sign not in (("<", "<=") if step > 0 else (">", ">=")):
        return None
    if len(sign) == 2:
        distance += 1
    return max(0, -(-distance // abs(step)))


def _step(analysis: Analysis, increment: Node | None, counter: object) -> int | None:
    increment = unwrapped(increment)
    if increment is None:
        return None
    if increment.kind == "update_expression":
        argument = increment.field("argument")
        if argument is None or analysis.scopes.binding(argument) is not counter:
            return None
        return 1 if "++" in (*increment.tokens, _operator(increment)) else -1
    if increment.kind == "augmented_assignment_expression":
        left = increment.field("left")
        value = analysis.constants.value(increment.field("right"))
        if (
            left is None
            or analysis.scopes.binding(left) is not counter
            or type(value) is not int
            or value <= 0
        ):
            return None
        return {"+=": value, "-=": -value}.get(_operator(increment))
    return None


def _operator(node: Node) -> str:
    operator = node.field("operator")
    return operator.kind if operator is not None else ""


def elements_of(analysis: Analysis, node: Node | None) -> int | None:
    """How many elements an expression has, where it is an array written out or a constant one."""
    node = unwrapped(node)
    if node is None:
        return None
    if node.kind == "array" and not any(child.kind == "spread_element" for child in node.children):
        return None if node.has_holes() else len(node.children)
    value = analysis.constants.value(node)
    return len(value) if isinstance(value, list) else None


class Counter:
    """Counts agent() calls: the most that one run can make, and whether something makes that open-ended."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.open = False
        self._of_function: dict[Node, int] = {}
        self._busy: set[Node] = set()

    def total(self) -> int:
        """The bound for the whole script; raises RecursionError for a script too deep to follow."""
        return self._sequence(self.analysis.root.children)

    def _sequence(self, nodes: list[Node]) -> int:
        count = 0
        for index, node in enumerate(nodes):
            if node.kind == "if_statement" and _exits(node.field("consequence")):
                yes, no = node.field("consequence"), node.field("alternative")
                rest = self._count(no) + self._sequence(nodes[index + 1 :])
                return count + self._count(node.field("condition")) + max(self._count(yes), rest)
            count += self._count(node)
            if node.kind in _EXITS:
                break
        return count

    def _count(self, node: Node | None) -> int:
        if node is None:
            return 0
        kind = node.kind
        if kind in FUNCTIONS:
            return self._function_value(node)
        if kind in ("identifier", "shorthand_property_identifier"):
            function = self.analysis.function_named(node)
            return self._body(function) if function is not None else 0
        if kind == "call_expression":
            return self._call(node)
        if kind in ("statement_block", "program"):
            return self._sequence(node.children)
        if kind in ("if_statement", "ternary_expression"):
            branches = [self._count(node.field(name)) for name in ("consequence", "alternative")]
            return self._count(node.field("condition")) + max(branches)
        if kind == "switch_body":
            counts = [self._sequence(case.children) for case in node.children]
            apart = all(not case.children or _leaves(case.children[-1]) for case in node.children[:-1])
            return max(counts, default=0) if apart else sum(counts)
        if kind in LOOPS:
            return self._loop(node)
        return sum(self._count(child) for child in node.children)

    def _loop(self, node: Node) -> int:
        once = sum(self._count(node.field(name)) for name in ("initializer", "right"))
        each = sum(self._count(node.field(name)) for name in ("condition", "increment", "body"))
        return once + self._times(each, rounds_of(self.analysis, node) if each else 0)

    def _times(self, each: int, rounds: int | None) -> int:
        if rounds is None and each:
            self.open = True
        return each * (1 if rounds is None else rounds)

    def _call(self, node: Node) -> int:
        called, arguments = unwrapped(node.field("function")), node.field("arguments")
        function = self.analysis.callee(node)
        count = self._count(arguments)
        if function is not None:
            return count + self._body(function)
        call = self.analysis.call_of.get(node)
        if call is not None:
            return count + (1 if call.name == "agent" else 0)
        return count + self._count(called)

    def _function_value(self, function: Node) -> int:
        """A function that appears as a value: what its one call would add, or as often as a method calls it."""
        if self.analysis.binding_of_function(function) is not None:
            return 0
        if function.parent is not None and function.parent.kind in ("statement_block", "program"):
            return 0
        each = self._body(function)
        call = self.analysis.each_call(function)
        if call is None or not each:
            return each
        called = unwrapped(call.field("function"))
        owner = called.field("object") if called is not None else None
        return self._times(each, elements_of(self.analysis, owner))

    def _body(self, function: Node) -> int:
        if function in self._busy:
            self.open = True
            return 0
        if function not in self._of_function:
            self._busy.add(function)
            self._of_function[function] = self._count(function.field("body"))
            self._busy.discard(function)
        return self._of_function[function]


def _exits(node: Node | None) -> bool:
    if node is None:
        return False
    if node.kind == "statement_block":
        return bool(node.children) and node.children[-1].kind in _EXITS
    return node.kind in _EXITS


def _leaves(node: Node) -> bool:
    if node.kind == "statement_block" and node.children:
        node = node.children[-1]
    return node.kind in _EXITS or node.kind in ("break_statement", "continue_statement")
