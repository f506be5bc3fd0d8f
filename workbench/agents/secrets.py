"""Secrets of agents: looked up where they are used, at the moment of use, and kept nowhere.

A secret is referred to as ``{env: NAME}`` or ``{keyring: NAME}``. The keyring is the one of the operating system,
reached through the package ``keyring`` where it is installed; the entry's service is SERVICE, its user name NAME.
No message holds a secret, and ``Scrubber`` takes secrets out of what a server says.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
from typing import Any, Final

from extension_api.hashing import canonical_json

from .base import BackendUnavailable
from .settings import secret_name

SERVICE: Final = "workflow-workbench"
#: A shorter secret is not looked for in texts: it would be found everywhere, and protects nothing.
_LEAST: Final = 6
_INSTEAD: Final = "[secret]"


def secret_problem(reference: Any) -> str | None:
    """Why the secret cannot be looked up here, as far as that is known without asking anybody, or None."""
    found = secret_name(reference)
    if found is None:
        return "the secret is not given as {env: NAME} or {keyring: NAME}"
    kind, name = found
    if kind == "env":
        return None if os.environ.get(name) else f"the environment variable {name} is not set"
    if importlib.util.find_spec("keyring") is None:
        return (
            f"the secret {name} is in the keyring, and the package keyring is not installed. "
            "Install it: python -m pip install keyring"
        )
    return None


async def resolve(reference: Any) -> str:
    """The secret. Raises BackendUnavailable in words that do not hold it."""
    problem = secret_problem(reference)
    if problem is not None:
        raise BackendUnavailable(problem)
    kind, name = secret_name(reference) or ("", "")
    value = os.environ.get(name, "") if kind == "env" else await asyncio.to_thread(_from_keyring, name)
    if not value.isascii() or not value.isprintable():
        raise BackendUnavailable(
            f"the secret {name} holds characters other than printable ASCII, which no header carries"
        )
    return value


def _from_keyring(name: str) -> str:
    try:
        value = importlib.import_module("keyring").get_password(SERVICE, name)
    except Exception as error:  # noqa: BLE001 - each keyring has its own errors, and their texts are not for us
        raise BackendUnavailable(f"the keyring did not give {name}: {type(error).__name__}") from None
    if not isinstance(value, str) or not value:
        raise BackendUnavailable(
            f"the keyring has no secret {name}. Store it: python -m keyring set {SERVICE} {name}"
        )
    return value


class Scrubber:
    """Knows the secrets of one conversation, to keep them out of texts and results."""

    def __init__(self, *secrets: str) -> None:
        written = [json.dumps(value)[1:-1] for value in secrets]
        self._secrets = sorted({each for each in (*secrets, *written) if len(each) >= _LEAST}, key=len)[::-1]

    def text(self, text: str) -> str:
        """``text`` with every secret replaced."""
        for value in self._secrets:
            text = text.replace(value, _INSTEAD)
        return text

    def found_in(self, value: Any) -> bool:
        """Whether a JSON value holds a secret anywhere, keys included. What is not JSON is kept by nobody."""
        try:
            text = canonical_json(value)
        except (TypeError, ValueError, RecursionError):
            return False
        return any(each in text for each in self._secrets)

    def __repr__(self) -> str:
        return "Scrubber(…)"
