"""Writing a run of the workspace into a new ``.wfrun`` file, whole or redacted. Nothing is ever replaced."""

from __future__ import annotations

import asyncio
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workflows_core.errors import NotFound, UsageError
from workflows_core.journal.bundle import SUFFIX, Bundle, open_bundle, write
from workflows_core.store.snapshot import read_stored

if TYPE_CHECKING:
    from workflows_core.model import RunSummary, RunView

    from .workspace import Workspace


@dataclass(frozen=True, slots=True)
class Exported:
    """A file that was written: ``size`` in bytes, ``notes`` in words, as the bundle carries them."""

    path: Path
    size: int
    sha256: str
    frames: int
    redacted: bool
    notes: tuple[str, ...]


def stored_run(workspace: Workspace, run_id: str) -> Bundle:
    """A run of the workspace with all its records, in any state. Blocks. Raises NotFound and StoreError."""
    own = workspace.storage_path
    if not own.is_file():
        raise NotFound(f"there are no runs in {workspace.root} yet")
    return read_stored(own, run_id, copy=False)


async def export_run(workspace: Workspace, run_id: str, target: Path, *, redact: bool = False) -> Exported:
    """Write one run into the new file ``target``; with ``redact`` without its values, carrying the verdict of a
    replay made here.

    Raises UsageError where the file exists or cannot be written, NotFound, StoreError, BundleRefused.
    """
    bundle = await asyncio.to_thread(stored_run, workspace, run_id)
    if redact and not bundle.redacted:
        from workflows_core.journal.redact import redact as redacted
        from workflows_core.journal.verify import verdict_document, verify_bundle

        verdict = verdict_document(await verify_bundle(bundle))
        bundle = await asyncio.to_thread(redacted, bundle, verdict)
    return await asyncio.to_thread(_write_new, bundle, target)


def _write_new(bundle: Bundle, target: Path) -> Exported:
    """Write the file whole or not at all; before it is called done, what was made is opened again."""
    data = write(bundle)
    open_bundle(data)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(target, flags, 0o600)
    except FileExistsError:
        raise UsageError(f"{target} exists already; give another name") from None
    except (OSError, ValueError) as error:
        raise _refused(target, error) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        target.unlink(missing_ok=True)
        raise _refused(target, error) from None
    return Exported(
        target,
        len(data),
        hashlib.sha256(data).hexdigest(),
        len(bundle.frames),
        bundle.redacted,
        tuple(bundle.notes),
    )


def _refused(target: Path, error: OSError | ValueError) -> UsageError:
    why = error.strerror if isinstance(error, OSError) else "that is no file name"
    return UsageError(f"{target} cannot be written: {why}")


def suggested_file(run: RunSummary | RunView, folder: Path) -> str:
    """A name in ``folder`` that is free: of the run's name and id, its characters reduced to harmless ones."""
    safe = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in run.name)
    base = f"{safe.strip('.-')[:60] or 'run'}-{run.run_id.rpartition('_')[2][:7]}"
    name, number = f"{base}{SUFFIX}", 1
    while (folder / name).exists() and number < 1_000:
        number += 1
        name = f"{base}-{number}{SUFFIX}"
    return name
