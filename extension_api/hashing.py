"""Canonical JSON and its hash (contract 0.2.0)."""

from __future__ import annotations

import hashlib
import json

#: Made once: json.dumps with these options would make a new encoder at each call.
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical_json(value: object) -> str:
    """Deterministic JSON: sorted keys, no insignificant white space, non-ASCII characters as they are.

    Raises TypeError for a value that JSON cannot express, NaN and the infinities included.
    """
    try:
        return _encode(value)
    except ValueError as error:
        raise TypeError(str(error)) from None


def canonical_hash(value: object) -> str:
    """SHA-256 hex digest of ``canonical_json(value)`` encoded as UTF-8.

    Raises TypeError also for a lone surrogate, which UTF-8 cannot express.
    """
    try:
        encoded = canonical_json(value).encode("utf-8")
    except UnicodeEncodeError as error:
        raise TypeError(str(error)) from None
    return hashlib.sha256(encoded).hexdigest()
