"""Rules about promises of the script API that are dropped, or read before they are awaited."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ..analysis import Analysis
from ..problem import Fix
from ..scope import Binding
from ..tree import FUNCTIONS, Node, enclosing_function, unwrapped

_CHAINS = frozenset({"then", "catch", "finally"})
#: Functions of Promise that wait for a list.
COMBINATORS = frozenset({"all", "allSettled", "race", "any"})
#: Functions of Promise whose own value may be a rejection that nobody hears of.
_REJECTING = COMBINATORS | {"reject"}
_LISTS = frozenset({"map", "flatMap", "from", "fromAsync"})
_IGNORING = frozenset(
    {"forEach", "filter", "some", "every", "find", "findIndex", "findLast", "findLastIndex"}
)
_CHOICES = frozenset({"&&", "||", "??"})
_NOT_USES = frozenset({"push", "unshift", "length"})


class _Sink(NamedTuple):
    """Where a promise ends up: ``dropped`` in words, or None; ``whole`` is the outermost expression of it."""

    dropped: str | None
    whole: Node
    listed: bool
    fixable: bool = True


def check_promises(analysis: Analysis) -> None:
    _Promises(analysis).check()


class _Promises:
    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self._gives: dict[Node, bool] = {}
        self._asks: dict[Node, bool] = {}
        self._seen: set[Node] = set()

    def check(self) -> None:
        for node in self.analysis.nodes:
            if node.kind != "call_expression" or node.in_error:
                continue
            name = self.starter(node)
            if name is not None:
                self.follow(node, name, listed=False)
                continue
            self.each(node)
            other = self.rejecter(node)
            if other is not None:
                self.follow_rejection(node, other)

    # -- what starts calls

    def starter(self, node: Node) -> str | None:
        """What to call a call expression whose value is a promise of started work; None for any other."""
        call = self.analysis.call_of.get(node)
        if call is not None:
            return f"{call.name}()" if call.api.promise else None
        function = self.analysis.callee(node)
        if function is None or not self.gives_promise(function) or not self.asks(function):
            return None
        return self.named(node)

    def rejecter(self, node: Node) -> str | None:
        """What to call a call expression without started work whose promise may reject; None for any other."""
        if self.of_promise(node, _REJECTING):
            return f"{self.analysis.text(node.fields['function'])}()"
        function = self.analysis.callee(node)
        if function is None or "async" not in function.tokens or not self.gives_promise(function):
            return None
        return self.named(node)

    def named(self, node: Node) -> str:
        called = unwrapped(node.field("function"))
        if called is not None and called.kind == "identifier":
            return f"{self.analysis.text(called)}()"
        return "this call"

    def gives_promise(self, function: Node) -> bool:
        """Whether calling ``function`` gives a promise: it is async, or returns a started call."""
        if function not in self._gives:
            self._gives[function] = False
            self._gives[function] = self._returns_promise(function)
        return self._gives[function]

    def _returns_promise(self, function: Node) -> bool:
        if "async" in function.tokens:
            return "*" not in function.tokens and not function.kind.startswith("generator")
        if "*" in function.tokens or function.kind.startswith("generator"):
            return False
        body = unwrapped(function.field("body"))
        if body is None:
            return False
        if body.kind != "statement_block":
            return body.kind == "call_expression" and self.starter(body) is not None
        for node in body.walk():
            if node.kind == "return_statement" and node.children and enclosing_function(node) is function:
                value = unwrapped(node.children[0])
                if value is not None and value.kind == "call_expression" and self.starter(value) is not None:
                    return True
        return False

    def asks(self, function: Node) -> bool:
        """Whether ``function`` makes calls of the script API, itself or through functions that it calls."""
        if function not in self._asks:
            self._asks[function] = False
            for node in function.walk():
                if node.kind != "call_expression":
                    continue
                call = self.analysis.call_of.get(node)
                inner = self.analysis.callee(node)
                if (call is not None and call.api.promise) or (inner is not None and self.asks(inner)):
                    self._asks[function] = True
                    break
        return self._asks[function]

    def each(self, node: Node) -> None:
        """An array method whose function starts calls: map gives a list of promises, forEach drops them."""
        arguments, called = node.field("arguments"), unwrapped(node.field("function"))
        if arguments is None or called is None or called.kind != "member_expression":
            return
        method = called.field("property")
        name = self.analysis.text(method) if method is not None else ""
        for index, argument in enumerate(arguments.children):
            function = argument if argument.kind in FUNCTIONS else self.analysis.function_named(argument)
            if function is None or not self.gives_promise(function) or not self.asks(function):
                continue
            if name in _IGNORING and index == 0:
                message = (
                    f"{name}() does not wait for the calls that its function starts; use a for…of loop, or "
                    "await parallel() with a list of functions"
                )
                self.analysis.report("dropped-promise", node, message, severity="warning")
            elif name in _LISTS:
                self.follow(node, f"{name}()", listed=True)

    # -- where a promise goes

    def follow(self, node: Node, name: str, *, listed: bool) -> None:
        if not listed and self.misread(node, name):
            return
        sink = self.sink(node, listed)
        if sink.dropped is None or sink.whole in self._seen:
            return
        self._seen.add(sink.whole)
        fix = self.fix(sink)
        what = f"{name} starts calls" if sink.listed and listed else f"{name} is started"
        self.analysis.report(
            "dropped-promise", sink.whole, f"{what} here and {sink.dropped}", severity="warning", fix=fix
        )

    def follow_rejection(self, node: Node, name: str) -> None:
        """A promise that starts no call: what is lost with it is its rejection. ``void`` says that it may be."""
        sink = self.sink(node, False)
        if sink.dropped is None or sink.whole in self._seen or self.heard(node, sink.whole):
            return
        self._seen.add(sink.whole)
        message = f"{name} is called here and {sink.dropped}, or nobody hears of its rejection"
        self.analysis.report("dropped-promise", sink.whole, message, severity="warning", fix=self.fix(sink))

    def heard(self, node: Node, whole: Node) -> bool:
        """Whether a promise is given a handler of rejections on its way up to ``whole``, or is marked with void."""
        above = whole.parent
        if above is not None and above.kind == "unary_expression":
            return True
        while node is not whole and node.parent is not None:
            node = node.parent
            called, given = node.field("function"), node.field("arguments")
            if node.kind != "call_expression" or called is None or called.kind != "member_expression":
                continue
            method = self.analysis.text(called.fields["property"])
            if method == "catch" or (method == "then" and given is not None and len(given.children) > 1):
                return True
        return False

    def fix(self, sink: _Sink) -> Fix | None:
        whole = sink.whole
        if not sink.fixable or not self.analysis.waits_inside(whole):
            return None
        if not sink.listed:
            return self.analysis.await_fix(whole)
        if whole.kind not in ("array", "call_expression"):
            return None
        above = whole.parent
        before = (
            "Promise.all(" if above is not None and above.kind == "await_expression" else "await Promise.all("
        )
        return self.analysis.fix(
            "Await all of them", (whole.start, whole.start, before), (whole.end, whole.end, ")")
        )

    def sink(self, node: Node, listed: bool) -> _Sink:
        """Climb from a promise to what becomes of it. Anything not understood counts as used."""
        analysis = self.analysis
        never = "never awaited; write await before it"
        while True:
            above = node.parent
            used = _Sink(None, node, listed)
            if above is None:
                return used
            kind = above.kind
            if kind in ("ternary_expression", "binary_expression", "sequence_expression"):
                return self.choice(node, above, listed)
            if kind == "parenthesized_expression":
                node = above
            elif kind == "member_expression" and above.field("object") is node:
                call = above.parent
                name = above.field("property")
                if call is None or name is None or call.field("function") is not above or listed:
                    return used
                if analysis.text(name) not in _CHAINS:
                    return used
                node = call
            elif kind == "array":
                node, listed = above, True
            elif kind == "arguments":
                call = above.parent
                if call is None or call.kind != "call_expression":
                    return used
                if not (listed and self.of_promise(call, COMBINATORS)):
                    return self.argument(node, call, listed)
                node, listed = call, False
            elif kind == "await_expression":
                if not listed:
                    return used
                return _Sink("await does not wait for a list; use Promise.all() or parallel()", node, True)
            elif kind == "expression_statement":
                return _Sink(never, node, listed)
            elif kind == "unary_expression":
                operator = above.field("operator")
                return (
                    _Sink(never, node, listed) if operator is not None and operator.kind == "void" else used
                )
            elif kind == "variable_declarator" or (
                kind == "assignment_expression" and above.field("right") is node
            ):
                return self.kept(node, above, listed)
            elif kind == "arrow_function" and above.field("body") is node:
                return used
            else:
                return used

    def choice(self, node: Node, above: Node, listed: bool) -> _Sink:
        """One of several values of an expression: what becomes of the whole becomes of it, if it is the value."""
        kind = above.kind
        used = _Sink(None, node, listed)
        if kind == "sequence_expression" and above.children[-1] is not node:
            return _Sink("never awaited; write await before it", node, listed)
        if kind == "ternary_expression" and above.field("condition") is node:
            return used
        if kind == "binary_expression" and above.fields["operator"].kind not in _CHOICES:
            return used
        whole = self.sink(above, listed)
        return whole._replace(whole=node) if whole.dropped is not None else used

    def of_promise(self, call: Node, names: Collection[str]) -> bool:
        """Whether a call is one of these functions of Promise."""
        called = unwrapped(call.field("function"))
        if called is None or called.kind != "member_expression":
            return False
        name = called.field("property")
        return (
            name is not None
            and self.analysis.text(name) in names
            and self.analysis.scopes.is_global(called.field("object"), "Promise")
        )

    def argument(self, node: Node, call: Node, listed: bool) -> _Sink:
        """list.push(promise), where nothing ever looks at the list."""
        called = unwrapped(call.field("function"))
        if called is not None and called.kind == "member_expression":
            owner, name = called.field("object"), called.field("property")
            binding = self.analysis.scopes.binding(owner) if owner is not None else None
            if binding is not None and name is not None and self.analysis.text(name) in ("push", "unshift"):
                return self.collected(binding, node)._replace(fixable=False)
        return _Sink(None, node, listed)

    def collected(self, binding: Binding, node: Node) -> _Sink:
        if binding.kind == "param" or any(self.uses(read) for read in binding.reads):
            awaited = [read for read in binding.reads if self.uses(read)]
            plain = binding.kind != "param" and all(_awaited_whole(read) for read in awaited)
            if not plain:
                return _Sink(None, node, False)
            return _Sink(
                f"await does not wait for the list {binding.name}; use await Promise.all({binding.name})",
                node,
                True,
            )
        return _Sink(
            f"the list {binding.name} is never awaited; use await Promise.all({binding.name})", node, True
        )

    def uses(self, read: Node) -> bool:
        """Whether a use of a list may wait for what is in it."""
        above = read.parent
        if above is None or above.kind != "member_expression" or above.field("object") is not read:
            return True
        name = above.field("property")
        return name is None or self.analysis.text(name) not in _NOT_USES

    def kept(self, node: Node, site: Node, listed: bool) -> _Sink:
        """A promise, or a list of promises, that a name is bound to."""
        name = site.field("name") or site.field("left")
        binding = self.analysis.scopes.binding(name) if name is not None else None
        if binding is None or binding.scope.function.node is not (
            enclosing_function(site) or self.analysis.root
        ):
            return _Sink(None, node, listed)
        if not binding.reads:
            return _Sink(f"{binding.name} is never awaited; write await before it", node, listed)
        if listed:
            sink = self.collected(binding, node)
            return sink._replace(listed=True) if sink.dropped is not None else sink
        return _Sink(None, node, listed)

    # -- properties that only the result has

    def misread(self, node: Node, name: str) -> bool:
        """Report reads of a promise as if it were its result; True where that explains everything."""
        above = node.parent
        while above is not None and above.kind == "parenthesized_expression":
            node, above = above, above.parent
        if above is None:
            return False
        if self.takes_apart(above, node):
            changes = ((node.start, node.start, "(await "), (node.end, node.end, ")"))
            fix = self.analysis.fix("Await it first", *changes) if self.analysis.waits_inside(node) else None
            self.report_misread(node, name, fix)
            return True
        if above.kind == "for_in_statement" and above.field("right") is node:
            if "await" in above.tokens:
                return False
            self.report_misread(node, name, self.analysis.await_fix(node))
            return True
        if above.kind != "variable_declarator":
            return False
        target = above.field("name")
        if target is not None and target.kind in ("object_pattern", "array_pattern"):
            self.report_misread(node, name, self.analysis.await_fix(node))
            return True
        binding = self.analysis.scopes.binding(target) if target is not None else None
        if binding is None or binding.writes or not binding.reads:
            return False
        wrong = [
            read for read in binding.reads if read.parent is not None and self.takes_apart(read.parent, read)
        ]
        if len(wrong) == len(binding.reads):
            self.report_misread(node, name, self.analysis.await_fix(node))
            return True
        for read in wrong:
            changes = ((read.start, read.start, "(await "), (read.end, read.end, ")"))
            fix = self.analysis.fix("Await it first", *changes) if self.analysis.waits_inside(read) else None
            self.report_misread(read, name, fix)
        return False

    def takes_apart(self, above: Node, node: Node) -> bool:
        """Whether ``above`` reads something from ``node`` that a promise does not have."""
        if above.field("object") is not node:
            return False
        if above.kind == "subscript_expression":
            return True
        name = above.field("property")
        return (
            above.kind == "member_expression"
            and name is not None
            and self.analysis.text(name) not in (*_CHAINS, "constructor")
        )

    def report_misread(self, node: Node, name: str, fix: Fix | None) -> None:
        message = f"{name} gives a promise, and this reads its result; write await first"
        self.analysis.report("missing-await", node, message, severity="warning", fix=fix)


def _awaited_whole(read: Node) -> bool:
    return read.parent is not None and read.parent.kind == "await_expression"
