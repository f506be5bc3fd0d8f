"""The scripts and stub sets of a workspace, and the tree that shows them."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from textual.binding import BindingType

from workflows_core.model import Definition

from ...scripts import SCRIPT_SUFFIX, STUBS_SUFFIX
from .. import keymap
from ..widgets.lines import Line, LineList, Span, fit

#: Folders that hold no scripts of a person's own, besides hidden ones.
_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "venv", "build", "dist", "site-packages"})
DEPTH: Final = 5
#: Directory entries looked at, and files listed, before the search stops and says so.
ENTRIES: Final = 20_000
LISTED: Final = 1_000


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, as paths relative to the workspace, sorted; ``cut``: there may be more."""

    scripts: tuple[Path, ...] = ()
    stub_sets: tuple[Path, ...] = ()
    cut: bool = False


def find_scripts(root: Path) -> Found:
    """Look for scripts and stub sets under ``root``. Links to folders are not followed; never raises."""
    scripts: list[Path] = []
    stub_sets: list[Path] = []
    seen = 0
    waiting = [(root, 0)]
    while waiting:
        folder, depth = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > ENTRIES or len(scripts) + len(stub_sets) >= LISTED:
                        return _found(root, scripts, stub_sets, cut=True)
                    if entry.name.startswith(".") or entry.name in _SKIPPED:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if depth < DEPTH:
                            waiting.append((Path(entry.path), depth + 1))
                    elif entry.name.endswith(SCRIPT_SUFFIX):
                        scripts.append(Path(entry.path))
                    elif entry.name.endswith(STUBS_SUFFIX):
                        stub_sets.append(Path(entry.path))
        except OSError:
            continue  # a folder that may not be read holds nothing for this person
    return _found(root, scripts, stub_sets, cut=False)


def _found(root: Path, scripts: Sequence[Path], stub_sets: Sequence[Path], *, cut: bool) -> Found:
    def inside(paths: Sequence[Path]) -> tuple[Path, ...]:
        relative = (path.relative_to(root) for path in paths)
        return tuple(sorted(relative, key=lambda path: (path.parts[:-1], path.name.casefold())))

    return Found(inside(scripts), inside(stub_sets), cut)


class _Item(NamedTuple):
    """A row of the tree: a heading or folder, a script with its ``path``, or a version of the library."""

    label: str
    depth: int
    path: Path | None
    version: Definition | None = None


class ScriptRows:
    """Scripts as a tree: those of the workspace's own folder first, the others under their folder.

    ``current`` is the open script that is shown, ``dirty`` those with unsaved changes; all paths are relative.
    Where there are saved versions, they follow under ``library``, and ``version_path`` gives each a path.
    """

    def __init__(
        self,
        scripts: Sequence[Path],
        *,
        current: Path | None = None,
        dirty: Collection[Path] = (),
        versions: Sequence[Definition] = (),
        unicode: bool = True,
    ) -> None:
        self._items: list[_Item] = [_Item("workspace", 0, None)] if versions else []
        base = 1 if versions else 0
        self._current = current
        self._dirty = frozenset(dirty)
        self._dot = "●" if unicode else "*"
        folder: tuple[str, ...] = ()
        for path in scripts:
            parts = path.parts[:-1]
            if parts != folder:
                folder = parts
                self._items.append(_Item("/".join(parts) + "/", base, None))
            label = path.name.removesuffix(SCRIPT_SUFFIX)
            self._items.append(_Item(label, base + (1 if parts else 0), path))
        if versions:
            self._items.append(_Item("library", 0, None))
            self._items += [_Item(item.name, 1, version_path(item), item) for item in versions]

    def __len__(self) -> int:
        return len(self._items)

    def path(self, index: int) -> Path | None:
        """The path of a row's script or version, or None for a heading or folder."""
        return self._items[index].path

    def version(self, index: int) -> Definition | None:
        """The version of a row, or None for anything else."""
        return self._items[index].version

    def row_id(self, index: int) -> str:
        item = self._items[index]
        return item.label if item.path is None else str(item.path)

    def line(self, index: int, width: int) -> Line:
        label, depth, path, version = self._items[index]
        if path is None:
            return [Span("  " * depth + label, "quiet")]
        if version is not None:
            room = max(4, width - 2 * depth - 1 - len(version.version[:7]))
            name = "  " * depth + fit(label, room)
            return [
                Span(name, "accent" if path == self._current else ""),
                Span(f" {version.version[:7]}", "quiet"),
            ]
        mark = f" {self._dot}" if path in self._dirty else ""
        text = fit("  " * depth + label, max(4, width - 2)).rstrip()
        return [Span(text, "accent" if path == self._current else ""), Span(mark, "strong")]

    def text(self, index: int) -> str:
        item = self._items[index]
        return str(item.path) if item.path is not None else item.label


def version_path(version: Definition) -> Path:
    """What stands for a version where a script has its path: it ends in no script's suffix, so none is equal."""
    return Path(f"{version.name}@{version.version}")


class ScriptList(LineList):
    """The tree of scripts; its own keys make, edit outside and close scripts."""

    BINDINGS: ClassVar[list[BindingType]] = keymap.bindings("author.scripts")
