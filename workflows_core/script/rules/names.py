"""Rules about names, modules and regular expressions."""

from __future__ import annotations

from ..analysis import Analysis
from ..api import API, GLOBALS, INSTEAD
from ..problem import Fix
from ..regex_time import exponential_part
from ..scope import access_of
from ..tree import Node, enclosing_function, unwrapped
from .calls import closest

_KNOWN = frozenset({*API, *GLOBALS, "args"})
_MODULE_NAMES = frozenset({"require", "module", "exports"})
_HAS = "it has agent(), parallel(), log() and args"
_RETURN = "return the result instead of exporting it"
#: Guessing is slow: this many names are guessed, from this many declared ones.
_MOST_GUESSES = 20
_MOST_CANDIDATES = 100


def check_names(analysis: Analysis) -> None:
    _Names(analysis).check()


def check_modules(analysis: Analysis) -> None:
    for node in analysis.nodes:
        if node.in_error:
            continue
        called = node.field("function") if node.kind == "call_expression" else None
        if node.kind == "import_statement" or (called is not None and called.kind == "import"):
            analysis.report("module-syntax", node, f"a script cannot import; {_HAS}")
        elif node.kind == "export_statement":
            message = f"a script is not a module; {_RETURN}"
            analysis.report("module-syntax", node, message, fix=_unexported(analysis, node))
        elif node.kind == "meta_property" and analysis.text(node).startswith("import"):
            analysis.report("module-syntax", node, f"import.meta exists in modules only; {_HAS}")


def _unexported(analysis: Analysis, node: Node) -> Fix | None:
    declaration, value = node.field("declaration"), node.field("value")
    last = node.parent is analysis.root and analysis.root.children[-1] is node
    if declaration is not None and "default" not in node.tokens:
        return analysis.fix("Remove export", (node.start, declaration.start, ""))
    if value is not None and last:
        return analysis.fix("Return it", (node.start, value.start, "return "))
    return None


