"""JSON at the borders of the engine: strict parsing and the one canonical encoding.

Frames, hashes and byte limits all use the contract's ``canonical_json`` encoded as UTF-8. What cannot pass
through JavaScript and back unchanged is refused in words: NaN and infinities, integers that a double cannot
hold, lone surrogates, and nesting deeper than MAX_DEPTH.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from extension_api.hashing import canonical_json

MAX_DEPTH = 200
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)

_TOKEN = re.compile(r'[{}\[\]]|(?P<string>"(?:[^"\\]|\\.)*")(?P<colon>\s*:)?', re.DOTALL)


class JsonRefused(ValueError):
    """The text or value cannot be carried exactly. ``str()`` is a sentence for people."""


def parse(text: str | bytes, what: str = "the JSON") -> Any:
    """Parse JSON text strictly; raise JsonRefused with a sentence that starts with ``what``."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise JsonRefused(f"{what} is not UTF-8: byte {error.start} is invalid") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise JsonRefused(f"{what} is nested deeper than {MAX_DEPTH} levels")
    try:
        return _DECODER.decode(text)
    except JsonRefused as error:
        raise JsonRefused(f"{what} {error}") from None
    except json.JSONDecodeError as error:
        raise JsonRefused(
            f"{what} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise JsonRefused(f"{what} is nested deeper than {MAX_DEPTH} levels") from None


def repeated_key(text: str) -> tuple[str, int] | None:
    """The first key that one object of valid JSON has twice, and the offset of the second; None where none has.

    ``parse`` keeps the last value of such a key, as JavaScript does.
    """
    keys: list[set[str]] = []
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in "{[":
            keys.append(set())
        elif first in "}]":
            keys.pop()
        elif token["colon"] is not None:
            key: str = json.loads(token["string"], strict=False)
            if key in keys[-1]:
                return key, token.start()
            keys[-1].add(key)
    return None


def encode(value: Any, what: str = "the value") -> bytes:
    """The canonical UTF-8 encoding of ``value``; raise JsonRefused where there is none."""
    try:
        return canonical_json(value).encode("utf-8")
    except UnicodeEncodeError:
        raise JsonRefused(f"{what} holds a lone surrogate, which is not text") from None
    except RecursionError:
        raise JsonRefused(f"{what} is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise JsonRefused(f"{what} cannot be written as JSON: {error}") from None


def size(value: Any, what: str = "the value") -> int:
    """How many bytes the canonical encoding takes: the measure of every byte limit."""
    return len(encode(value, what))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _integer(digits: str) -> int:
    if len(digits) < 16:
        return int(digits)
    if len(digits) > 310:
        raise JsonRefused("holds an integer that JavaScript cannot represent")
    value = int(digits)
    try:
        exact = int(float(value)) == value
    except OverflowError:
        exact = False
    if not exact:
        raise JsonRefused(f"holds the integer {digits[:24]}, which JavaScript cannot represent exactly")
    return value


def _float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise JsonRefused(f"holds the number {digits[:24]}, which is out of range")
    return value


def _constant(name: str) -> Any:
    raise JsonRefused(f"holds {name}, which is not JSON")


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_float, parse_constant=_constant)


def _depth(text: str) -> int:
    deepest = depth = 0
    for char in _STRING.sub("", text):
        if char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest
