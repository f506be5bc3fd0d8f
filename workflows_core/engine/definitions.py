"""Saved versions: immutable, owner-scoped, named by the SHA-256 of their script."""

from __future__ import annotations

import re
from typing import Final

from .. import limits
from ..errors import Conflict, LimitExceeded, NotFound, QuotaReached, UsageError
from ..model import Definition, now
from ..script.source import prove_function_body, script_bytes, script_hash
from ..store.base import WorkflowStore
from ..store.rows import check_saved

NAME: Final = re.compile(rf"[A-Za-z0-9_](?:[A-Za-z0-9_. -]{{0,{limits.NAME_LENGTH - 2}}}[A-Za-z0-9_.-])?")


def save(store: WorkflowStore, owner: str, name: str, script: str) -> Definition:
    """Save a script as a version; an identical save returns the version that exists."""
    if NAME.fullmatch(name) is None:
        raise UsageError(
            f"a name has 1 to {limits.NAME_LENGTH} letters, digits, spaces or any of _ . -, starts with "
            "a letter or digit and does not end with a space"
        )
    try:
        size = script_bytes(script)
    except UnicodeEncodeError:
        raise UsageError("the script holds a lone surrogate, which is not text") from None
    if size > limits.SCRIPT_BYTES:
        raise LimitExceeded(f"the script takes {size:,} bytes as JSON; admitted are {limits.SCRIPT_BYTES:,}")
    prove_function_body(script)
    version = script_hash(script)
    saved = store.definitions(owner)
    for known in saved:
        if (known.name, known.version) == (name, version):
            store.save_definition(known, script)  # its script may have been damaged in the store
            return known
    if len(saved) >= limits.VERSIONS_PER_OWNER:
        raise QuotaReached(f"{limits.VERSIONS_PER_OWNER} versions are saved, which is the limit")
    definition = Definition(owner=owner, name=name, version=version, saved_at=now())
    store.save_definition(definition, script)
    return definition


def load(store: WorkflowStore, owner: str, name: str, version: str) -> tuple[Definition, str]:
    """The saved version and its script. ``version`` is the hash or a unique prefix of at least 7 digits.

    Never the latest one: a name alone names nothing. Raises NotFound and Conflict in words.
    """
    if len(version) < 7:
        raise UsageError("name a version by at least the first 7 characters of its hash: NAME@HASH")
    found = [
        item for item in store.definitions(owner) if item.name == name and item.version.startswith(version)
    ]
    if not found:
        raise NotFound(f"there is no saved version {name}@{version[:12]}; 'workbench library' lists them")
    if len(found) > 1:
        raise Conflict(f"more than one version of {name} starts with {version}; give more of the hash")
    script = store.script(found[0].version)
    check_saved(found[0], script.encode("utf-8"))
    return found[0], script
