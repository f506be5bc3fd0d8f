"""Values of expressions that are the same in every run: literals, constant names, text put together.

Only what JavaScript computes without calling anything of the script is evaluated, and only values that JSON
can say. Everything else is UNKNOWN, which is never an error by itself.
"""

from __future__ import annotations

import re
from typing import Any, Final

from .scope import Scopes
from .tree import Node, unwrapped


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()
#: Text longer than this is not built; it is over every limit.
_LONGEST: Final = 1 << 20
_MOST_NODES: Final = 20_000
_ESCAPE = re.compile(
    r"\\(?:u\{(?P<braced>[0-9A-Fa-f]{1,6})\}|u(?P<four>[0-9A-Fa-f]{4})|x(?P<two>[0-9A-Fa-f]{2})"
    r"|(?P<joined>\r\n|[\n\r\u2028\u2029])|(?P<char>[\s\S]))"
)
_SIMPLE: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


class Constants:
    """Evaluates expressions of one script. ``args`` is what a run would get, or UNKNOWN."""

    def __init__(self, scopes: Scopes, text: bytes, args: Any = UNKNOWN) -> None:
        self._scopes = scopes
        self._text = text
        self._args = args
        self._known: dict[Node, Any] = {}
        self._busy: set[Node] = set()
        self._budget = _MOST_NODES
        self._size = 0

    def value(self, node: Node | None) -> Any:
        """The value of ``node`` as JSON data, or UNKNOWN."""
        node = unwrapped(node)
        if node is None or node in self._busy:
            return UNKNOWN
        if node not in self._known:
            if self._budget <= 0:
                return UNKNOWN
            self._budget -= 1
            self._busy.add(node)
            try:
                self._known[node] = self._evaluate(node)
            except RecursionError:
                return UNKNOWN
            finally:
                self._busy.discard(node)
        return self._known[node]

    def text(self, node: Node | None) -> str | None:
        """The value of ``node`` where it is text."""
        value = self.value(node)
        return value if isinstance(value, str) else None

    def source(self, node: Node) -> str:
        return self._text[max(node.start, 0) : max(node.end, 0)].decode("utf-8", "replace")

    def _evaluate(self, node: Node) -> Any:
        method = getattr(self, f"_{node.kind}", None)
        return UNKNOWN if method is None else method(node)

    # -- one method for each kind of node

    def _string(self, node: Node) -> Any:
        return unescaped(self.source(node)[1:-1])

    def _template_string(self, node: Node) -> Any:
        pieces: list[str] = []
        at = node.start + 1
        for child in node.children:
            if child.kind != "template_substitution":
                continue
            pieces.append(self._cooked(at, child.start))
            piece = as_text(self.value(child.children[0] if child.children else None))
            if piece is None:
                return UNKNOWN
            pieces.append(piece)
            at = child.end
        pieces.append(self._cooked(at, node.end - 1))
        return self._joined(pieces)

    def _cooked(self, start: int, end: int) -> str:
        raw = self._text[start:end].decode("utf-8", "replace")
        return unescaped(raw.replace("\r\n", "\n").replace("\r", "\n"))

    def _number(self, node: Node) -> Any:
        return number(self.source(node))

    def _true(self, node: Node) -> Any:
        return True

    def _false(self, node: Node) -> Any:
        return False

    def _null(self, node: Node) -> Any:
        return None

    def _identifier(self, node: Node) -> Any:
        binding = self._scopes.binding(node)
        if binding is None:
            return self._args if self._scopes.is_global(node, "args") else UNKNOWN
        if binding.kind not in ("const", "let", "var") or binding.writes:
            return UNKNOWN
        value = self.value(binding.value)
        if isinstance(value, (list, dict)) and any(_may_change(read) for read in binding.reads):
            return UNKNOWN
        return value

    def _array(self, node: Node) -> Any:
        items: list[Any] = []
        if node.has_holes():
            return UNKNOWN
        for child in node.children:
            if child.kind == "spread_element":
                value = self.value(child.children[0] if child.children else None)
                if not isinstance(value, list):
                    return UNKNOWN
                items.extend(value)
                continue
            value = self.value(child)
            if value is UNKNOWN:
                return UNKNOWN
            items.append(value)
        return items

    def _object(self, node: Node) -> Any:
        result: dict[str, Any] = {}
        for child in node.children:
            if child.kind == "pair":
                name = self.key(child.field("key"))
                value = self.value(child.field("value"))
                if name is None or name == "__proto__" or value is UNKNOWN:
                    return UNKNOWN
                result[name] = value
            elif child.kind == "shorthand_property_identifier":
                value = self._identifier(child)
                if value is UNKNOWN:
                    return UNKNOWN
                result[self.source(child)] = value
            elif child.kind == "spread_element":
                value = self.value(child.children[0] if child.children else None)
                if not isinstance(value, dict):
                    return UNKNOWN
                result.update(value)
            else:
                return UNKNOWN
        return result

    def key(self, node: Node | None) -> str | None:
        """The name of a property, where it is the same in every run."""
        if node is None:
            return None
        if node.kind == "property_identifier":
            return unescaped(self.source(node))
        if node.kind == "computed_property_name":
            return as_text(self.value(node.children[0] if node.children else None))
        return as_text(self.value(node))

    def _member_expression(self, node: Node) -> Any:
        whole = self.value(node.field("object"))
        name = node.field("property")
        if isinstance(whole, dict) and name is not None:
            return whole.get(self.source(name), UNKNOWN)
        if isinstance(whole, (str, list)) and name is not None and self.source(name) == "length":
            return len(whole) if isinstance(whole, list) else _units(whole)
        return UNKNOWN

    def _subscript_expression(self, node: Node) -> Any:
        whole, index = self.value(node.field("object")), self.value(node.field("index"))
        if isinstance(whole, dict) and isinstance(index, str):
            return whole.get(index, UNKNOWN)
        if isinstance(whole, list) and type(index) is int and 0 <= index < len(whole):
            return whole[index]
        return UNKNOWN

    def _unary_expression(self, node: Node) -> Any:
        sign = node.tokens[0] if node.tokens else ""
        value = self.value(node.field("argument"))
        if sign == "-" and isinstance(value, (int, float)) and not isinstance(value, bool):
            return -value
        if sign == "!" and (isinstance(value, bool) or value is None):
            return not value
        return UNKNOWN

    def _binary_expression(self, node: Node) -> Any:
        sign = node.tokens[0] if node.tokens else ""
        if sign not in ("+", "-", "*"):
            return UNKNOWN
        left, right = self.value(node.field("left")), self.value(node.field("right"))
        if sign == "+" and (isinstance(left, str) or isinstance(right, str)):
            texts = (as_text(left), as_text(right))
            return UNKNOWN if texts[0] is None or texts[1] is None else self._joined([texts[0], texts[1]])
        if type(left) is not int or type(right) is not int or max(abs(left), abs(right)) > 2**31:
            return UNKNOWN
        value = left + right if sign == "+" else left - right if sign == "-" else left * right
        return value if abs(value) < 2**53 else UNKNOWN

    def _call_expression(self, node: Node) -> Any:
        called, arguments = node.field("function"), node.field("arguments")
        if called is None or arguments is None or called.kind != "member_expression":
            return UNKNOWN
        whole = self.value(called.field("object"))
        method = called.field("property")
        values = [self.value(child) for child in arguments.children]
        if method is None or any(value is UNKNOWN for value in values):
            return UNKNOWN
        name = self.source(method)
        if isinstance(whole, str) and name == "repeat" and len(values) == 1 and type(values[0]) is int:
            return self._joined([whole], values[0]) if values[0] >= 0 else UNKNOWN
        if isinstance(whole, list) and name == "join" and len(values) <= 1:
            texts = [as_text(item) for item in whole]
            between = values[0] if values else ","
            if isinstance(between, str) and None not in texts:
                return self._joined([between.join(text for text in texts if text is not None)])
        return UNKNOWN

    def _joined(self, pieces: list[str], times: int = 1) -> Any:
        """The pieces together, ``times`` over; text past every limit is cut to just past it."""
        size = sum(map(len, pieces))
        if size and times > _LONGEST // size:
            times = _LONGEST // size + 1
        self._size += size * times
        if self._size > 8 * _LONGEST:
            return UNKNOWN
        return "".join(pieces)[: _LONGEST + 1] * times if times != 1 else "".join(pieces)


