"""What may be meant at a place of a script that is being written, without a screen."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

_NAMED: Final = re.compile(r"\b(stepId|sourceStepId|agentRef)\s*:\s*(['\"`])([^'\"`\\]*)$")
_WORD: Final = re.compile(r"(\.\s*)?([A-Za-z_$][\w$]*)?$")
_AWAITED: Final = re.compile(r"\bawait\s+$")
_KINDS: Final = ("step", "agent", "name", "function", "property")


class Word(msgspec.Struct, frozen=True):
    """A word that may be meant. ``kind`` is function, property, step, agent or name; ``insert`` is typed for it."""

    label: str
    kind: str
    detail: str
    insert: str


class Offer(msgspec.Struct, frozen=True):
    """What may replace the ``prefix`` that stands before the cursor."""

    prefix: str
    words: tuple[Word, ...]


def offer(words: Sequence[Word], agents: Collection[str], before: str) -> Offer:
    """What may be meant behind ``before``, the text of the cursor's line up to it.

    Inside the quotes of a stepId or agentRef that is a step or an Agent; behind a point a property; elsewhere any
    name. A word that stands there already is not offered.
    """
    named = _NAMED.search(before)
    if named is not None:
        key, _, prefix = named.groups()
        if key == "agentRef":
            found = [Word(name, "agent", "an Agent of this workspace", name) for name in sorted(agents)]
        else:
            found = [word for word in words if word.kind == "step"]
        return Offer(prefix, _matching(found, prefix))
    match = _WORD.search(before)
    point, prefix = (match.group(1), match.group(2) or "") if match is not None else (None, "")
    if point is not None:
        return Offer(prefix, _matching([word for word in words if _of_result(word)], prefix))
    head = before[: len(before) - len(prefix)]
    found = [
        msgspec.structs.replace(word, insert=word.insert.removeprefix("await "))
        if _AWAITED.search(head)
        else word
        for word in words
        if word.kind in ("function", "name", "property") and not _of_result(word)
    ]
    return Offer(prefix, _matching(found, prefix))


def _of_result(word: Word) -> bool:
    return word.kind == "property" and not word.insert.endswith(": ")


def _matching(words: Sequence[Word], prefix: str) -> tuple[Word, ...]:
    wanted = prefix.casefold()
    found = [word for word in words if word.label.casefold().startswith(wanted) and word.insert != prefix]
    return tuple(sorted(found, key=lambda word: (_KINDS.index(word.kind), word.label.casefold())))
