"""Builds the graph of one function, statement by statement.

The body of a ``finally`` is copied for every way of leaving its ``try``, so that facts of the normal way are not
lost to the others. Constant conditions decide, and a loop whose head promises a round has one.
"""

from __future__ import annotations

from collections.abc import Iterable

from .analysis import Analysis
from .counting import rounds_of
from .graph import Block, EventKind, Graph, closure
from .tree import FUNCTIONS, Node, unwrapped

_SHORT_CIRCUITS = frozenset({"&&", "||", "??"})
_STATEMENT_LISTS = frozenset({"statement_block", "program", "export_statement", "else_clause"})


class FlowTooLarge(Exception):
    """The graph would have more blocks than are worth building."""


class _Frame:
    """Something a break, continue or return may leave: a loop, a switch, a label, or a try with a finally."""

    __slots__ = ("breaks", "copies", "final", "handlers", "labels", "next")

    def __init__(
        self,
        labels: tuple[str, ...] = (),
        breaks: Block | None = None,
        next_round: Block | None = None,
        final: Node | None = None,
        handlers: int = 0,
    ) -> None:
        self.labels = labels
        self.breaks = breaks
        self.next = next_round
        self.final = final
        self.handlers = handlers
        self.copies: dict[Block, Block] = {}


class GraphBuilder:
    """Use once: ``build`` returns the graph. ``budget`` holds the number of blocks that may still be made."""

    def __init__(self, analysis: Analysis, function: Node | None, budget: list[int]) -> None:
        self.analysis = analysis
        self.graph = Graph(function)
        self.now = self.graph.entry
        self.frames: list[_Frame] = []
        self.handlers: list[Block] = []
        self.labels: tuple[str, ...] = ()
        self.budget = budget

    def build(self) -> Graph:
        graph, function = self.graph, self.graph.function
        if function is None:
            self.statements(self.analysis.root.children)
        else:
            for name in ("parameters", "parameter"):
                self.expression(function.field(name))
            body = function.field("body")
            if body is not None and body.kind == "statement_block":
                self.statements(body.children)
            else:
                self.expression(body)
        self.link(self.now, graph.end)
        graph.reachable = frozenset(closure([graph.entry]))
        return graph

    # -- blocks

    def new(self, *before: Block) -> Block:
        self.budget[0] -= 1
        if self.budget[0] < 0:
            raise FlowTooLarge
        block = Block()
        for other in before:
            other.succ.append(block)
        return block

    @staticmethod
    def link(before: Block, after: Block) -> None:
        before.succ.append(after)

    def mark(self, node: Node) -> None:
        self.graph.at.setdefault(node, []).append(self.now)

    def event(self, kind: EventKind, node: Node, function: Node | None = None) -> None:
        """Something that may throw: a block of its own, so that a handler sees the state before it."""
        self.now = self.new(self.now)
        if self.handlers:
            self.now.fail.append(self.handlers[-1])
        self.now.events.append((kind, node, function))
        self.mark(node)

    def risk(self) -> None:
        if self.handlers:
            self.now = self.new(self.now)
            self.now.fail.append(self.handlers[-1])

    def jump(self, target: Block, leaving: int) -> None:
        """Leave all frames above ``leaving`` for ``target``, through copies of their finally blocks."""
        frames, handlers = self.frames, self.handlers
        for index in range(len(frames) - 1, leaving - 1, -1):
            frame = frames[index]
            if frame.final is None:
                continue
            copy = frame.copies.get(target)
            if copy is not None:
                self.link(self.now, copy)
                break
            frame.copies[target] = self.now = self.new(self.now)
            self.frames, self.handlers = frames[:index], handlers[: frame.handlers]
            self.statement(frame.final)
        else:
            self.link(self.now, target)
        self.frames, self.handlers = frames, handlers
        self.now = self.new()

    # -- statements

    def statements(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self.statement(node)

    def statement(self, node: Node | None) -> None:
        if node is None:
            return
        self.mark(node)
        labels, self.labels = self.labels, ()
        kind = node.kind
        if kind in _STATEMENT_LISTS:
            self.statements(node.children)
        elif kind == "if_statement":
            self.choose(node)
        elif kind in ("while_statement", "do_statement"):
            self.while_loop(node, labels)
        elif kind == "for_statement":
            self.for_loop(node, labels)
        elif kind == "for_in_statement":
            self.for_each(node, labels)
        elif kind == "switch_statement":
            self.switch(node, labels)
        elif kind == "try_statement":
            self.attempt(node)
        elif kind == "labeled_statement":
            self.labeled(node, labels)
        elif kind in ("break_statement", "continue_statement"):
            self.leave(node)
        elif kind == "return_statement":
            self.expressions(node)
            self.jump(self.graph.end, 0)
        elif kind == "throw_statement":
            self.expressions(node)
            if self.handlers:
                self.link(self.now, self.handlers[-1])
            self.now = self.new()
        elif kind not in ("function_declaration", "generator_function_declaration"):
            self.expressions(node)
        elif self.analysis.binding_of_function(node) is None:
            self.event("use", node, node)

    def choose(self, node: Node) -> None:
        """An if statement or a conditional expression."""
        yes, no, after = self.new(), self.new(), self.new()
        self.condition(node.field("condition"), yes, no)
        visit = self.statement if node.kind == "if_statement" else self.expression
        for block, name in ((yes, "consequence"), (no, "alternative")):
            self.now = block
            visit(node.field(name))
            self.link(self.now, after)
        self.now = after

    def loop_body(self, node: Node, labels: tuple[str, ...], breaks: Block, next_round: Block) -> None:
        self.frames.append(_Frame((*labels, ""), breaks, next_round))
        self.statement(node.field("body"))
        self.frames.pop()
        self.link(self.now, next_round)
        self.now = breaks

    def while_loop(self, node: Node, labels: tuple[str, ...]) -> None:
        body, test, after = self.new(), self.new(), self.new()
        self.link(self.now, test if node.kind == "while_statement" else body)
        self.now = test
        self.condition(node.field("condition"), body, after)
        self.now = body
        self.loop_body(node, labels, after, test)

    def for_loop(self, node: Node, labels: tuple[str, ...]) -> None:
        self.statement(node.field("initializer"))
        body, test, after, step = self.new(), self.new(), self.new(), self.new()
        self.link(self.now, body if rounds_of(self.analysis, node) else test)
        self.now = test
        condition = node.field("condition")
        if condition is None or condition.kind == "empty_statement":
            self.link(test, body)
        else:
            self.condition(condition, body, after)
        self.now = step
        self.expression(node.field("increment"))
        self.link(self.now, test)
        self.now = body
        self.loop_body(node, labels, after, step)

    def for_each(self, node: Node, labels: tuple[str, ...]) -> None:
        self.expression(node.field("right"))
        body, test, after = self.new(), self.new(), self.new()
        self.risk()
        self.link(self.now, body if rounds_of(self.analysis, node) else test)
        self.link(test, body)
        self.link(test, after)
        self.now = body
        self.expression(node.field("left"))
        self.loop_body(node, labels, after, test)

    def switch(self, node: Node, labels: tuple[str, ...]) -> None:
        self.expression(node.field("value"))
        after = self.new()
        self.frames.append(_Frame((*labels, ""), after))
        body = node.field("body")
        cases = body.children if body is not None else []
        test, through, fallback = self.now, self.new(), False
        for case in cases:
            self.now = test
            self.expression(case.field("value"))
            test = self.now
            self.now = self.new(test, through)
            fallback = fallback or case.kind == "switch_default"
            self.statements(child for child in case.children if child is not case.field("value"))
            through = self.now
        self.frames.pop()
        self.link(through, after)
        if not fallback:
            self.link(test, after)
        self.now = after

    def attempt(self, node: Node) -> None:
        handler, finalizer = node.field("handler"), node.field("finalizer")
        final = finalizer.field("body") if finalizer is not None else None
        raised, caught = self.new(), self.new()
        if final is not None:
            self.frames.append(_Frame(final=final, handlers=len(self.handlers)))
            self.handlers.append(raised)
        if handler is not None:
            self.handlers.append(caught)
        self.risk()
        self.statement(node.field("body"))
        ends = [self.now]
        if handler is not None:
            self.handlers.pop()
            self.now = caught
            self.risk()
            self.expression(handler.field("parameter"))
            self.statement(handler.field("body"))
            ends.append(self.now)
        if final is not None:
            self.frames.pop()
            self.handlers.pop()
            self.now = raised
            self.statement(final)
            if self.handlers:
                self.link(self.now, self.handlers[-1])
        self.now = self.new(*ends)
        self.statement(final)

    def labeled(self, node: Node, labels: tuple[str, ...]) -> None:
        name = node.field("label")
        label = self.analysis.text(name) if name is not None else "?"
        after = self.new()
        self.frames.append(_Frame((label,), after))
        self.labels = (*labels, label)
        self.statement(node.field("body"))
        self.labels = ()
        self.frames.pop()
        self.link(self.now, after)
        self.now = after

    def leave(self, node: Node) -> None:
        name = node.field("label")
        label = self.analysis.text(name) if name is not None else ""
        for index in range(len(self.frames) - 1, -1, -1):
            frame = self.frames[index]
            target = frame.breaks if node.kind == "break_statement" else frame.next
            if label in frame.labels and target is not None:
                self.jump(target, index)
                return
        self.now = self.new()

    # -- expressions

    def expressions(self, node: Node) -> None:
        for child in node.children:
            self.expression(child)

    def expression(self, node: Node | None) -> None:
        if node is None:
            return
        kind = node.kind
        if kind in FUNCTIONS:
            if self.analysis.binding_of_function(node) is None:
                self.event("use", node, node)
        elif kind in ("identifier", "shorthand_property_identifier"):
            function = self.analysis.function_named(node)
            if function is not None:
                self.event("use", node, function)
        elif kind == "call_expression":
            self.call(node)
        elif kind in ("await_expression", "new_expression", "yield_expression"):
            self.expressions(node)
            self.risk()
        elif kind == "ternary_expression":
            self.choose(node)
        elif kind in ("binary_expression", "augmented_assignment_expression"):
            self.operation(node)
        elif kind == "class_static_block":
            self.statement(node.field("body"))
        else:
            self.expressions(node)

    def call(self, node: Node) -> None:
        function = self.analysis.callee(node)
        if function is None:
            self.expression(node.field("function"))
        self.expression(node.field("arguments"))
        if node in self.analysis.call_of:
            self.event("call", node)
        elif function is not None:
            self.event("run", node, function)
        else:
            self.risk()

    def operation(self, node: Node) -> None:
        left, right = node.field("left"), node.field("right")
        sign = node.fields["operator"].kind if "operator" in node.fields else ""
        self.expression(left)
        if sign.removesuffix("=") in _SHORT_CIRCUITS:
            before = self.now
            self.now = self.new(before)
            self.expression(right)
            self.now = self.new(before, self.now)
        else:
            self.expression(right)

    def condition(self, node: Node | None, yes: Block, no: Block) -> None:
        """Evaluate ``node`` and go to ``yes`` or ``no``; constants decide."""
        node = unwrapped(node)
        if node is None:
            self.link(self.now, yes)
            self.link(self.now, no)
            return
        sign = node.fields["operator"].kind if "operator" in node.fields else ""
        if node.kind == "unary_expression" and sign == "!":
            self.condition(node.field("argument"), no, yes)
            return
        if node.kind == "binary_expression" and sign in ("&&", "||"):
            middle = self.new()
            self.condition(node.field("left"), *((middle, no) if sign == "&&" else (yes, middle)))
            self.now = middle
            self.condition(node.field("right"), yes, no)
            return
        self.expression(node)
        if node.kind in ("true", "false", "null", "number"):
            truth = node.kind == "true" or (
                node.kind == "number" and bool(self.analysis.constants.value(node))
            )
            self.link(self.now, yes if truth else no)
            return
        self.link(self.now, yes)
        self.link(self.now, no)
