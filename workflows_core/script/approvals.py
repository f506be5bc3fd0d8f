"""Which versions are approved where: a must-analysis over the control flow.

A version counts as approved at a place when every path to it passes a humanCheckpoint for the step that made
the version. Functions are followed: what holds at every use of a function holds at its start, and what holds at
its end holds after its call.
"""

from __future__ import annotations

from .analysis import Analysis, Call
from .flow import Flow
from .graph import Block, Graph
from .tree import Node, unwrapped

#: Stands for a checkpoint whose step is not known before the run: it may approve anything.
ANY = "*"
State = frozenset[str]
_NONE: State = frozenset()
_ALL: State = frozenset({ANY})


class Versions:
    """Where values come from: the literal step whose version an expression is, followed through names."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._busy: set[Node] = set()

    def step_of(self, node: Node | None) -> str | None:
        """The stepId of the one step whose artifactVersion ``node`` is; None where that is not certain."""
        node = unwrapped(node)
        if node is None or node in self._busy:
            return None
        self._busy.add(node)
        try:
            return self._step_of(node)
        finally:
            self._busy.discard(node)

    def _step_of(self, node: Node) -> str | None:
        analysis = self._analysis
        if node.kind == "member_expression":
            name = node.field("property")
            if name is None or analysis.text(name) != "artifactVersion":
                return None
            return self._step(self.result_of(node.field("object")))
        if node.kind not in ("identifier", "shorthand_property_identifier"):
            return None
        binding = analysis.scopes.binding(node)
        if binding is None:
            return None
        if binding.value is not None:
            return self.step_of(binding.value)
        pattern, key = _property_pattern(analysis, binding.node)
        if pattern is None or key != "artifactVersion" or binding.writes:
            return None
        return self._step(self._result_of_pattern(pattern))

    def _step(self, call: Call | None) -> str | None:
        if call is None or call.api.step not in ("agent", "capture"):
            return None
        return self._analysis.step_id(call)

    def result_of(self, node: Node | None) -> Call | None:
        """The one API call whose awaited result ``node`` is."""
        node = unwrapped(node)
        if node is None or node in self._busy:
            return None
        self._busy.add(node)
        try:
            return self._result_of(node)
        finally:
            self._busy.discard(node)

    def _result_of(self, node: Node) -> Call | None:
        analysis = self._analysis
        if node.kind == "await_expression":
            inner = unwrapped(node.children[0] if node.children else None)
            return analysis.call_of.get(inner) if inner is not None else None
        if node.kind == "subscript_expression":
            index = analysis.constants.value(node.field("index"))
            return self._element(node.field("object"), index) if type(index) is int else None
        if node.kind != "identifier":
            return None
        binding = analysis.scopes.binding(node)
        if binding is None:
            return None
        if binding.value is not None:
            return self.result_of(binding.value)
        return None if binding.writes else self._result_of_pattern(binding.node)

    def _result_of_pattern(self, pattern: Node) -> Call | None:
        """The call whose result a whole pattern, or a name inside an array pattern, takes apart."""
        parent = pattern.parent
        if parent is None:
            return None
        if parent.kind == "variable_declarator":
            return self.result_of(parent.field("value")) if pattern.kind == "object_pattern" else None
        if parent.kind == "array_pattern":
            above = parent.parent
            if above is None or above.kind != "variable_declarator":
                return None
            return self._element(above.field("value"), parent.element_index(pattern))
        return None

    def _element(self, node: Node | None, index: int) -> Call | None:
        """The call whose result is element ``index`` of an awaited parallel() or Promise.all()."""
        analysis = self._analysis
        node = unwrapped(node)
        if node is not None and node.kind == "identifier":
            binding = analysis.scopes.binding(node)
            node = binding.value if binding is not None else None
        if node is None or node.kind != "await_expression" or not node.children:
            return None
        call = unwrapped(node.children[0])
        arguments = call.field("arguments") if call is not None else None
        if call is None or arguments is None or not arguments.children:
            return None
        items = unwrapped(arguments.children[0])
        if items is None or items.kind != "array" or index >= len(items.children) or index < 0:
            return None
        if items.has_holes() or any(child.kind == "spread_element" for child in items.children):
            return None
        item = unwrapped(items.children[index])
        if item is None:
            return None
        api = analysis.call_of.get(call)
        if api is not None and api.name == "parallel":
            item = _returned(item)
        if item is not None and item.kind == "await_expression" and item.children:
            item = unwrapped(item.children[0])
        return analysis.call_of.get(item) if item is not None else None


def _returned(function: Node) -> Node | None:
    """What a function of one expression, or of one return statement, returns."""
    body = unwrapped(function.field("body"))
    if body is None or function.kind not in ("arrow_function", "function_expression"):
        return None
    if body.kind != "statement_block":
        return body
    if len(body.children) == 1 and body.children[0].kind == "return_statement" and body.children[0].children:
        return unwrapped(body.children[0].children[0])
    return None


def _property_pattern(analysis: Analysis, name: Node) -> tuple[Node | None, str]:
    """The object pattern that binds ``name`` directly, and the property it takes."""
    parent = name.parent
    if parent is None:
        return None, ""
    if parent.kind == "object_pattern":
        return parent, analysis.text(name)
    if parent.kind == "pair_pattern" and parent.parent is not None and parent.parent.kind == "object_pattern":
        return parent.parent, analysis.constants.key(parent.field("key")) or ""
    return None, ""


class Approvals:
    """The approved steps at every API call that a run can reach."""

    def __init__(self, analysis: Analysis, flow: Flow) -> None:
        self._analysis = analysis
        self._flow = flow
        self.versions = Versions(analysis)
        self._approves: dict[Node, State] = {}
        for call in analysis.calls:
            if call.name == "humanCheckpoint":
                self._approves[call.node] = self._approved_by(call)
        self._gives: dict[Node, State] = {}
        self._at_call: dict[Node, State] = {}
        if self._approves:
            self._summaries()
        self._solve()

    def approved(self, call: Call, step: str) -> bool:
        """Whether every path to ``call`` approves ``step``; True for a call that no run reaches."""
        state = self._at_call.get(call.node, _ALL)
        return step in state or ANY in state

    def _approved_by(self, call: Call) -> State:
        named = self._analysis.step_id_property(call, "sourceStepId")
        origin = self.versions.step_of(call.properties.get("artifactVersion"))
        known = frozenset(step for step in (named, origin) if step is not None)
        return known or _ALL

    def _summaries(self) -> None:
        """What each function has approved by its normal end, whatever held at its start."""
        graphs = [graph for graph in self._flow.graphs.values() if graph.function is not None]
        for graph in graphs:
            assert graph.function is not None
            self._gives[graph.function] = _ALL
        changed = True
        while changed:
            changed = False
            for graph in graphs:
                assert graph.function is not None
                end = self._run(graph, _NONE, None)
                if end != self._gives[graph.function]:
                    self._gives[graph.function] = end
                    changed = True

    def _solve(self) -> None:
        entries: dict[Node, State] = {}
        done: dict[Node | None, State] = {}
        changed = True
        while changed:
            changed = False
            for function, graph in self._flow.graphs.items():
                start = _NONE if function is None else entries.get(function)
                if start is None or done.get(function) == start:
                    continue
                done[function] = start
                changed = True
                self._run(graph, start, entries)

    def _run(self, graph: Graph, start: State, entries: dict[Node, State] | None) -> State:
        """Push states through one graph until nothing changes; returns the state at its normal end.

        With ``entries`` the states at uses of functions and at API calls are noted.
        """
        before: dict[Block, State] = {graph.entry: start}
        waiting = [graph.entry]
        while waiting:
            block = waiting.pop()
            into = before[block]
            state = into
            for kind, node, function in block.events:
                if entries is not None:
                    if kind == "call":
                        self._at_call[node] = _meet(self._at_call.get(node, _ALL), state)
                    elif function is not None:
                        known = entries.get(function)
                        entries[function] = state if known is None else _meet(known, state)
                if kind == "call":
                    state = state | self._approves.get(node, _NONE)
                elif kind == "run" and function is not None:
                    state = state | self._gives.get(function, _NONE)
            for after, value in (*((b, state) for b in block.succ), *((b, into) for b in block.fail)):
                known = before.get(after)
                merged = value if known is None else _meet(known, value)
                if merged != known:
                    before[after] = merged
                    waiting.append(after)
        return before.get(graph.end, _ALL)


def _meet(one: State, other: State) -> State:
    if ANY in one:
        return other
    if ANY in other:
        return one
    return one & other
