"""YAML as this project reads it: JSON values with positions, and a reader that names every mistake.

Only JSON's kinds of values exist: ``true`` and ``false`` are the only booleans (``yes``, ``no``, ``on`` stay
text), numbers are decimal, nothing is a date, keys are text. A key that occurs twice is refused, as are tags
and documents of more than MAX_NODES values once aliases are followed. Positions start at 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from workflows_core.jsontext import MAX_DEPTH, JsonRefused, encode

from .inert import inert, shorten

if TYPE_CHECKING:
    import yaml

MAX_NODES: Final = 100_000

Path = tuple[str | int, ...]

_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS: Final[Mapping[str, Any]] = {
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
    "null": None, "Null": None, "NULL": None, "~": None, "": None,
}  # fmt: skip
_MERGE = "<<"
_PLAIN = "plain"
_TEXT = "tag:yaml.org,2002:str"
_LIST = "tag:yaml.org,2002:seq"
_MAP = "tag:yaml.org,2002:map"


class Position(NamedTuple):
    line: int
    column: int


class YamlRefused(ValueError):
    """The text cannot be used. ``str()`` is a sentence that starts with file, line and column."""

    def __init__(self, message: str, position: Position | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


class Document:
    """Parsed YAML: ``value`` (JSON kinds only), and where each part of it stands."""

    def __init__(self, name: str, value: Any, positions: Mapping[Path, Position]) -> None:
        self.name = name
        self.value = value
        self._positions = positions

    def position(self, path: Path) -> Position | None:
        """Where the part at ``path`` stands; where it has no place of its own, its nearest parent's."""
        while path not in self._positions and path:
            path = path[:-1]
        return self._positions.get(path)

    def refuse(self, path: Path, message: str) -> NoReturn:
        """Raise YamlRefused about the part at ``path``: ``FILE:LINE:COLUMN: PATH MESSAGE``."""
        position = self.position(path)
        where = inert(self.name) + (f":{position.line}:{position.column}" if position else "")
        shown = spelled(path)
        raise YamlRefused(f"{where}: {shown + ' ' if shown else ''}{message}", position)


def parse(text: str | bytes, name: str) -> Document:
    """Parse one YAML document; ``name`` is the file as messages call it. Raises YamlRefused."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise YamlRefused(
                f"{inert(name)}: the file is not UTF-8 (byte {error.start} is invalid)"
            ) from None
    import yaml  # here, because most commands in most workspaces read no YAML

    try:
        node = yaml.compose(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = Position(mark.line + 1, mark.column + 1) if mark else None
        place = f":{where.line}:{where.column}" if where else ""
        raise YamlRefused(
            f"{inert(name)}{place}: not valid YAML: {inert(str(error.problem))}", where
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        first = (str(error).splitlines() or ["unreadable"])[0]
        raise YamlRefused(f"{inert(name)}: not valid YAML: {inert(first)}") from None
    except RecursionError:
        raise YamlRefused(f"{inert(name)}: nested deeper than {MAX_DEPTH} levels") from None
    builder = _Builder(name)
    value = None if node is None else builder.build(node, ())
    return Document(name, value, builder.positions)


@cache
def _loader() -> Any:
    """Composes nodes only. Untagged scalars are told apart as plain and quoted; what they mean is ours."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
            if kind is not yaml.ScalarNode:
                return _LIST if kind is yaml.SequenceNode else _MAP
            return _PLAIN if implicit[0] else _TEXT

    return Loader


class _Builder:
    def __init__(self, name: str) -> None:
        self.positions: dict[Path, Position] = {}
        self._name = name
        self._count = 0
        self._open: set[int] = set()

    def build(self, node: Any, path: Path) -> Any:
        here = _position(node)
        self.positions.setdefault(path, here)
        self._count += 1
        if self._count > MAX_NODES:
            self._refuse(node, path, f"holds more than {MAX_NODES:,} values")
        if len(path) > MAX_DEPTH:
            self._refuse(node, (), f"nested deeper than {MAX_DEPTH} levels")
        if id(node) in self._open:
            self._refuse(node, path, "refers to itself")
        if node.id == "scalar":
            return self._scalar(node, path)
        self._open.add(id(node))
        try:
            if node.id == "sequence":
                self._admit_tag(node, path, _LIST)
                return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
            self._admit_tag(node, path, _MAP)
            return self._mapping(node, path)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            if key_node.id != "scalar":
                self._refuse(key_node, path, "has a key that is not text")
            if key_node.value == _MERGE and key_node.tag == _PLAIN:
                merged.extend(value_node.value if value_node.id == "sequence" else [value_node])
                continue
            self._admit_tag(key_node, path, _TEXT, _PLAIN)
            key = key_node.value
            child = (*path, key)
            if key in result:
                self._refuse(key_node, child, "occurs twice")
            self.positions[child] = _position(key_node)
            result[key] = self.build(value_node, child)
        source: Any
        for source in merged:
            if source.id != "mapping":
                self._refuse(source, path, "merges (<<) something that is not a mapping")
            for key, value in self.build(source, path).items():
                result.setdefault(key, value)
        return result

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        text: str = node.value
        self._admit_tag(node, path, _TEXT, _PLAIN)
        if node.tag == _TEXT:
            return text
        if text in _WORDS:
            return _WORDS[text]
        match = _PLAIN_NUMBER.fullmatch(text)
        if match is None:
            return text
        if match[1] is None and match[2] is None:
            if len(text) > 310:
                self._refuse(node, path, "is an integer that JavaScript cannot represent")
            number = int(text)
            try:
                exact = int(float(number)) == number
            except OverflowError:
                exact = False
            if not exact:
                self._refuse(node, path, "is an integer that JavaScript cannot represent exactly; quote it")
            return number
        value = float(text)
        if value in (float("inf"), float("-inf")):
            self._refuse(node, path, "is a number out of range")
        return value

    def _admit_tag(self, node: yaml.Node, path: Path, *admitted: str) -> None:
        if node.tag not in admitted:
            self._refuse(node, path, f"has the tag {inert(node.tag)}; tags are not admitted")

    def _refuse(self, node: yaml.Node, path: Path, message: str) -> NoReturn:
        Document(self._name, None, {path: _position(node)}).refuse(path, message)


