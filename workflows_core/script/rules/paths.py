"""Rules about paths: what is never reached, what waits beside other calls, what is approved before its use."""

from __future__ import annotations

from collections.abc import Iterator

from ..analysis import Analysis, Call
from ..api import WAITS
from ..approvals import Approvals
from ..counting import Counter
from ..flow import Flow
from ..graph import Graph, closure
from ..problem import Fix
from ..scope import Binding
from ..tree import FUNCTIONS, Node, enclosing_function, statement_of, unwrapped
from .calls import quoted, shown
from .promises import COMBINATORS
from .steps import unused

_LEAVING = {
    "return_statement": "return",
    "throw_statement": "throw",
    "break_statement": "break",
    "continue_statement": "continue",
}
#: Statements that do nothing by themselves, or that are often written after a return out of habit.
_HARMLESS = frozenset(
    {"function_declaration", "generator_function_declaration", "empty_statement", "break_statement"}
)


def check_paths(analysis: Analysis, flow: Flow, max_calls: int) -> None:
    checkpoints = _unreachable_waits(analysis, flow)
    for function in flow.live:
        _unreachable_code(analysis, flow.graphs[function], checkpoints)
    _last_pauses(analysis, flow)
    _too_many(analysis, flow, max_calls)


# -- never reached


def _unreachable_waits(analysis: Analysis, flow: Flow) -> set[Node]:
    """Report waits that no path reaches; returns the statements that hold one."""
    holders: set[Node] = set()
    for call in analysis.calls:
        if call.name not in WAITS:
            continue
        function = enclosing_function(call.node)
        if flow.reaches(call.node, function):
            continue
        why = "no path reaches it"
        if function is not None and function not in flow.live:
            binding = analysis.binding_of_function(function)
            why = f"nothing calls {binding.name}()" if binding is not None else "nothing calls this function"
        else:
            holder = _holder(call.node)
            holders.add(holder)
            why = _cause(analysis, holder) or why
        analysis.report(
            "unreachable-checkpoint", call.node, f"this {call.name}() never waits: {why}", severity="warning"
        )
    return holders


def _holder(node: Node) -> Node:
    """The innermost statement that ``node`` belongs to."""
    while node.parent is not None and not node.kind.endswith(("_statement", "_declaration")):
        node = node.parent
    return node


def _unreachable_code(analysis: Analysis, graph: Graph, reported: set[Node]) -> None:
    dead = {
        node
        for node in graph.at
        if node.kind != "call_expression" and not graph.reaches(node) and not _harmless(node)
    }
    for node in dead:
        if node.parent in dead or any(other in dead for other in _before(node)):
            continue
        if node.parent is not None and node.parent.kind == "else_clause" and node.parent.parent in dead:
            continue
        first = node
        while first.kind in ("statement_block", "else_clause") and first.children:
            first = first.children[0]
        if first in reported or _harmless(first) or first.kind in ("statement_block", "else_clause"):
            continue
        why = _cause(analysis, first) or "no path leads here"
        analysis.report("unreachable-code", first, f"this never runs: {why}", severity="warning")


def _harmless(node: Node) -> bool:
    if node.kind == "variable_declaration":
        return all(child.field("value") is None for child in node.children)
    return node.kind in _HARMLESS


def _before(node: Node) -> Iterator[Node]:
    """Statements before ``node`` in the same list, the nearest first."""
    siblings = node.parent.children if node.parent is not None else []
    index = next((i for i, sibling in enumerate(siblings) if sibling is node), 0)
    yield from reversed(siblings[:index])


def _cause(analysis: Analysis, node: Node) -> str | None:
    """Why a statement is not reached, where the statement before it says so."""
    for before in _before(node):
        word = _LEAVING.get(before.kind)
        if word is not None:
            return f"the {word} at line {analysis.line(before)} comes before it"
        if before.kind in ("while_statement", "for_statement", "do_statement"):
            return f"the loop at line {analysis.line(before)} never ends"
        if before.kind in ("if_statement", "switch_statement", "try_statement", "statement_block"):
            return f"every path leaves at line {analysis.line(before)}"
    return None


# -- pauses and limits


def _last_pauses(analysis: Analysis, flow: Flow) -> None:
    if not any(call.name == "agent" for call in analysis.calls):
        return
    graph = flow.graphs[None]
    for call in analysis.calls:
        if call.name != "pause" or enclosing_function(call.node) is not None or not graph.reaches(call.node):
            continue
        after = closure(b for block in graph.at[call.node] for b in block.succ)
        if any(_continues(analysis, node, function) for block in after for _, node, function in block.events):
            continue
        above = call.node.parent
        if above is None or above.kind not in (
            "await_expression",
            "expression_statement",
            "return_statement",
        ):
            continue
        at = above if above.kind == "await_expression" else call.node
        analysis.report(
            "last-pause",
            at,
            "pause() after the last agent() call: resuming it starts nothing; move it up, or leave it out",
            severity="warning",
        )


def _continues(analysis: Analysis, node: Node, function: Node | None) -> bool:
    """Whether an event starts work that a pause before it would hold back."""
    if function is None:
        call = analysis.call_of.get(node)
        return call is not None and call.name not in ("pause", "log", "parallel")
    return any(call.name != "log" for call in analysis.calls if call.node.inside(function)) or any(
        analysis.callee(inner) is not None for inner in function.walk() if inner.kind == "call_expression"
    )


def _too_many(analysis: Analysis, flow: Flow, max_calls: int) -> None:
    agents = [call for call in analysis.calls if call.name == "agent"]
    if not agents:
        return
    total = Counter(analysis).total()
    if total <= max_calls:
        return
    at = agents[min(max_calls, len(agents) - 1)]
    analysis.report(
        "too-many-calls",
        at.node,
        f"this script can make {total} agent() calls and a run admits {max_calls}; ask for less, or raise max_calls",
        severity="warning",
    )


