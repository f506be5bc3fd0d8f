"""Rules about one call of the script API at a time: its shape, its Agent, its task."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from ... import jsontext, limits
from ..analysis import Analysis, Call
from ..constant import UNKNOWN
from ..problem import Fix
from ..tree import Node, unwrapped

_PLAIN = frozenset(
    {
        "string",
        "template_string",
        "number",
        "array",
        "true",
        "false",
        "null",
        "undefined",
        "regex",
        "arrow_function",
    }
)


def closest(word: str, known: Collection[str], cutoff: float = 0.6) -> str | None:
    """The known word that ``word`` most likely means; letter case does not count."""
    by_lower = {name.lower(): name for name in sorted(known)}
    found = get_close_matches(word.lower(), list(by_lower), 1, cutoff)
    return by_lower[found[0]] if found else None


def quoted(text: str) -> str:
    """``text`` as a string literal of JavaScript in single quotes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def shown(text: str) -> str:
    """``text`` for a message: short, and in quotes."""
    return f"'{text}'" if len(text) <= 60 else f"'{text[:60]}…'"


def literal(node: Node) -> bool:
    """Whether ``node`` is text written out, so that replacing it changes nothing else."""
    return node.kind == "string" or (
        node.kind == "template_string" and all(c.kind != "template_substitution" for c in node.children)
    )


def check_calls(analysis: Analysis, agents: Collection[str] | None) -> None:
    for call in analysis.calls:
        if call.api.properties:
            _shape(analysis, call, agents)
        if call.name == "agent":
            if agents is not None:
                _agent(analysis, call, agents)
            _task(analysis, call)
            _artifacts(analysis, call)
        elif call.name == "parallel":
            _parallel(analysis, call)


# -- properties


def _shape(analysis: Analysis, call: Call, agents: Collection[str] | None) -> None:
    api = call.api
    needs = _listed(api.required)
    argument = call.argument
    if argument is None or argument.kind in _PLAIN:
        at = call.node if argument is None else argument
        analysis.report("call-shape", at, f"{api.name}() takes one object with {needs}")
        return
    missing = [name for name in api.required if name not in call.properties]
    for name, key in call.keys.items():
        if name in api.properties:
            continue
        meant = closest(name, [known for known in api.properties if known not in call.properties])
        if meant in missing:
            missing.remove(meant)
        hint = f"did you mean {meant}?" if meant else f"it takes {_listed(api.properties)}"
        fix = _rename(analysis, key, meant) if meant else None
        analysis.report("call-shape", key, f"{api.name}() does not take {shown(name)}; {hint}", fix=fix)
    if missing and not call.open:
        fix = _add_agent(analysis, call, agents) if missing == ["agentRef"] else None
        analysis.report("call-shape", call.node, f"{api.name}() needs {_listed(missing)} here", fix=fix)


def _listed(names: Collection[str]) -> str:
    names = list(names)
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _rename(analysis: Analysis, key: Node, name: str) -> Fix | None:
    if key.kind == "shorthand_property_identifier":
        return analysis.fix(f"Write {name}: {analysis.text(key)}", (key.start, key.start, f"{name}: "))
    if key.kind in ("property_identifier", "string"):
        return analysis.fix(f"Rename to {name}", (key.start, key.end, name))
    return None


def _add_agent(analysis: Analysis, call: Call, agents: Collection[str] | None) -> Fix | None:
    if agents is None or len(agents) != 1 or call.argument is None or not call.argument.children:
        return None
    text = f"agentRef: {quoted(next(iter(agents)))}"
    end = call.argument.children[-1].end
    return analysis.fix(f"Add {text}", (end, end, f", {text}"))


# -- the Agent, the task, the artifacts


def _agent(analysis: Analysis, call: Call, agents: Collection[str]) -> None:
    node = call.properties.get("agentRef")
    value = analysis.constants.value(node)
    if node is None or value is UNKNOWN:
        return
    if not isinstance(value, str):
        analysis.report("unknown-agent", node, "agentRef must be the name of an Agent, as text")
        return
    if value in agents:
        return
    meant = closest(value, agents) or (next(iter(agents)) if len(agents) == 1 else None)
    known = ", ".join(sorted(agents)[:8]) or "none"
    hint = f"did you mean {shown(meant)}?" if meant and len(agents) > 1 else f"this workspace has: {known}"
    fix = None
    if meant and literal(node):
        fix = analysis.fix(f"Use {shown(meant)}", (node.start, node.end, quoted(meant)))
    analysis.report("unknown-agent", node, f"there is no Agent {shown(value)}; {hint}", fix=fix)


