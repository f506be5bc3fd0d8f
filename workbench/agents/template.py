"""``{{task.product}}`` in the replies of a stub set.

A placeholder starts with ``task`` and walks down by dots; a number picks from a list. A string that is one
placeholder and nothing else becomes the value itself; inside longer text, text is inserted as it is and
anything else as JSON. What was inserted is not searched again. Other braces are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from extension_api.hashing import canonical_json

FILLED_CHARACTERS: Final = 1_000_000

_PLACEHOLDER = re.compile(r"\{\{\s*task((?:\.[^\s.{}]+)*)\s*\}\}")


class TemplateError(ValueError):
    """The reply cannot be filled in for this task. ``str()`` is a sentence."""


def fill(reply: Any, task: Any) -> Any:
    """``reply`` with every placeholder of its strings filled in. Raises TemplateError."""
    return _Filler(task).value(reply)


class _Filler:
    def __init__(self, task: Any) -> None:
        self._task = task
        self._room = FILLED_CHARACTERS

    def value(self, reply: Any) -> Any:
        if isinstance(reply, str):
            return self._text(reply) if "{{" in reply else reply
        if isinstance(reply, dict):
            return {key: self.value(part) for key, part in reply.items()}
        if isinstance(reply, list):
            return [self.value(part) for part in reply]
        return reply

    def _text(self, text: str) -> Any:
        whole = _PLACEHOLDER.fullmatch(text)
        if whole is not None:
            found = self._look_up(whole[1])
            self._spend(len(found) if isinstance(found, str) else len(canonical_json(found)))
            return found
        return _PLACEHOLDER.sub(self._insert, text)

    def _insert(self, match: re.Match[str]) -> str:
        found = self._look_up(match[1])
        text = found if isinstance(found, str) else canonical_json(found)
        self._spend(len(text))
        return text

    def _spend(self, characters: int) -> None:
        self._room -= characters
        if self._room < 0:
            raise TemplateError(f"the reply grows past {FILLED_CHARACTERS:,} characters when it is filled in")

    def _look_up(self, dotted: str) -> Any:
        value = self._task
        for part in dotted.split(".")[1:]:
            if isinstance(value, Mapping) and part in value:
                value = value[part]
            elif (
                isinstance(value, list | tuple)
                and part.isascii()
                and part.isdigit()
                and int(part) < len(value)
            ):
                value = value[int(part)]
            else:
                raise TemplateError(f"the reply names {{{{task{dotted}}}}}, which this task does not have")
        return value
