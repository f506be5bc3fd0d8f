"""Reads of captures in the journal: by reference there, with their bytes in what JavaScript is given.

The bytes are put in just before a batch is given, live and in replay alike, so both sides see the same text.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from .. import jsontext
from ..errors import NotFound
from ..model import Capture

Find = Callable[[str], Capture | None]

_MARK = b'"artifact":{'


def expander(find: Find) -> Callable[[bytes], bytes]:
    """The function that turns a recorded response body into the one that is given; ``find(version)`` gives a
    capture. A body without references passes unchanged. It raises NotFound where captured bytes are missing
    or are not those that were read.
    """

    def expand(body: bytes) -> bytes:
        if _MARK not in body:
            return body
        parsed = jsontext.parse(body, "a response")
        parsed["results"] = [_expanded(result, find) for result in parsed["results"]]
        return jsontext.encode(parsed)

    return expand


def _expanded(result: dict[str, Any], find: Find) -> dict[str, Any]:
    reference = result.pop("artifact", None)
    if reference is None:
        return result
    version = str(reference["version"])
    capture = find(version)
    if capture is None:
        raise NotFound(f"the captured bytes of version {version[:7]} are missing")
    start = reference["offset"]
    data = capture.body[start : start + reference["length"]]
    if jsontext.sha256(data) != reference["sha256"]:
        raise NotFound(f"the captured bytes of version {version[:7]} do not match their hash")
    encoded = base64.b64encode(data).decode("ascii")
    return {**result, "value": {"data": encoded, "next_offset": reference["next_offset"]}}
