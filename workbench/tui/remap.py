"""How a person's keys are put in the place of the table's, and what is refused, in words."""

from __future__ import annotations

import difflib
import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from textual import events
from textual._xterm_parser import XTermParser
from textual.keys import Keys, _character_to_key

from .keymap import BY_ID, CHAINS, TABLE, rows
from .keys.row import Key

_MODIFIERS: Final = frozenset({"ctrl", "shift", "alt", "super", "hyper", "meta"})
_KNOWN_KEYS: Final = frozenset(
    {key.value for key in Keys} | {_character_to_key(chr(code)) for code in range(0x20, 0x7F)}
)
_LABELS: Final[Mapping[str, tuple[str, str]]] = {
    "up": ("↑", "up"),
    "down": ("↓", "down"),
    "left": ("←", "left"),
    "right": ("→", "right"),
    "escape": ("esc", "esc"),
    "pageup": ("pgup", "pgup"),
    "pagedown": ("pgdn", "pgdn"),
    "question_mark": ("?", "?"),
    "slash": ("/", "/"),
    "colon": (":", ":"),
    "space": ("space", "space"),
    "full_stop": (".", "."),
    "comma": (",", ","),
    "less_than_sign": ("<", "<"),
    "greater_than_sign": (">", ">"),
    "left_square_bracket": ("[", "["),
    "right_square_bracket": ("]", "]"),
    "equals_sign": ("=", "="),
}


def typed(data: str) -> list[str]:
    """The names of the keys that Textual reads from what a terminal sent."""
    parser = XTermParser()
    tokens = [token for part in (data, "") for token in parser.feed(part)]
    return [token.key for token in tokens if isinstance(token, events.Key)]


@cache
def unusable() -> frozenset[str]:
    """Keys that terminals send as another key, as Textual's own parser reads them: ctrl+i is a tab.

    Line feed is read as ctrl+j, but is what some terminals send for enter.
    """
    sent = {f"ctrl+{letter}": chr(ord(letter) & 0x1F) for letter in string.ascii_lowercase}
    sent |= {f"ctrl+{_character_to_key('[')}": "\x1b"}
    sent |= {f"alt+{_character_to_key(chr(code))}": f"\x1b{chr(code)}" for code in range(0x21, 0x7F)}
    return frozenset({"ctrl+j"} | {key for key, data in sent.items() if typed(data) != [key]})


@dataclass(frozen=True, slots=True)
class Keymap:
    """What is in force: ``overrides`` for Textual's ``set_keymap``, and ``problems`` in words."""

    overrides: Mapping[str, str]
    problems: tuple[str, ...] = ()

    def keys(self, id: str) -> str:
        """The keys of the row ``id``, comma separated."""
        return self.overrides.get(id, BY_ID[id].keys)

    def label(self, id: str, *, unicode: bool = True) -> str:
        """The keys of the row ``id`` as people write them: ``ctrl+q``, ``home ctrl+a``, ``?``."""
        return " ".join(display(key, unicode=unicode) for key in self.keys(id).split(","))


def display(key: str, *, unicode: bool = True) -> str:
    """One Textual key name as people write it: ``question_mark`` is ``?``."""
    *modifiers, name = key.split("+")
    glyph, plain = _LABELS.get(name, (name, name))
    return "+".join((*modifiers, glyph if unicode else plain))


#: What the four letters stand for where arrows do something. Panes in which letters are typed do without.
_HJKL: Final[Mapping[str, str]] = {"left": "h", "down": "j", "up": "k", "right": "l"}
_TYPED_IN: Final = frozenset({"field", "author.editor", "help", "palette"})


def hjkl() -> dict[str, str]:
    """The rows that take h, j, k or l beside their arrows, each with its keys."""
    taken: dict[str, str] = {}
    for row in TABLE:
        keys = row.keys.split(",")
        letters = [_HJKL[key] for key in keys if key in _HJKL and _HJKL[key] not in keys]
        if letters and row.pane not in _TYPED_IN:
            taken[row.id] = ",".join([*keys, *letters])
    return taken


