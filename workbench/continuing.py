"""Which recorded answers a fork uses again: all, those before the place where it first differs, or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from extension_api.hashing import canonical_hash
from workflows_core.engine.requests import LaunchRequest
from workflows_core.journal.bundle import Bundle

from .forking import Fork
from .recordings import recorded

#: ``recorded``: what asks exactly what was recorded is answered as recorded, wherever it stands; the rest by stubs.
#: ``stubs``: as recorded up to the first difference, then by the run's stub set alone.
#: ``real``: as ``recorded``, but real Agents answer the rest.
How = Literal["recorded", "stubs", "real"]
WAYS: Final[tuple[How, ...]] = ("recorded", "stubs", "real")


def agreed_only(fork: Fork, bundle: Bundle) -> LaunchRequest:
    """The launch of ``fork`` with recorded answers up to its first difference from ``bundle``, and none from there on."""
    found = fork.verdict.divergence
    options: dict[str, Any] = dict(fork.request.options)
    if found is None:
        return fork.request
    entries = list(options["stubs"])
    answered = [one for one in recorded(bundle) if one.call["op"] == "agent" and one.result is not None]
    kept = [
        entry
        for one, entry in zip(answered, entries[: len(answered)], strict=True)
        if one.frame < found.frame
    ]
    whole = [*kept, *entries[len(answered) :]]
    options |= {"stubs": whole, "stubs_hash": canonical_hash(whole)}
    return msgspec.structs.replace(fork.request, options=options)


def anew(fork: Fork, bundle: Bundle, options: Mapping[str, Any] | None = None) -> LaunchRequest:
    """The launch of ``fork`` without a recorded answer: ``options`` say who answers, else the run's own stub set.

    A run that asked real Agents has no stub set: then every call gets its own task back.
    """
    found = bundle.read_options() if options is None else options
    if options is None and found.get("agents") != "stub":
        found = {"agents": "stub", "stubs": [], "stubs_hash": canonical_hash([]), "label": "no stub set"}
    return msgspec.structs.replace(fork.request, options=dict(found))