def _task(analysis: Analysis, call: Call) -> None:
    node = call.properties.get("task")
    if node is None:
        return
    if unwrapped(node) is not None and node.kind == "undefined":
        analysis.report("call-shape", node, "task must be JSON; undefined is not")
        return
    value = analysis.constants.value(node)
    if value is UNKNOWN:
        return
    try:
        size = jsontext.size(value, "the task")
    except jsontext.JsonRefused as error:
        analysis.report("call-shape", node, f"{error}; a task must be JSON")
        return
    if size > limits.TASK_BYTES:
        much = f"{size:,} bytes" if size <= 1 << 20 else "more than 1 MiB"
        analysis.report(
            "task-too-large",
            node,
            f"this task is {much} of JSON and a task may have {limits.TASK_BYTES:,}; shorten it, split it into "
            "several steps, or hand it over as a captured artifact",
        )


def _artifacts(analysis: Analysis, call: Call) -> None:
    node = call.properties.get("artifacts")
    if node is None or node.kind not in (*_PLAIN, "member_expression", "object") or node.kind == "array":
        return
    if node.kind == "member_expression":
        name = node.field("property")
        if name is None or analysis.text(name) != "artifactVersion":
            return
        changes = ((node.start, node.start, "["), (node.end, node.end, "]"))
        fix = analysis.fix("Put it in a list", *changes)
        analysis.report(
            "call-shape", node, "artifacts takes a list of versions; put this one in [ ]", fix=fix
        )
    elif node.kind != "undefined":
        analysis.report("call-shape", node, "artifacts takes a list of artifact versions")


# -- parallel()


def _parallel(analysis: Analysis, call: Call) -> None:
    arguments = call.node.field("arguments")
    given = arguments.children if arguments is not None else []
    argument = call.argument
    if argument is None:
        analysis.report("parallel-functions", call.node, "parallel() takes a list of functions")
    elif argument.kind in ("arrow_function", "function_expression") or argument in analysis.call_of:
        fix = None
        if all(child.kind in ("arrow_function", "function_expression") for child in given):
            changes = ((given[0].start, given[0].start, "["), (given[-1].end, given[-1].end, "]"))
            fix = analysis.fix("Put the functions in a list", *changes)
        analysis.report("parallel-functions", argument, "parallel() takes one list: parallel([…])", fix=fix)
    elif argument.kind == "array" or argument.kind == "identifier":
        binding = analysis.scopes.binding(argument)
        items = argument if argument.kind == "array" else binding.value if binding is not None else None
        for item in items.children if items is not None and items.kind == "array" else ():
            _entry(analysis, item)
    elif argument.kind == "call_expression":
        _mapped(analysis, argument)
    elif argument.kind in (*_PLAIN, "object"):
        analysis.report("parallel-functions", argument, "parallel() takes a list of functions")


def _entry(analysis: Analysis, item: Node) -> None:
    inner = unwrapped(item)
    if inner is None:
        return
    awaited = inner.kind == "await_expression" and bool(inner.children)
    started = unwrapped(inner.children[0]) if awaited else inner
    if started is not None and started in analysis.call_of:
        name = analysis.call_of[started].name
        fix = analysis.fix(
            "Make it a function", (item.start, started.start, "() => "), (started.end, item.end, "")
        )
        analysis.report(
            "parallel-functions",
            item,
            f"parallel() takes functions: write () => {name}(…), not {name}(…)",
            fix=fix,
        )
    elif inner.kind in _PLAIN - {"arrow_function"} or inner.kind == "object":
        analysis.report("parallel-functions", item, "parallel() takes functions, and this is none")


def _mapped(analysis: Analysis, call: Node) -> None:
    """parallel(list.map(item => agent(…))): the calls have started before parallel() sees them."""
    called, arguments = unwrapped(call.field("function")), call.field("arguments")
    if called is None or arguments is None or not arguments.children or called.kind != "member_expression":
        return
    name, function = called.field("property"), arguments.children[0]
    if name is None or analysis.text(name) not in ("map", "flatMap") or function.kind != "arrow_function":
        return
    body = unwrapped(function.field("body"))
    if body is not None and body.kind == "await_expression" and body.children:
        body = unwrapped(body.children[0])
    whole = function.field("body")
    if "async" in function.tokens:
        fix = None
    elif (
        body is not None
        and whole is not None
        and body in analysis.call_of
        and whole.kind == "call_expression"
    ):
        fix = analysis.fix("Return a function", (whole.start, whole.start, "() => "))
    else:
        return
    if not any(other.node.inside(function) and other.api.promise for other in analysis.calls):
        return
    message = (
        "parallel() takes functions: let this function return () => …, so that parallel() starts the calls"
    )
    analysis.report("parallel-functions", whole if whole is not None and fix else function, message, fix=fix)
