"""What a request for a child run asks, as far as it is to be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extension_api.agent_runs import AgentRunRefused
from extension_api.provenance import PROVENANCE_KEYS

from .store import to_json


def attempt_of(text: str | None) -> int:
    try:
        return int(text or 1)
    except ValueError:
        raise AgentRunRefused("bad_request", "metadata.attempt must be a whole number") from None


def trusted(child_input: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The input without the provenance keys, which belong to the host, and its JSON text."""
    try:
        text = to_json(child_input)
        if '"deerflow_' in text:
            child_input = _strip(child_input)
            text = to_json(child_input)
    except (TypeError, ValueError, RecursionError) as error:
        raise AgentRunRefused("bad_request", f"the input is not JSON ({type(error).__name__})") from None
    return child_input, text


def _strip(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _strip(part) for key, part in value.items() if key not in PROVENANCE_KEYS}
    if isinstance(value, list | tuple):
        return [_strip(part) for part in value]
    return value
