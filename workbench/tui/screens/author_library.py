"""The library in the Author screen: saving a version, and comparing scripts and versions with each other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workflows_core.errors import WorkflowError

from ...drafts import Draft, VersionDraft, version_label
from ...scripts import script_name
from ..widgets.lines import Span
from . import author_dialogs as ask
from .author_editors import EditorColumn, OpenFile
from .author_files import Files
from .author_scripts import version_path
from .base import WorkbenchScreen

if TYPE_CHECKING:
    from workflows_core.model import Definition


@dataclass(frozen=True, slots=True)
class Side:
    """One of two texts: a saved version, an open working copy, or a script that is not open."""

    name: str
    stem: str
    path: Path
    version: Definition | None = None
    file: OpenFile | None = None


class Library:
    """Acts on saved versions. What is saved is kept in ``files.versions``."""

    def __init__(self, screen: WorkbenchScreen, column: EditorColumn, files: Files) -> None:
        self._screen = screen
        self._column = column
        self._files = files

    def version_at(self, path: Path) -> Definition | None:
        """The saved version that ``path`` stands for."""
        return next((item for item in self._files.versions if version_path(item) == path), None)

    async def open(self, path: Path) -> OpenFile:
        """Show the script or saved version ``path``. Raises UsageError, LimitExceeded."""
        version = self.version_at(path)
        return await (self._files.open(path) if version is None else self._files.open_version(version))

    async def loaded(self, file: OpenFile) -> bool:
        """Whether there is something to launch: a version that is not loaded is tried again, else it is said."""
        draft = file.draft
        if not isinstance(draft, VersionDraft) or not draft.blocked:
            return True
        await self._files.load(file)
        if draft.blocked:
            self._screen.workbench.notice(
                f"Not launched: {draft.label} cannot be loaded, {draft.failure}. Choose another version or script, "
                "or write one here.",
                severity="warning",
            )
        return not draft.blocked

    async def save(self, file: OpenFile, text: str) -> None:
        """Ask for a name and save ``text``, which was checked."""
        kept: list[Definition] = []
        known = set(map(version_path, self._files.versions))

        async def keep(name: str) -> None:
            async with self._screen.busy("saving the version"):
                kept.append(await self._screen.context.client.save(name, text))

        dialog = ask.NameDialog(
            script_name(file.draft.path),
            title="Save as a version",
            text="Keeps exactly this text in the library as NAME@HASH, where it never changes.",
            act=keep,
        )
        await self._screen.app.push_screen_wait(dialog)
        if not kept:
            return
        saved = kept[0]
        label = version_label(saved.name, saved.version)
        was = version_path(saved) in known
        self._screen.workbench.notice(f"{label} was saved before." if was else f"{label} is saved.")
        draft = file.draft
        if isinstance(draft, VersionDraft) and draft.text == text:
            other = self._column.file_of(version_path(saved))
            if other is None:
                draft.become(saved.name, saved.version)
                self._move_form(file, version_path(saved))
                self._column.retitle()
        await self._files.find_versions()
        self._files.remember()

    def _move_form(self, file: OpenFile, path: Path) -> None:
        forms = self._files.session.forms
        if str(file.path) in forms:
            forms[str(path)] = forms[str(file.path)]
        file.path = path

    async def compare(self, path: Path | None) -> None:
        """Ask what to compare the script or version ``path`` with, else what is shown, and show both.

        Raises what reading a script or a version raises.
        """
        sides = self._sides()
        current = self._column.current
        subject = next(
            (side for side in sides if (side.path == path if path is not None else side.file is current)),
            None,
        )
        if subject is None:
            subject = next(
                (side for side in sides if current is not None and side.path == current.path), None
            )
        if subject is None:
            return
        others = [side for side in sides if side is not subject]
        # What has the same name comes first: usually its versions are meant.
        others.sort(key=lambda side: side.stem != subject.stem)
        if not others:
            self._screen.workbench.notice("There is no other script or version to compare with.")
            return
        choices = [(side.name, "working copy" if side.version is None else "version") for side in others]
        index = await self._screen.app.push_screen_wait(ask.Picker(f"Compare {subject.name} with", choices))
        if index is None:
            return
        # A version, which is the older of the two, stands on the left.
        left, right = sorted((subject, others[index]), key=lambda side: side.version is None)
        async with self._screen.busy("comparing"):
            texts = [(side.name, await self._text(side)) for side in (left, right)]
        from .author_compare import CompareScreen

        self._screen.app.push_screen(CompareScreen(*texts))

    def _sides(self) -> list[Side]:
        """What can be compared: every version, every open working copy, every other script."""
        sides = [
            Side(version_label(item.name, item.version), item.name, version_path(item), version=item)
            for item in self._files.versions
        ]
        for file in self._column.files:
            draft = file.draft
            if not isinstance(draft, VersionDraft) or draft.dirty:
                name = f"{file.label}, edited" if isinstance(draft, VersionDraft) else file.label
                sides.append(Side(name, script_name(draft.path), file.path, file=file))
        for path in self._files.found.scripts:
            if self._column.file_of(path) is None:
                sides.append(Side(str(path), script_name(path), path))
        return sides

    async def _text(self, side: Side) -> str:
        """A version as it was saved, an open script as it stands, another one from its file."""
        if side.version is not None:
            _, script = await self._screen.context.client.definition(side.version.name, side.version.version)
            VersionDraft(Path(), side.version.name, side.version.version).load(script)
            return script
        if side.file is not None:
            return side.file.editor.text
        root = self._screen.context.workspace.root
        return (await asyncio.to_thread(Draft.open, root / side.path)).text

    def standing(self, file: OpenFile) -> list[Span]:
        """The version line of the launch pane: what a launch of ``file`` would be a launch of."""
        draft = file.draft
        head = "Version  "
        if not isinstance(draft, VersionDraft):
            same = self._same(draft.text)
            if same is None:
                return [Span(f"{head}working copy", "quiet")]
            return [Span(f"{head}working copy, equal to {version_label(same.name, same.version)}", "quiet")]
        if draft.attached:
            return [Span(f"{head}{draft.label}")]
        if draft.blocked:
            return [
                Span(f"{head}{draft.label} cannot be loaded", "bad"),
                Span(draft.failure or "it is not loaded yet", "bad"),
            ]
        return [Span(f"{head}working copy, detached from {draft.label}", "quiet")]

    def _same(self, text: str) -> Definition | None:
        if not self._files.versions:
            return None
        from workflows_core.script.source import script_hash

        try:
            digest = script_hash(text)
        except (UnicodeEncodeError, WorkflowError):
            return None
        return next((item for item in self._files.versions if item.version == digest), None)