# -- waits beside other calls


def check_waits(analysis: Analysis) -> None:
    """humanCheckpoint() and pause() inside the functions of parallel(), or side by side in Promise.all()."""
    reported: set[Node] = set()
    for call in analysis.calls:
        if call.name != "parallel" or call.argument is None:
            continue
        for wait, through in _waits_within(analysis, call.argument):
            if wait.node in reported:
                continue
            reported.add(wait.node)
            via = f", through {through}()" if through else ""
            analysis.report(
                "wait-in-parallel",
                wait.node,
                f"{wait.name}() would run inside parallel() (line {analysis.line(call.node)}{via}) and must be "
                "awaited alone; move it before or after the parallel() call",
            )
    for call in analysis.calls:
        if call.name in WAITS and call.node not in reported and _side_by_side(analysis, call):
            message = (
                f"{call.name}() must be awaited alone, and other calls run beside it here; await it by itself"
            )
            analysis.report("wait-in-parallel", call.node, message)


def _waits_within(analysis: Analysis, argument: Node) -> Iterator[tuple[Call, str | None]]:
    """The waits in functions below ``argument``, and in functions these call; with the name that led there."""
    waits = [call for call in analysis.calls if call.name in WAITS]
    if not waits:
        return
    pending: list[tuple[Node, str | None]] = [(argument, None)]
    seen: set[Node] = {argument}
    while pending:
        part, through = pending.pop()
        for wait in waits:
            function = enclosing_function(wait.node)
            inside = wait.node.inside(part) and function is not None and function.inside(part)
            if inside:
                yield wait, through
        for node in part.walk():
            if node.kind not in ("identifier", "shorthand_property_identifier"):
                continue
            binding = analysis.scopes.read(node)
            if binding is None:
                continue
            for next_part in _parts_of(analysis, binding):
                if next_part not in seen:
                    seen.add(next_part)
                    name = analysis.text(node) if next_part.kind in FUNCTIONS else through
                    pending.append((next_part, name))


def _parts_of(analysis: Analysis, binding: Binding) -> Iterator[Node]:
    """What a name stands for: its function, or the list it was given and what was pushed to it."""
    if binding.function is not None:
        yield binding.function
        return
    if binding.value is not None and binding.value.kind in ("array", "call_expression"):
        yield binding.value
    for read in binding.reads:
        member = read.parent
        call = member.parent if member is not None and member.kind == "member_expression" else None
        name = member.field("property") if member is not None else None
        if call is None or name is None or call.kind != "call_expression" or analysis.text(name) != "push":
            continue
        arguments = call.field("arguments")
        yield from arguments.children if arguments is not None else ()


def _side_by_side(analysis: Analysis, call: Call) -> bool:
    node = call.node
    items = node.parent
    if items is None or items.kind != "array" or len(items.children) < 2 or items.parent is None:
        return False
    combined = items.parent.parent
    called = unwrapped(combined.field("function")) if combined is not None else None
    name = called.field("property") if called is not None and called.kind == "member_expression" else None
    return (
        called is not None
        and name is not None
        and analysis.text(name) in COMBINATORS
        and analysis.scopes.is_global(called.field("object"), "Promise")
    )


# -- approved before use


def check_approvals(analysis: Analysis, approvals: Approvals) -> None:
    for call in analysis.calls:
        node = call.properties.get("artifacts") if call.name == "agent" else None
        for version in _elements(analysis, node):
            step = approvals.versions.step_of(version)
            if step is None or approvals.approved(call, step):
                continue
            analysis.report(
                "unapproved-artifact",
                version,
                f"the version of step {shown(step)} is not approved on every path to here; await humanCheckpoint() "
                "for it first",
                fix=_approval(analysis, call, version, step),
            )


def _elements(analysis: Analysis, node: Node | None) -> Iterator[Node]:
    """The versions in an artifacts list, followed through constant names and spreads."""
    pending = [node]
    seen: set[Node] = set()
    while pending:
        at = unwrapped(pending.pop())
        if at is None or at in seen:
            continue
        seen.add(at)
        if at.kind == "array":
            for child in at.children:
                if child.kind == "spread_element":
                    pending.extend(child.children)
                else:
                    yield child
        elif at.kind in ("identifier", "shorthand_property_identifier"):
            binding = analysis.scopes.binding(at)
            pending.append(binding.value if binding is not None else None)


def _approval(analysis: Analysis, call: Call, version: Node, step: str) -> Fix | None:
    """A checkpoint before the statement that uses the version, where one can stand there once."""
    node = unwrapped(version)
    if (
        node is None
        or enclosing_function(call.node) is not None
        or any(True for _ in analysis.rounds(call.node))
    ):
        return None
    if any(part.kind in ("await_expression", "call_expression") for part in node.walk()):
        return None
    statement = statement_of(call.node)
    known = {found: [other] for other in analysis.calls if (found := analysis.step_id(other)) is not None}
    source = analysis.source
    line_start = source.data.rfind(b"\n", 0, statement.start) + 1
    indent = source.text(line_start, statement.start)
    if indent.strip():
        indent = ""
    text = (
        f"await humanCheckpoint({{stepId: {quoted(unused(f'approve-{step}'[:80], known))}, sourceStepId: {quoted(step)}, "
        f"artifactVersion: {analysis.text(node)}}});\n{indent}"
    )
    return analysis.fix("Ask for approval first", (statement.start, statement.start, text))
