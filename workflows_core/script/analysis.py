"""One script, read once: its nodes, names, constants and calls of the script API. The rules share it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .api import API, ApiFunction
from .constant import UNKNOWN, Constants
from .problem import Fix, Problem, Severity, make_fix
from .scope import Binding, Scopes
from .source import parse
from .tree import FUNCTIONS, LOOPS, Node, build, enclosing_function, unwrapped

#: Methods of arrays that call their first argument once for each element.
EACH_METHODS = frozenset(
    """map forEach flatMap filter some every find findIndex findLast findLastIndex reduce reduceRight sort
    toSorted""".split()  # noqa: SIM905 - a table of names reads better as text
)


class Call:
    """One call of the script API. ``properties`` are those written out in its object argument."""

    __slots__ = ("api", "argument", "keys", "node", "open", "properties")

    def __init__(self, node: Node, api: ApiFunction, constants: Constants) -> None:
        self.node = node
        self.api = api
        arguments = node.field("arguments")
        given = arguments.children if arguments is not None and arguments.kind == "arguments" else []
        self.argument = unwrapped(given[0]) if given else None
        self.properties: dict[str, Node] = {}
        self.keys: dict[str, Node] = {}
        #: Whether it may have properties that are not written out (a spread, a computed name, a variable).
        self.open = self.argument is not None and self.argument.kind != "object"
        for child in self.argument.children if self.argument is not None and not self.open else ():
            name, value = _property(child, constants)
            if name is None:
                self.open = True
            else:
                self.properties[name] = value
                self.keys[name] = child.field("key") or child.field("name") or child

    @property
    def name(self) -> str:
        return self.api.name


def _property(child: Node, constants: Constants) -> tuple[str | None, Node]:
    if child.kind == "pair":
        value = child.field("value")
        return constants.key(child.field("key")), value if value is not None else child
    if child.kind == "shorthand_property_identifier":
        return constants.source(child), child
    if child.kind == "method_definition":
        return constants.key(child.field("name")), child
    return None, child


class Analysis:
    """The facts about one script that every rule needs; computed once, never changed by a rule."""

    def __init__(self, script: str, args: Any = UNKNOWN) -> None:
        self.source = parse(script)
        self.root = build(self.source)
        self.nodes = list(self.root.walk())
        data = self.source.data
        self.scopes = Scopes(self.root, data)
        self.constants = Constants(self.scopes, data, args)
        self.calls: list[Call] = []
        self.call_of: dict[Node, Call] = {}
        self.functions = [node for node in self.nodes if node.kind in FUNCTIONS]
        self.problems: list[Problem] = []
        for node in self.nodes:
            if node.kind == "call_expression" and not node.in_error:
                called = unwrapped(node.field("function"))
                if called is not None and called.kind == "identifier":
                    api = API.get(self.text(called))
                    if api is not None and self.scopes.is_global(called, api.name):
                        call = Call(node, api, self.constants)
                        self.calls.append(call)
                        self.call_of[node] = call

    # -- reading

    def text(self, node: Node) -> str:
        return self.source.text(max(node.start, 0), max(node.end, 0))

    def line(self, node: Node) -> int:
        return self.source.position(node.start)[0]

    def step_id(self, call: Call) -> str | None:
        """The literal stepId of ``call``, where it has one."""
        return self.step_id_property(call, "stepId")

    def step_id_property(self, call: Call, name: str) -> str | None:
        """The literal text of a property of ``call`` that names a step."""
        return self.constants.text(call.properties.get(name))

    def callee(self, node: Node) -> Node | None:
        """The function of the script that a call expression calls, where that is certain."""
        called = unwrapped(node.field("function"))
        if called is None:
            return None
        if called.kind in FUNCTIONS:
            return called
        return self.function_named(called)

    def function_named(self, node: Node) -> Node | None:
        """The function of the script that a name always means, where the name is read."""
        binding = self.scopes.read(node)
        return binding.function if binding is not None else None

    def binding_of_function(self, function: Node) -> Binding | None:
        """The name that always means ``function``, where it has one."""
        if function.kind in ("function_declaration", "generator_function_declaration"):
            name = function.field("name")
            binding = self.scopes.binding(name) if name is not None else None
        else:
            parent = function.parent
            while parent is not None and parent.kind == "parenthesized_expression":
                parent = parent.parent
            if parent is None or parent.kind not in ("variable_declarator", "assignment_expression"):
                return None
            name = parent.field("name") or parent.field("left")
            binding = self.scopes.binding(name) if name is not None else None
        return binding if binding is not None and binding.function is function else None

    def rounds(self, node: Node) -> Iterator[Node]:
        """The loops around ``node``, innermost first: loop statements, and functions that an array method calls
        once for each element. A loop's head counts as inside only where it runs in every round."""
        below = node
        for above in node.ancestors():
            if above.kind in LOOPS and below is not above.field("initializer"):
                if above.kind != "for_in_statement" or below is not above.field("right"):
                    yield above
            elif above.kind in FUNCTIONS and self.each_call(above) is not None:
                yield above
            below = above

    def each_call(self, function: Node) -> Node | None:
        """The call of an array method, or of Array.from, that calls ``function`` for each element."""
        arguments = function.parent
        if arguments is None or arguments.kind != "arguments" or arguments.parent is None:
            return None
        call = arguments.parent
        called = unwrapped(call.field("function"))
        if called is None or called.kind != "member_expression":
            return None
        method = called.field("property")
        if method is None:
            return None
        name = self.text(method)
        if name in EACH_METHODS and arguments.children[0] is function:
            return call
        owner = called.field("object")
        if (
            name in ("from", "fromAsync")
            and len(arguments.children) > 1
            and arguments.children[1] is function
        ):
            return call if self.scopes.is_global(owner, "Array") else None
        return None

    def is_async(self, function: Node | None) -> bool:
        """Whether ``await`` may be used directly in ``function`` (None: the script's own body)."""
        return function is None or "async" in function.tokens

    def waits_inside(self, node: Node) -> bool:
        return self.is_async(enclosing_function(node))

    # -- reporting

    def report(
        self, rule: str, at: Node | int, message: str, *, severity: Severity = "error", fix: Fix | None = None
    ) -> None:
        line, column = self.source.position(at if isinstance(at, int) else at.start)
        self.problems.append(Problem(rule, severity, line, column, message, fix))

    def fix(self, title: str, *changes: tuple[int, int, str]) -> Fix:
        return make_fix(self.source, title, changes)

    def await_fix(self, node: Node) -> Fix | None:
        """Write ``await`` before ``node``, where the function around it may await."""
        if not self.waits_inside(node):
            return None
        return self.fix("Await it", (node.start, node.start, "await "))
