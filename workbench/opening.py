"""Finding the run that a person means: in the workspace, in a store file, or in a bundle. All read-only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from workflows_core.errors import NotFound, StoreError, UsageError
from workflows_core.journal.bundle import SUFFIX, Bundle, open_bundle
from workflows_core.store.snapshot import is_store, list_stored, read_stored, resolve_stored

if TYPE_CHECKING:
    from .workspace import Workspace


def names_file(target: str) -> bool:
    """Whether ``target`` means a file to ``open_run``, be it there or not, rather than a run of the workspace."""
    path = Path(target)
    return path.suffix in (SUFFIX, ".sqlite") or len(path.parts) > 1 or path.is_file()


def open_run(workspace: Workspace, target: str, store: Path | None = None) -> Bundle:
    """The run that ``target`` names: a ``.wfrun`` file, a store file that holds one run, or a run id.

    A run id, or the beginning of one, is looked up in ``store`` where that is given, else in the workspace.
    Raises UsageError for a file that cannot be used, NotFound for an id, StoreError for the workspace's store.
    """
    if store is not None:
        return _from_file(workspace, store, target)
    path = Path(target)
    if path.is_file():
        stored = path.suffix != SUFFIX and (_own(workspace, path) or is_store(path))
        return _from_file(workspace, path, None) if stored else open_bundle(path)
    if names_file(target):
        raise UsageError(f"there is no file {target}")
    own = workspace.storage_path
    if not own.is_file():
        raise NotFound(f"there are no runs in {workspace.root} yet; 'workbench run SCRIPT' launches one")
    return read_stored(own, resolve_stored(own, target, copy=False), copy=False)


def _own(workspace: Workspace, path: Path) -> bool:
    """Whether the file belongs to this workspace, so that this process may have it open as a store.

    Such a file is read through SQLite only: closing any other descriptor of it would drop the locks that SQLite
    holds on it for this process, and another process could then take its log away.
    """
    own = workspace.storage_path
    return workspace.state_dir.resolve() in path.resolve().parents or (own.is_file() and path.samefile(own))


def _from_file(workspace: Workspace, path: Path, run: str | None) -> Bundle:
    """A run out of a store file; what is wrong with the file is the caller's input that cannot be used."""
    if not path.is_file():
        raise UsageError(f"there is no store at {path}")
    copy = not _own(workspace, path)
    try:
        if run is None:
            found = list_stored(path, copy=copy)
            if len(found) != 1:
                names = ", ".join(f"{one.run_id} ({one.name})" for one in found[:8]) or "none"
                raise UsageError(f"{path} holds {len(found)} runs: {names}. Name one: RUN --store {path}")
            run = found[0].run_id
        return read_stored(path, resolve_stored(path, run, copy=copy), copy=copy)
    except StoreError as error:
        raise UsageError(error.message, code="store_unreadable") from None