def _position(node: yaml.Node) -> Position:
    mark = node.start_mark
    return Position(mark.line + 1, mark.column + 1)


def spelled(path: Iterable[str | int]) -> str:
    """A path in words: ``plugins[0].config``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + shorten(part, 60)
    return text


class Section:
    """A mapping that is read key by key; ``done`` refuses what nobody asked for.

    ``what`` is what messages call it: ``a stub entry``. Each reading method raises YamlRefused in words when
    the value has another kind.
    """

    def __init__(self, document: Document, path: Path, value: Any, what: str) -> None:
        if not isinstance(value, dict):
            document.refuse(path, f"must be a mapping of keys to values, not {kind_of(value)}")
        self.document = document
        self.path = path
        self.what = what
        self._value: dict[str, Any] = value
        self._asked: list[str] = []

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def refuse(self, key: str, message: str) -> NoReturn:
        self.document.refuse((*self.path, key), message)

    def take(self, key: str, default: Any = None) -> Any:
        self._asked.append(key)
        return self._value.get(key, default)

    def text(self, key: str, default: str | None = None, *, empty: bool = False) -> str:
        value = self.take(key, default)
        if key not in self._value and default is None:
            self.document.refuse(self.path, f"needs the key {key!r}")
        if not isinstance(value, str) or (not value and not empty):
            self.refuse(key, f"must be text, not {kind_of(value)}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.take(key, default)
        if not isinstance(value, bool):
            self.refuse(key, f"must be true or false, not {kind_of(value)}")
        return value

    def number(self, key: str, default: float, *, low: float, high: float) -> float:
        value = self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(key, f"must be a number, not {kind_of(value)}")
        if not low <= value <= high:
            self.refuse(key, f"is {value:g}; admitted are {low:g} to {high:g}")
        return value

    def choice(self, key: str, default: str | None, choices: Iterable[str]) -> str:
        value = self.text(key, default)
        known = list(choices)
        if value not in known:
            self.refuse(key, f"is {inert(value)!r}; admitted are {', '.join(known)}")
        return value

    def list(self, key: str, what: str) -> list[Any]:
        value = self.take(key, [])
        if not isinstance(value, list):
            self.refuse(key, f"must be a list of {what}, not {kind_of(value)}")
        return value

    def section(self, key: str, what: str) -> Section:
        return Section(self.document, (*self.path, key), self.take(key, {}), what)

    def mapping(self, key: str, check: Callable[[str, Any], str | None]) -> dict[str, Any]:
        """A mapping whose entries ``check`` judges: a sentence refuses, None accepts."""
        section = self.section(key, "keys with values")
        for name, value in section.items():
            problem = check(name, value)
            if problem is not None:
                section.refuse(name, problem)
        return dict(section.items())

    def items(self) -> Iterable[tuple[str, Any]]:
        self._asked.extend(self._value)
        return list(self._value.items())

    def done(self) -> None:
        """Refuse the first key that was never asked for, with the nearest known one."""
        known = dict.fromkeys(self._asked)
        for key in self._value:
            if key not in known:
                import difflib

                near = difflib.get_close_matches(key, known, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                names = ", ".join(known)
                self.refuse(key, f"is not a key of {self.what}.{hint} Known keys: {names}")


def kind_of(value: Any) -> str:
    """What a person would call this JSON value: ``a list``, ``text`` …"""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "text" if value else "empty text"
    if isinstance(value, int | float):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "a mapping"


def json_bytes(document: Document, path: Path, value: Any) -> bytes:
    """The canonical JSON of a part of the document; refuses what JSON cannot carry."""
    try:
        return encode(value, "the value")
    except JsonRefused as error:
        document.refuse(path, f"cannot be kept as JSON: {error}")
