"""Rules about stepIds: valid, unique, and different in every round of a loop."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .. import api
from ..analysis import Analysis, Call
from ..approvals import Versions
from ..constant import UNKNOWN, unescaped
from ..counting import elements_of, rounds_of
from ..flow import Flow
from ..graph import closure
from ..problem import Fix
from ..scope import Binding
from ..tree import FUNCTIONS, LOOPS, Node, enclosing_function, unwrapped
from .calls import closest, literal, quoted, shown

_VALID = re.compile(r"[A-Za-z0-9_-]{1,80}")
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
_PURE_METHODS = frozenset(
    """toString toLowerCase toUpperCase trim trimStart trimEnd replace replaceAll slice substring padStart padEnd
    concat join charAt at normalize repeat toFixed split""".split()  # noqa: SIM905 - a table of names
)
_PURE_FUNCTIONS = frozenset({"String", "Number", "Boolean", "encodeURIComponent"})


def check_steps(analysis: Analysis, flow: Flow | None, versions: Versions) -> None:
    """All rules about stepIds; those about loops need ``flow``."""
    known: dict[str, list[Call]] = {}
    dynamic = False
    for call in analysis.calls:
        if call.api.step is None:
            continue
        step = analysis.step_id(call)
        if step is None:
            dynamic = True
        else:
            known.setdefault(step, []).append(call)
    for call in analysis.calls:
        for name in sorted(api.STEP_PROPERTIES & set(call.api.properties)):
            node = call.properties.get(name)
            if node is not None:
                _valid(analysis, call, name, node, known)
    for step, calls in known.items():
        for index in range(1, len(calls)):
            _duplicate(analysis, flow, step, calls, index, known)
    _sources(analysis, known, dynamic, versions)
    if flow is not None:
        for call in analysis.calls:
            if call.api.step is not None and "stepId" in call.properties:
                _loop(analysis, flow, call)


# -- valid


def _valid(analysis: Analysis, call: Call, name: str, node: Node, known: dict[str, list[Call]]) -> None:
    value = analysis.constants.value(node)
    rule = f"{name} must be 1 to 80 letters, digits, underscores or hyphens"
    if isinstance(value, str):
        if _VALID.fullmatch(value) is None:
            what = (
                "is empty" if not value else f"has {len(value)} characters" if len(value) > 80 else "is not"
            )
            fix = _replacement(analysis, node, name, value, known)
            analysis.report("invalid-step-id", node, f"{rule}; {shown(value)} {what}", fix=fix)
    elif value is not UNKNOWN:
        analysis.report("invalid-step-id", node, f"{name} must be text")
    else:
        wrong = [part for part in _fixed_parts(analysis, node) if _OTHER.search(part[2])]
        if wrong:
            changes = [(start, end, _OTHER.sub("-", text)) for start, end, text in wrong]
            fix = analysis.fix("Use hyphens instead", *changes)
            analysis.report("invalid-step-id", node, f"{rule}; {shown(wrong[0][2])} is not", fix=fix)


def _replacement(
    analysis: Analysis, node: Node, name: str, value: str, known: dict[str, list[Call]]
) -> Fix | None:
    if not literal(node):
        return None
    better = _OTHER.sub("-", value).strip("-")[:80].rstrip("-")
    if name == "sourceStepId":
        if better not in known:
            return None
        return analysis.fix(f"Use {shown(better)}", (node.start, node.end, quoted(better)))
    better = unused(better or "step", known)
    changes = [(node.start, node.end, quoted(better))]
    for call in analysis.calls:
        source = call.properties.get("sourceStepId")
        if source is not None and literal(source) and analysis.constants.text(source) == value:
            changes.append((source.start, source.end, quoted(better)))
    return analysis.fix(f"Use {shown(better)}", *changes)


def unused(step: str, known: dict[str, list[Call]]) -> str:
    """``step``, or the first of step-2, step-3 … that no step of the script has."""
    if step not in known:
        return step
    number = 2
    while f"{step[:76]}-{number}" in known:
        number += 1
    return f"{step[:76]}-{number}"


def _fixed_parts(analysis: Analysis, node: Node) -> Iterator[tuple[int, int, str]]:
    """The written-out pieces of a stepId that is put together: byte range and text."""
    for part in node.walk():
        if (
            part.kind == "string_fragment"
            and part.parent is not None
            and part.parent.kind == "template_string"
        ):
            if part.parent is unwrapped(node) or _added(part.parent, node):
                yield part.start, part.end, unescaped(analysis.text(part))
        elif part.kind == "string" and _added(part, node):
            yield part.start + 1, part.end - 1, unescaped(analysis.text(part)[1:-1])


def _added(part: Node, whole: Node) -> bool:
    """Whether ``part`` is a summand of the sum ``whole``."""
    while part is not whole:
        above = part.parent
        if above is None:
            return False
        plus = above.kind == "binary_expression" and "+" in above.tokens
        if not plus and above.kind != "parenthesized_expression":
            return False
        part = above
    return True


# -- unique


def _duplicate(
    analysis: Analysis,
    flow: Flow | None,
    step: str,
    calls: list[Call],
    index: int,
    known: dict[str, list[Call]],
) -> None:
    call, earlier = calls[index], calls[:index]
    node = call.properties["stepId"]
    line = analysis.line(earlier[0].properties["stepId"])
    fix = None
    named = any(analysis.step_id_property(other, "sourceStepId") == step for other in analysis.calls)
    if literal(node) and not named:
        better = unused(step, known)
        fix = analysis.fix(f"Use {shown(better)}", (node.start, node.end, quoted(better)))
    if flow is not None and all(_exclusive(flow, call, other) for other in earlier):
        message = f"{shown(step)} is also the stepId at line {line}; only one of them runs, but marks and stubs mix them up"
        analysis.report("duplicate-step", node, message, severity="warning", fix=fix)
        return
    message = f"{shown(step)} is already the stepId at line {line}; give each step an id of its own"
    analysis.report("duplicate-step", node, message, fix=fix)


def _exclusive(flow: Flow, one: Call, other: Call) -> bool:
    """Whether no path runs both calls."""
    function = enclosing_function(one.node)
    if function is not enclosing_function(other.node):
        return False
    if function is not None:
        return False  # called twice, it could take either way
    at = flow.graphs[function].at
    first, second = set(at.get(one.node, ())), set(at.get(other.node, ()))
    return not (closure(first) & second) and not (closure(second) & first)


# -- sources


def _sources(analysis: Analysis, known: dict[str, list[Call]], dynamic: bool, versions: Versions) -> None:
    for call in analysis.calls:
        source = call.properties.get("sourceStepId")
        named = analysis.constants.text(source)
        if source is None or named is None:
            continue
        if named not in known and not dynamic and _VALID.fullmatch(named):
            meant = closest(named, known)
            fix = None
            if meant is not None and literal(source):
                fix = analysis.fix(f"Use {shown(meant)}", (source.start, source.end, quoted(meant)))
            hint = f"; did you mean {shown(meant)}?" if meant else ""
            message = f"no step of this script has the stepId {shown(named)}{hint}"
            analysis.report("unknown-step", source, message, severity="warning", fix=fix)
            continue
        version = call.properties.get("artifactVersion")
        origin = versions.step_of(version)
        if version is not None and origin is not None and origin != named:
            fix = None
            if literal(source):
                fix = analysis.fix(f"Use {shown(origin)}", (source.start, source.end, quoted(origin)))
            message = (
                f"this version is of step {shown(origin)}, not of {shown(named)}; a run refuses the mixture"
            )
            analysis.report("unknown-step", version, message, severity="warning", fix=fix)


# -- loops


def _loop(analysis: Analysis, flow: Flow, call: Call) -> None:
    node = call.properties["stepId"]
    function = enclosing_function(call.node)
    for loop in analysis.rounds(call.node):
        if loop.kind in LOOPS:
            if (rounds_of(analysis, loop) or 2) < 2:
                continue
            if enclosing_function(loop) is function and not flow.graphs[function].repeats(call.node):
                continue
        else:
            each = analysis.each_call(loop)
            called = unwrapped(each.field("function")) if each is not None else None
            owner = called.field("object") if called is not None else None
            if (elements_of(analysis, owner) or 2) < 2:
                continue
        if _Variation(analysis, loop).of(node):
            continue
        step = analysis.constants.text(node)
        what = f"the stepId {shown(step)}" if step is not None else "this stepId"
        analysis.report(
            "loop-step",
            node,
            f"{what} is the same in every round of the loop at line {analysis.line(loop)}; put the loop variable in it",
            severity="warning",
            fix=_with_variable(analysis, node, loop),
        )
        return


def _with_variable(analysis: Analysis, node: Node, loop: Node) -> Fix | None:
    """Add a counter of ``loop`` to a literal stepId, where the loop has one that makes valid ids."""
    step = analysis.constants.text(node)
    name: Node | None = None
    if loop.kind == "for_statement" and rounds_of(analysis, loop) is not None:
        start = loop.field("initializer")
        name = start.children[0].field("name") if start is not None and start.children else None
    elif loop.kind == "for_in_statement":
        values = analysis.constants.value(loop.field("right"))
        valid = isinstance(values, list) and all(_VALID.fullmatch(str(value)) for value in values)
        name = loop.field("left") if valid else None
    elif loop.kind in FUNCTIONS:
        parameters = loop.field("parameters")
        if parameters is not None and len(parameters.children) == 2:
            name = parameters.children[1]
    if not literal(node) or step is None or _VALID.fullmatch(step) is None or name is None:
        return None
    if name.kind != "identifier" or len(step) > 70:
        return None
    text = f"`{step}-${{{analysis.text(name)}}}`"
    return analysis.fix(f"Use {text}", (node.start, node.end, text))


class _Variation:
    """Whether an expression may differ from one round of a loop to the next; in doubt it may."""

    def __init__(self, analysis: Analysis, loop: Node) -> None:
        self.analysis = analysis
        self.loop = loop
        self.known: dict[Binding, bool] = {}

    def of(self, node: Node | None) -> bool:
        if node is None or self.analysis.constants.value(node) is not UNKNOWN:
            return False
        return any(self._varies(part) for part in node.walk())

    def _varies(self, node: Node) -> bool:
        scopes, kind = self.analysis.scopes, node.kind
        if kind in ("identifier", "shorthand_property_identifier"):
            binding = scopes.binding(node)
            return binding is not None and self._binding(binding)
        if kind == "call_expression":
            called = unwrapped(node.field("function"))
            if called is None:
                return True
            if called.kind == "identifier":
                name = self.analysis.text(called)
                return not (name in _PURE_FUNCTIONS and scopes.is_global(called, name))
            method = called.field("property") if called.kind == "member_expression" else None
            return method is None or self.analysis.text(method) not in _PURE_METHODS
        if kind in ("member_expression", "subscript_expression"):
            return self._member(node)
        return kind in FUNCTIONS or kind in (
            "await_expression",
            "yield_expression",
            "new_expression",
            "update_expression",
            "assignment_expression",
            "augmented_assignment_expression",
            "this",
        )

    def _member(self, node: Node) -> bool:
        """A property may change whenever anything else may write to its object; args and methods never do."""
        above = node.parent
        if above is not None and above.kind == "call_expression" and above.field("function") is node:
            return False
        root: Node | None = node
        while root is not None and root.kind in ("member_expression", "subscript_expression"):
            root = unwrapped(root.field("object"))
        if root is None or self.analysis.scopes.is_global(root, "args"):
            return root is None
        return self.analysis.constants.value(node) is UNKNOWN

    def _binding(self, binding: Binding) -> bool:
        if binding not in self.known:
            self.known[binding] = (
                False  # while it is being decided: a name that depends on itself adds nothing
            )
            self.known[binding] = self._decide(binding)
        return self.known[binding]

    def _decide(self, binding: Binding) -> bool:
        loop, site = self.loop, binding.site
        if not binding.node.inside(loop):
            home = enclosing_function(binding.node)
            return any(
                write.inside(loop) or enclosing_function(write) is not home for write in binding.writes
            )
        if site is loop or self._in_head(binding.node):
            return True
        if binding.kind in ("function", "class"):
            return False
        if site.kind == "for_in_statement":
            return self.of(site.field("right"))
        if site.kind != "variable_declarator":
            each = self.analysis.each_call(site) if binding.kind == "param" else None
            called = unwrapped(each.field("function")) if each is not None else None
            return called is None or self.of(called.field("object"))
        values = [site.field("value")]
        for write in binding.writes:
            above = write.parent
            if above is not None and above.kind == "update_expression":
                continue
            if above is None or above.field("left") is not write:
                return True
            values.append(above.field("right"))
        return any(self.of(value) for value in values)

    def _in_head(self, node: Node) -> bool:
        start = self.loop.field("initializer")
        return start is not None and node.inside(start)