class _Names:
    """Reports the free names of a script; the same misspelt name is looked up once."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.meant: dict[str, str | None] = {}

    def check(self) -> None:
        for node in self.analysis.scopes.globals:
            if not node.in_error:
                self.name(node)

    def name(self, node: Node) -> None:
        analysis, parent = self.analysis, node.parent
        name = analysis.text(node)
        member = _property_of(analysis, node)
        if name == "args":
            _frozen(analysis, node)
        elif name == "Math" and member == "random" and parent is not None:
            _missing(analysis, parent, "Math.random")
        elif name == "globalThis" and member is not None and member in INSTEAD and parent is not None:
            _missing(analysis, parent, member)
        elif (
            name in _KNOWN
            or _only_typeof(node)
            or (name == "arguments" and _has_arguments(node))
            or (name in _MODULE_NAMES and _module_name(analysis, node, name, member))
        ):
            pass
        elif name in INSTEAD:
            _missing(analysis, node, name, _log_instead(analysis, node) if name == "console" else None)
        else:
            self.unknown(node, name)

    def unknown(self, node: Node, name: str) -> None:
        analysis = self.analysis
        if access_of(node) == "write":
            message = f"{name} is not declared, so assigning to it fails; declare it with let or const"
            analysis.report("unknown-name", node, message, severity="warning")
            return
        if name not in self.meant:
            few = len(self.meant) < _MOST_GUESSES
            self.meant[name] = closest(name, self.candidates(node), 0.75) if few else None
        meant = self.meant[name]
        hint = f"did you mean {meant}?" if meant else "declare it, or pass it in args"
        fix = None
        if meant is not None and node.kind == "identifier":
            fix = analysis.fix(f"Use {meant}", (node.start, node.end, meant))
        analysis.report("unknown-name", node, f"a script has no {name}; {hint}", severity="warning", fix=fix)

    def candidates(self, node: Node) -> set[str]:
        """What a misspelt name may mean: the API, the globals, and names that are visible where it stands."""
        visible = {
            binding.name
            for binding in self.analysis.scopes.bindings[:_MOST_CANDIDATES]
            if binding.node.start < node.start and node.inside(binding.scope.node)
        }
        return {*_KNOWN, *visible}


def _missing(analysis: Analysis, node: Node, name: str, fix: Fix | None = None) -> None:
    message = f"a script has no {name}: {INSTEAD[name]}"
    analysis.report("unknown-name", node, message, severity="warning", fix=fix)


def _property_of(analysis: Analysis, node: Node) -> str | None:
    """The property that is read from a name, as in name.property or name['property']."""
    parent = node.parent
    if parent is None or parent.field("object") is not node:
        return None
    if parent.kind == "member_expression":
        name = parent.field("property")
        return analysis.text(name) if name is not None else None
    if parent.kind == "subscript_expression":
        return analysis.constants.text(parent.field("index"))
    return None


def _only_typeof(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.kind == "unary_expression" and "typeof" in _words(parent)


def _words(node: Node) -> list[str]:
    operator = node.field("operator")
    return [*node.tokens, *([operator.kind] if operator is not None else [])]


def _has_arguments(node: Node) -> bool:
    function = enclosing_function(node)
    while function is not None and function.kind == "arrow_function":
        function = enclosing_function(function)
    return function is not None


def _module_name(analysis: Analysis, node: Node, name: str, member: str | None) -> bool:
    """Report require(), module.exports and exports.name; False for any other use of these names."""
    parent = node.parent
    if name == "require" and parent is not None and parent.kind == "call_expression":
        analysis.report("module-syntax", node, f"a script cannot require; {_HAS}")
    elif (name == "module" and member == "exports") or (name == "exports" and member is not None):
        analysis.report("module-syntax", node, f"a script is not a module; {_RETURN}")
    else:
        return False
    return True


def _log_instead(analysis: Analysis, node: Node) -> Fix | None:
    """console.log(one) becomes log(one)."""
    member = node.parent
    call = member.parent if member is not None else None
    arguments = call.field("arguments") if call is not None else None
    if member is None or call is None or arguments is None or call.field("function") is not member:
        return None
    if len(arguments.children) != 1 or arguments.children[0].kind == "spread_element":
        return None
    if any(binding.name == "log" for binding in analysis.scopes.bindings):
        return None
    return analysis.fix("Use log()", (member.start, member.end, "log"))


def _frozen(analysis: Analysis, node: Node) -> None:
    target: Node = node
    while target.parent is not None and target.parent.kind in ("member_expression", "subscript_expression"):
        if target.parent.field("object") is not target:
            return
        target = target.parent
    removed = target.parent
    deleted = removed is not None and removed.kind == "unary_expression" and "delete" in _words(removed)
    if deleted or access_of(target) != "read":
        message = "args is frozen, so this fails; copy it first: const input = {...args}"
        analysis.report("frozen-args", node, message, severity="warning")


def check_regexes(analysis: Analysis) -> None:
    for node in analysis.nodes:
        if node.in_error:
            continue
        if node.kind == "regex":
            pattern, flags = node.field("pattern"), node.field("flags")
            source = analysis.text(pattern) if pattern is not None else ""
            _slow(analysis, node, source, analysis.text(flags) if flags is not None else "")
        elif node.kind in ("new_expression", "call_expression"):
            called = unwrapped(node.field("constructor") or node.field("function"))
            arguments = node.field("arguments")
            if arguments is None or not arguments.children or not analysis.scopes.is_global(called, "RegExp"):
                continue
            text = analysis.constants.text(arguments.children[0])
            flag_node = arguments.children[1] if len(arguments.children) > 1 else None
            if text is not None:
                _slow(analysis, node, text, analysis.constants.text(flag_node) or "")


def _slow(analysis: Analysis, node: Node, pattern: str, flags: str) -> None:
    part = exponential_part(pattern, flags)
    if part is not None:
        where = part if len(part) <= 60 else f"{part[:60]}…"
        analysis.report(
            "slow-regex",
            node,
            f"this expression can take exponential time: {where} can match the same text in several ways; "
            "write it so that each character can be matched in one way only",
            severity="warning",
        )