def load(user: Mapping[str, Any], *, letters: bool = False) -> Keymap:
    """Validate a person's ``keymap`` and resolve it against the table.

    What cannot be used is left at its default and reported: an unknown id, something that is not a key, a key
    that no terminal sends, a plain character for a key that also acts while typing, and a key that something
    else uses in the same pane. With ``letters`` h, j, k and l go where the arrows go; a person's own keys come first.
    """
    overrides: dict[str, str] = {}
    problems: list[str] = []
    for id, value in user.items():
        row = BY_ID.get(str(id))
        if row is None:
            near = difflib.get_close_matches(str(id), BY_ID, n=1)
            problems.append(
                f"keymap.{id} names no key binding" + (f"; did you mean {near[0]}?" if near else "")
            )
            continue
        try:
            overrides[row.id] = _parse(value, row)
        except ValueError as error:
            problems.append(f"keymap.{id} {error}; it keeps {_words(row.keys)}")
    while clash := _first_clash(overrides):
        loser, other, key = clash
        del overrides[loser]
        problems.append(
            f"keymap.{loser} is {display(key)}, which {other} uses in the same pane; "
            f"it keeps {_words(BY_ID[loser].keys)}"
        )
    if letters:
        _add_letters(overrides)
    return Keymap(overrides, tuple(problems))


def _add_letters(overrides: dict[str, str]) -> None:
    """Add the letters row by row, but for rows that are remapped and where a letter means something else."""
    for id, keys in hjkl().items():
        if id not in overrides:
            overrides[id] = keys
            if any(id in (one, other) for one, other, _key in clashes(overrides)):
                del overrides[id]


def clashes(overrides: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    """Pairs of ids that the same key would reach in one chain of panes, with that key."""
    for chain in CHAINS.values():
        used: dict[str, str] = {}
        for row in rows(chain):
            for key in overrides.get(row.id, row.keys).split(","):
                if key in used and not _shadows(BY_ID[used[key]], row):
                    yield used[key], row.id, key
                used.setdefault(key, row.id)


def _shadows(inner: Key, outer: Key) -> bool:
    """Whether ``inner`` is meant to take ``outer``'s key while its pane has the focus.

    Escape always means going back by one step, and ctrl+c always means copy; the innermost pane knows what.
    A text field keeps its editing keys.
    """
    same_step = {inner.verb, outer.verb} <= {"back", "leave"} or inner.verb == outer.verb
    return inner.pane != outer.pane and (same_step or inner.pane in ("field", "author.editor"))


def _first_clash(overrides: Mapping[str, str]) -> tuple[str, str, str] | None:
    for one, other, key in clashes(overrides):
        if other in overrides and one not in overrides:
            one, other = other, one
        if one in overrides:
            return one, other, key
    return None


def _parse(value: Any, row: Key) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a key such as ctrl+e, or several with commas between them")
    keys = []
    for part in value.split(","):
        *modifiers, name = part.strip().split("+") if len(part.strip()) > 1 else [part.strip()]
        name = _character_to_key(name) if len(name) == 1 else name
        key = "+".join((*modifiers, name))
        if key in unusable():
            raise ValueError(f"is {key}, which terminals send as another key")
        if (
            not name
            or not set(modifiers) <= _MODIFIERS
            or (name not in _KNOWN_KEYS and key not in _KNOWN_KEYS)
        ):
            raise ValueError(f"holds {part.strip()!r}, which is not a key")
        if row.priority and not modifiers and not re.fullmatch(r"f\d+", name):
            raise ValueError(f"is {display(key)}, which would also act while you type")
        keys.append(key)
    return ",".join(keys)


def _words(keys: str) -> str:
    return " and ".join(display(key) for key in keys.split(","))