def unescaped(raw: str) -> str:
    """The text that a string literal's inner source means; surrogate escapes in pairs become one character."""
    if "\\" not in raw:
        return raw

    def one(match: re.Match[str]) -> str:
        code = match["braced"] or match["four"] or match["two"]
        if code is not None:
            value = int(code, 16)
            return chr(value) if value <= 0x10FFFF else "\ufffd"
        if match["joined"] is not None:
            return ""
        return _SIMPLE.get(match["char"], match["char"])

    text = _ESCAPE.sub(one, raw)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") if "\\u" in raw else text


def number(text: str) -> Any:
    """The value of a number literal; UNKNOWN for a BigInt, which JSON cannot say."""
    text = text.replace("_", "")
    if _NUMBER.fullmatch(text) is None:
        return UNKNOWN
    if text[:2].lower() in ("0x", "0b", "0o"):
        return int(text, 0)
    if text.isdigit() and (len(text) == 1 or text[0] != "0"):
        return int(text) if len(text) < 16 else UNKNOWN
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def as_text(value: Any) -> str | None:
    """What a template makes of a constant, where that is plain."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return str(value) if type(value) is int else None


def _units(text: str) -> int:
    return len(text) + sum(1 for char in text if ord(char) > 0xFFFF)


def _may_change(read: Node) -> bool:
    """Whether this use of a name might change the array or object behind it."""
    parent = read.parent
    if parent is None:
        return False
    if parent.kind == "member_expression" and parent.field("object") is read:
        above = parent.parent
        if above is None:
            return False
        if above.kind == "call_expression" and above.field("function") is parent:
            return True
        return _is_target(parent, above)
    if parent.kind == "subscript_expression" and parent.field("object") is read:
        return parent.parent is not None and _is_target(parent, parent.parent)
    return parent.kind in ("arguments", "variable_declarator", "assignment_expression", "return_statement")


def _is_target(node: Node, above: Node) -> bool:
    if above.kind in ("member_expression", "subscript_expression") and above.field("object") is node:
        return above.parent is not None and (
            above.parent.kind == "call_expression" or _is_target(above, above.parent)
        )
    return (
        above.kind in ("assignment_expression", "augmented_assignment_expression")
        and above.field("left") is node
    ) or above.kind == "update_expression"
